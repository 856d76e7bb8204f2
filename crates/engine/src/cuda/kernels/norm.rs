//! Group norm, layer norm and batch norm with stored statistics.

use super::declare::{Count, Flag, In, Long, Maybe, Out, kernels, rows};
use crate::cuda::launch::LaunchGrid;

/// Features whose gradients a block of threads adds up.
const AFFINE_FEATURES: usize = 32;

kernels! {
    /// Computes `y = norm(x) + residual`, followed by a ReLU if `relu` is set, with a block for each item and group of `size` channels.
    /// `kept` receives the mean and one over the deviation of each group. With `holds` a block's shared memory has room for its group.
    GroupForward = "group_forward" [large] {
        x: In<f32>[grid.blocks[0] * size * inner],
        residual: Maybe<In<f32>>[grid.blocks[0] * size * inner],
        y: Out<f32>[grid.blocks[0] * size * inner],
        kept: Maybe<Out<f32>>[2 * grid.blocks[0]],
        weight: Maybe<In<f32>>[groups * size],
        bias: Maybe<In<f32>>[groups * size],
        stored_mean: Maybe<In<f32>>[groups * size],
        stored_variance: Maybe<In<f32>>[groups * size],
        groups: Count[groups > 0 && stored_mean.is_some() == stored_variance.is_some()],
        size: Count,
        inner: Count,
        eps: f32,
        relu: Flag,
        holds: Flag[!holds || grid.shared >= 4 * (size * inner + 3)],
    } given { grid: LaunchGrid } over grid;

    /// Computes all gradients of [`GroupForward`], with a block for each sample and group. If there is `y`, the output of a sum that went
    /// through a ReLU, `g` is first set to zero in its own memory where `y` is zero. `holds` says how many of `x` and `g` a block's shared
    /// memory has room for, after four numbers for each channel of a group.
    GroupBackward = "group_backward" [large] {
        x: In<f32>[grid.blocks[0] * views * size * inner],
        g: Out<f32>[grid.blocks[0] * views * size * inner],
        y: Maybe<In<f32>>[grid.blocks[0] * views * size * inner],
        kept: Maybe<In<f32>>[2 * grid.blocks[0] * views],
        weight: Maybe<In<f32>>[groups * size],
        bias: Maybe<In<f32>>[groups * size],
        stored_mean: Maybe<In<f32>>[groups * size],
        stored_variance: Maybe<In<f32>>[groups * size],
        dx: Maybe<Out<f32>>[grid.blocks[0] * views * size * inner],
        dw: Maybe<Out<f32>>[rows(grid.blocks[0] / groups, stride, groups * size)],
        db: Maybe<Out<f32>>[rows(grid.blocks[0] / groups, stride, groups * size)],
        stride: Long,
        groups: Count[grid.blocks[0].is_multiple_of(groups) && (kept.is_some() || stored_mean.is_some() && stored_variance.is_some())],
        size: Count[size > 0],
        inner: Count,
        eps: f32,
        relu: Flag,
        views: Count,
        accumulate: Flag,
        accumulate_affine: Flag,
        holds: Count[grid.shared >= 16 * size + holds * ((size * inner + 7) / 4 * 16)],
    } given { grid: LaunchGrid } over grid;

    /// Normalises rows of `features`, which are `apart` numbers apart, with a warp for each row. `kept` receives the mean and one over the
    /// deviation of each row, or, if rows are not centred, zero and one over the root of the mean square.
    LayerForward = "layer_forward" {
        x: In<f32>[rows * features],
        y: Out<f32>[rows * features],
        kept: Maybe<Out<f32>>[2 * rows],
        weight: Maybe<In<f32>>[features],
        bias: Maybe<In<f32>>[features],
        features: Count,
        apart: Count[apart > 0 && rows.is_multiple_of(apart)],
        rows: Long,
        eps: f32,
        centred: Flag,
    } over LaunchGrid::warps(rows);

    /// Computes the gradient of a layer norm's input.
    LayerBackward = "layer_backward" {
        x: In<f32>[rows * features],
        g: In<f32>[rows * features],
        kept: In<f32>[2 * rows],
        weight: Maybe<In<f32>>[features],
        dx: Out<f32>[rows * features],
        features: Count,
        apart: Count[apart > 0 && rows.is_multiple_of(apart)],
        rows: Long,
        centred: Flag,
        accumulate: Flag,
    } over LaunchGrid::warps(rows);

    /// Computes the gradients of a layer norm's scale and shift, from `sample_rows` rows of each sample.
    LayerAffine = "layer_affine" {
        x: In<f32>[samples * sample_rows * features],
        g: In<f32>[samples * sample_rows * features],
        kept: In<f32>[2 * samples * sample_rows],
        dw: Maybe<Out<f32>>[rows(samples, stride, features)],
        db: Maybe<Out<f32>>[rows(samples, stride, features)],
        stride: Long,
        features: Count,
        apart: Count[apart > 0 && sample_rows.is_multiple_of(apart)],
        sample_rows: Count,
        accumulate: Flag,
    } given { samples: usize }
    over LaunchGrid { blocks: [features.div_ceil(AFFINE_FEATURES), samples, 1], threads: 256, shared: 0 };
}
