//! Operations over tokens whose values, or whose inputs, are narrow, which means that they lie in memory as bf16.

use super::declare::{Code, Count, Flag, In, Long, Maybe, Out, kernels, rows as strided};
use crate::cuda::launch::LaunchGrid;

/// How many columns of a sample's rows a block of threads adds up, and how many threads it has.
const STRIP: usize = 64;
const THREADS: usize = 256;

/// How many rows of an item a block takes whose gradients of scale and shift are a part, and how many features a row may have then.
const PART_ROWS: usize = 40;
pub(crate) const MOST_FEATURES: usize = 1024;

/// How many such parts an item of this many rows has.
pub(crate) fn norm_parts(rows: usize) -> usize {
    rows.div_ceil(PART_ROWS)
}

/// How many vectors of 16 bytes this many numbers take.
fn vectors(numbers: usize, narrow: bool) -> usize {
    numbers / if narrow { 8 } else { 4 }
}

/// A grid with a block for each strip of columns of each sample.
fn strips(columns: usize, samples: usize) -> LaunchGrid {
    LaunchGrid { blocks: [columns.div_ceil(STRIP), samples, 1], threads: THREADS, shared: 0 }
}

kernels! {
    /// Adds the bias that is owed to each row of `channels` values, if there is one, and applies an activation.
    NarrowUnary = "narrow_unary" {
        op: Code,
        x: In<[u32; 4]>[vectors(n, x_narrow)],
        bias: Maybe<In<[u32; 4]>>[channels / 4],
        y: Out<[u32; 4]>[vectors(n, y_narrow)],
        channels: Count[channels > 0 && channels.is_multiple_of(8)],
        n: Long[n.is_multiple_of(channels)],
        factor: f32,
        x_narrow: Flag,
        y_narrow: Flag,
    } over LaunchGrid::each(n / 8);

    /// Computes the gradient of an activation. `kept` is the output of a ReLU, and the input of all others, to which the bias is owed.
    NarrowUnaryBackward = "narrow_unary_backward" {
        op: Code,
        kept: In<[u32; 4]>[vectors(n, kept_narrow)],
        bias: Maybe<In<[u32; 4]>>[channels / 4],
        g: In<[u32; 4]>[vectors(n, g_narrow)],
        dx: Out<[u32; 4]>[vectors(n, dx_narrow)],
        channels: Count[channels > 0 && channels.is_multiple_of(8)],
        n: Long[n.is_multiple_of(channels)],
        factor: f32,
        kept_narrow: Flag,
        g_narrow: Flag,
        dx_narrow: Flag,
        accumulate: Flag,
    } over LaunchGrid::each(n / 8);

    /// Adds two tensors, and to each the bias that is owed to it. The sum is in single precision.
    NarrowAdd = "narrow_add" {
        a: In<[u32; 4]>[vectors(n, a_narrow)],
        a_bias: Maybe<In<[u32; 4]>>[channels / 4],
        b: In<[u32; 4]>[vectors(n, b_narrow)],
        b_bias: Maybe<In<[u32; 4]>>[channels / 4],
        y: Out<[u32; 4]>[n / 4],
        channels: Count[channels > 0 && channels.is_multiple_of(8)],
        n: Long[n.is_multiple_of(channels)],
        a_narrow: Flag,
        b_narrow: Flag,
    } over LaunchGrid::each(n / 8);

    /// Does the same as [`super::LayerForward`] for rows whose features lie side by side, and writes narrow rows.
    NarrowLayerForward = "narrow_layer_forward" {
        x: In<[u32; 4]>[rows * features / 4],
        y: Out<[u32; 4]>[rows * features / 8],
        kept: Maybe<Out<f32>>[2 * rows],
        weight: Maybe<In<[u32; 4]>>[features / 4],
        bias: Maybe<In<[u32; 4]>>[features / 4],
        features: Count[features.is_multiple_of(8)],
        rows: Long,
        eps: f32,
        centred: Flag,
    } over LaunchGrid::warps(rows);

    /// Computes the gradient of a layer norm's input from a narrow gradient.
    NarrowLayerBackward = "narrow_layer_backward" {
        x: In<[u32; 4]>[rows * features / 4],
        g: In<[u32; 4]>[rows * features / 8],
        kept: In<f32>[2 * rows],
        weight: Maybe<In<[u32; 4]>>[features / 4],
        dx: Out<[u32; 4]>[rows * features / 4],
        features: Count[features.is_multiple_of(8)],
        rows: Long,
        centred: Flag,
        accumulate: Flag,
    } over LaunchGrid::warps(rows);

    /// Computes the gradient of a layer norm's input from a narrow gradient, and for every part of an item's rows the gradients of scale and
    /// shift, which [`NarrowLayerParts`] adds up.
    NarrowLayerGradients = "narrow_layer_gradients" {
        x: In<[u32; 4]>[items * item_rows * features / 4],
        g: In<[u32; 4]>[items * item_rows * features / 8],
        kept: In<f32>[2 * items * item_rows],
        weight: Maybe<In<[u32; 4]>>[features / 4],
        dx: Out<[u32; 4]>[items * item_rows * features / 4],
        parts: Out<f32>[2 * items * norm_parts(item_rows) * features],
        features: Count[features.is_multiple_of(8) && features <= MOST_FEATURES],
        item_rows: Count,
        centred: Flag,
        accumulate: Flag,
    } given { items: usize }
    over LaunchGrid { blocks: [norm_parts(item_rows), items, 1], threads: THREADS, shared: 0 };

    /// Adds up the `count` parts that each sample has of the gradients of a layer norm's scale and shift.
    NarrowLayerParts = "narrow_layer_parts" {
        parts: In<f32>[2 * n * count],
        dw: Maybe<Out<f32>>[strided(n / features, stride, features)],
        db: Maybe<Out<f32>>[strided(n / features, stride, features)],
        stride: Long,
        features: Count[features > 0 && n.is_multiple_of(features)],
        count: Count,
        n: Long,
        accumulate: Flag,
    } over LaunchGrid::each(n);

    /// Computes the gradient of a bias, which is the sum over `rows` rows of each sample.
    NarrowBiasGradient = "narrow_bias_gradient" {
        g: In<[u32; 4]>[samples * rows * columns / 8],
        d: Out<f32>[strided(samples, stride, columns)],
        stride: Long,
        columns: Count[columns.is_multiple_of(8)],
        rows: Count,
    } given { samples: usize } over strips(columns, samples);

    /// Computes the gradients of a layer norm's scale and shift from a narrow gradient.
    NarrowLayerAffine = "narrow_layer_affine" {
        x: In<[u32; 4]>[samples * sample_rows * features / 4],
        g: In<[u32; 4]>[samples * sample_rows * features / 8],
        kept: In<f32>[2 * samples * sample_rows],
        dw: Maybe<Out<f32>>[strided(samples, stride, features)],
        db: Maybe<Out<f32>>[strided(samples, stride, features)],
        stride: Long,
        features: Count[features.is_multiple_of(8)],
        sample_rows: Count,
        accumulate: Flag,
    } given { samples: usize } over strips(features, samples);
}
