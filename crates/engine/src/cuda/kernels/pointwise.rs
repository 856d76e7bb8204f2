//! Activations, sums, products, dropout, and operations that only move values.

use super::declare::{Code, Count, Flag, In, Long, Out, Wide, kernels, rows as strided};
use crate::cuda::launch::LaunchGrid;

/// The number of the activation that multiplies by a factor.
pub(crate) const SCALE: i32 = 4;

kernels! {
    /// Applies an activation to every value.
    Unary = "unary" { op: Code, x: In<f32>[n], y: Out<f32>[n], n: Long, factor: f32 } over LaunchGrid::fours(n);

    /// Computes the gradient of an activation. `kept` is the output of a ReLU, and the input of all others.
    UnaryBackward = "unary_backward" {
        op: Code,
        kept: In<f32>[n],
        g: In<f32>[n],
        dx: Out<f32>[n],
        n: Long,
        factor: f32,
        accumulate: Flag,
    } over LaunchGrid::fours(n);

    /// Adds two tensors.
    Add = "add" { a: In<f32>[n], b: In<f32>[n], y: Out<f32>[n], n: Long } over LaunchGrid::fours(n);

    /// Multiplies two tensors value by value.
    Multiply = "multiply" { a: In<f32>[n], b: In<f32>[n], y: Out<f32>[n], n: Long, accumulate: Flag }
        over LaunchGrid::each(n);

    /// Copies a tensor, or adds it to what is there.
    Copy = "copy" { x: In<f32>[n], y: Out<f32>[n], n: Long, accumulate: Flag } over LaunchGrid::fours(n);

    /// Drops runs of `together` values as each item's key decides, forward and backward alike.
    Dropout = "dropout" {
        x: In<f32>[n],
        y: Out<f32>[n],
        keys: In<u64>[n.div_ceil(len)],
        node: Wide,
        len: Count,
        together: Count[together > 0],
        rate: f32,
        n: Long,
        accumulate: Flag,
    } over LaunchGrid::each(n);

    /// Keeps runs of `together` values where each sample's mask says so and multiplies them, forward and backward alike.
    MaskedDropout = "masked_dropout" {
        x: In<f32>[n],
        y: Out<f32>[n],
        masks: In<u32>[n.div_ceil(len * views) * words],
        words: Count,
        first: Count[first + len.div_ceil(together) <= 32 * words],
        len: Count[len > 0],
        together: Count[together > 0],
        views: Count[views > 0],
        factor: f32,
        n: Long,
        accumulate: Flag,
    } over LaunchGrid::each(n);

    /// Writes the same values for every item.
    Broadcast = "broadcast" { x: In<f32>[len], y: Out<f32>[n], len: Count[len > 0], n: Long }
        over LaunchGrid::each(n);

    /// Computes the gradient of a broadcast value, which is the sum over a sample's views.
    BroadcastBackward = "broadcast_backward" {
        g: In<f32>[n * views],
        d: Out<f32>[strided(n / len, stride, len)],
        stride: Long,
        len: Count[n.is_multiple_of(len)],
        views: Count,
        n: Long,
        accumulate: Flag,
    } over LaunchGrid::each(n);

    /// Copies a box of every item's values from one tensor to another.
    MoveValues = "move_values" {
        x: In<f32>,
        y: Out<f32>,
        table: In<i32>[1],
        x_item: Long,
        y_item: Long,
        x_start: Count,
        y_start: Count,
        len: Count[len > 0],
        n: Long,
        accumulate: Flag,
    } over LaunchGrid::each(n), unsafe: "The table lists a box of `len` values that lies in an item of `x` and in one of `y`.";

    /// Does the same as [`MoveValues`] for four values at a time, so that all sizes count groups of four.
    MoveFour = "move_four" {
        x: In<[f32; 4]>,
        y: Out<[f32; 4]>,
        table: In<i32>[1],
        x_item: Long,
        y_item: Long,
        x_start: Count,
        y_start: Count,
        len: Count[len > 0],
        n: Long,
        accumulate: Flag,
    } over LaunchGrid::each(n), unsafe: "The table lists a box of `len` vectors that lies in an item of `x` and in one of `y`.";

    /// Picks rows of every item, in the order of a list.
    Gather = "gather" {
        x: In<f32>[n / (count * size) * x_item],
        y: Out<f32>[n],
        rows: In<i32>[count],
        count: Count[count > 0],
        size: Count[size > 0],
        x_item: Long,
        n: Long,
    } over LaunchGrid::each(n), unsafe: "Every number in `rows` is a row of an item of `x`.";

    /// Computes the gradient of the rows from which [`Gather`] picks.
    GatherBackward = "gather_backward" {
        g: In<f32>[n / (in_rows * size) * count * size],
        dx: Out<f32>[n],
        rows: In<i32>[count],
        count: Count,
        size: Count[n.is_multiple_of(in_rows * size)],
        in_rows: Count,
        n: Long,
        accumulate: Flag,
    } over LaunchGrid::each(n);

    /// Adds each channel's bias to its values.
    AddBias = "add_bias" {
        y: Out<f32>[n],
        bias: In<f32>[channels],
        channels: Count[channels > 0],
        positions: Count[positions > 0],
        n: Long,
    } over LaunchGrid::each(n);

    /// Computes the gradient of a bias, which is the sum over views and positions. Element `(c, p)` of an item lies at `c along + p across`.
    BiasGradient = "bias_gradient" {
        g: In<f32>[strided(samples * views, channels * positions, strided(channels, along, strided(positions, across, 1)))],
        d: Out<f32>[strided(samples, stride, channels)],
        stride: Long,
        channels: Count,
        positions: Count,
        along: Count,
        across: Count,
        views: Count,
        samples: Count,
    } over LaunchGrid::warps(samples * channels);

    /// Does the same as [`BiasGradient`] if channels are innermost, for `rows` rows of channels of each sample.
    RowBiasGradient = "row_bias_gradient" {
        g: In<f32>[samples * rows * channels],
        d: Out<f32>[strided(samples, stride, channels)],
        stride: Long,
        channels: Count,
        rows: Count,
        samples: Count,
    } over LaunchGrid::each(samples * channels);

    /// Multiplies every value by its channel's factor. A channel is a run of neighbours.
    ChannelScale = "channel_scale" {
        x: In<f32>[n],
        weight: In<f32>[channels],
        y: Out<f32>[n],
        channels: Count[channels > 0],
        run: Count[run > 0],
        n: Long,
        accumulate: Flag,
    } over LaunchGrid::each(n);

    /// Computes the gradient of the factors, from `blocks` blocks of channels of each sample.
    ChannelScaleGradient = "channel_scale_gradient" {
        x: In<f32>[samples * blocks * channels * run],
        g: In<f32>[samples * blocks * channels * run],
        d: Out<f32>[strided(samples, stride, channels)],
        stride: Long,
        channels: Count,
        run: Count,
        blocks: Count,
        samples: Count,
        accumulate: Flag,
    } over LaunchGrid::each(samples * channels);
}
