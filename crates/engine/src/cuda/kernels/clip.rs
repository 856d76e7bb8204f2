//! Weight standardisation, upper bounds on per-sample norms, and the clipped sum.

use super::declare::{Count, Flag, In, Long, Maybe, Out, kernels, rows};
use crate::cuda::launch::LaunchGrid;
use crate::cuda::slice::element;

/// A run of a sample's written gradient that is squared together. For a standardised filter it says where the mean and one over the
/// deviation lie; otherwise both are -1.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GradientPart {
    pub(crate) start: i32,
    pub(crate) len: i32,
    pub(crate) mean: i32,
    pub(crate) inverse: i32,
}

const _: () = assert!(size_of::<GradientPart>() == 16);

/// A run that is added together: where it starts in a sample's written gradient, its length, where it starts in the sum, its parameter, and
/// where its mean and one over its deviation lie, as in a [`GradientPart`].
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GradientBlock {
    pub(crate) start: i32,
    pub(crate) len: i32,
    pub(crate) target: i32,
    pub(crate) entry: i32,
    pub(crate) mean: i32,
    pub(crate) inverse: i32,
}

const _: () = assert!(size_of::<GradientBlock>() == 24);

/// Where a parameter's partial sums begin and end.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartialRange {
    pub(crate) start: i32,
    pub(crate) end: i32,
}

const _: () = assert!(size_of::<PartialRange>() == 8);

element! {
    GradientPart => "GradientPart",
    GradientBlock => "GradientBlock",
    PartialRange => "PartialRange",
}

kernels! {
    /// Standardises filters of `n` weights, and writes one over the deviation of each.
    Standardise = "standardise" {
        weight: In<f32>[filters * n],
        used: Out<f32>[filters * n],
        inverses: Out<f32>[filters],
        n: Count,
        eps: f32,
    } given { filters: usize } over LaunchGrid::blocks(filters, 128);

    /// Turns the gradient of standardised filters into that of their weights.
    StandardiseBackward = "standardise_backward" {
        d: Out<f32>[filters * n],
        used: In<f32>[filters * n],
        inverses: In<f32>[filters],
        n: Count,
    } given { filters: usize } over LaunchGrid::blocks(filters, 128);

    /// Computes a bound on the squared norm of each part of a sample's written gradient, and the means that are taken off standardised
    /// filters. There is a warp for each part, and a row of the grid for each sample.
    PartNorms = "part_norms" {
        d: In<f32>,
        stride: Long,
        parts: In<GradientPart>[count],
        count: Count,
        inverses: In<f32>,
        means: Out<f32>,
        mean_stride: Count,
        partials: Out<f64>[rows(grid.blocks[1], partial_stride, count)],
        partial_stride: Count,
    } given { grid: LaunchGrid } over grid, unsafe: "Every part lies in a sample's `stride` numbers of `d`, and its mean and its deviation, where it has them, in `means` and `inverses`.";

    /// Adds every parameter's partial sums to its squared norm, with a block for each parameter and sample.
    AddPartials = "add_partials" {
        partials: In<f64>,
        partial_stride: Count,
        ranges: In<PartialRange>[grid.blocks[0]],
        squared: Out<f64>[rows(grid.blocks[1], entries, grid.blocks[0])],
        entries: Count,
    } given { grid: LaunchGrid } over grid, unsafe: "Every range lies in a sample's partial sums.";

    /// Computes a bound on the squared norm of an outer product.
    OuterNorm = "outer_norm" {
        x: In<f32>[samples * features],
        g: In<f32>[samples * out],
        features: Count,
        out: Count,
        gamma: f64,
        eta: f64,
        lost: f64,
        partials: Out<f64>[rows(samples, partial_stride, 1)],
        partial_stride: Count,
    } given { samples: usize } over LaunchGrid::blocks(samples, 128);

    /// Computes the inner products of all inputs of a sample, and of all gradients, in double precision. The first kernel does those of 64
    /// vectors with each other, the second those with 64 later ones. The grid's second axis counts samples.
    Gram = "gram" | "gram_pairs" by pairs {
        x: In<f32>[rows(grid.blocks[1], x_count * x_inner, rows(x_count, x_along, rows(x_inner, x_across, 1)))],
        x_count: Count,
        x_inner: Count,
        x_along: Count,
        x_across: Count,
        g: In<f32>[rows(grid.blocks[1], g_count * g_inner, rows(g_count, g_along, rows(g_inner, g_across, 1)))],
        scales: Maybe<In<f32>>[g_inner],
        g_count: Count,
        g_inner: Count,
        g_along: Count,
        g_across: Count,
        inputs: Out<f64>[grid.blocks[1] * x_count * x_count],
        gradients: Out<f64>[grid.blocks[1] * g_count * g_count],
    } given { pairs: usize, grid: LaunchGrid } over grid;

    /// Computes a bound on the squared norm of a weight gradient from the inner products of [`Gram`], and the means that are taken off
    /// standardised filters, with a block for each sample.
    GhostNorm = "ghost_norm" {
        inputs: In<f64>[samples * positions_in * positions_in],
        gradients: In<f64>[samples * positions * positions],
        sources: Maybe<In<i32>>[positions * taps],
        positions_in: Count,
        positions: Count[sources.is_some() || positions == positions_in && inverses.is_none()],
        taps: Count,
        x: In<f32>[samples * channels * positions_in],
        g: In<f32>[samples * out * positions],
        inverses: Maybe<In<f32>>[out],
        channels: Count,
        out: Count[inverses.is_none() || means.is_some()],
        means: Maybe<Out<f32>>[rows(samples, mean_stride, out)],
        mean_stride: Count,
        gamma: f64,
        eta: f64,
        lost: f64,
        partials: Out<f64>[rows(samples, partial_stride, 1)],
        partial_stride: Count,
    } given { samples: usize } over LaunchGrid {
        shared: if inverses.is_some() { 8 * (positions_in + positions) } else { 0 },
        ..LaunchGrid::blocks(samples, 1024)
    }, unsafe: "No source is a position behind the last.";

    /// Adds the clipped written gradients of all samples to the sum. The grid has blocks of the gradient and shares of the samples.
    SumWritten = "sum_written" {
        d: In<f32>,
        stride: Long,
        blocks: In<GradientBlock>[grid.blocks[0]],
        factors: In<f32>[samples * entries],
        entries: Count,
        means: In<f32>,
        mean_stride: Count,
        inverses: In<f32>,
        sum: Out<u32>,
        samples: Count,
        whole: Flag,
    } given { grid: LaunchGrid } over grid, unsafe: "Every block lies in a sample's `stride` numbers of `d`, of which there are `samples`, and in `sum`; its parameter is one of `entries`; and its mean and its deviation, where it has them, lie in `means` and `inverses`.";

    /// Adds the clipped gradients of a linear layer to the sum. The grid has tiles of features, tiles of outputs and shares of the samples.
    OuterSum = "outer_sum" {
        g: In<f32>[samples * sample_rows * out],
        x: In<f32>[samples * sample_rows * features],
        out: Count,
        features: Count,
        sample_rows: Count[sample_rows > 0],
        factors: In<f32>[rows(samples, entries, 1)],
        entries: Count,
        sum: Out<u32>[out * features],
        samples: Count,
        whole: Flag,
    } given { grid: LaunchGrid } over grid;
}
