//! Pooling, resampling, and unfolding images into columns.

use super::declare::{Count, Flag, In, Long, Maybe, Out, kernels};
use crate::cuda::launch::LaunchGrid;

/// How many numbers the table of a window has: input, output, kernel, stride, padding and dilation along three axes.
pub(super) const WINDOW: usize = 18;
/// How many numbers a table of resampling begins with.
const RESAMPLING: usize = 8;

kernels! {
    /// Finds the largest value of every window, and where it lies.
    MaxPool = "max_pool" {
        x: In<f32>,
        y: Out<f32>[n],
        kept: Maybe<Out<i32>>[n],
        table: In<i32>[WINDOW],
        n: Long,
    } over LaunchGrid::each(n), unsafe: "The table is of windows over planes of which `x` holds as many as `n` values of `y` fill.";

    /// Passes gradients back to where the largest values were.
    MaxPoolBackward = "max_pool_backward" {
        g: In<f32>,
        kept: In<i32>,
        dx: Out<f32>[n],
        table: In<i32>[WINDOW],
        n: Long,
        accumulate: Flag,
    } over LaunchGrid::each(n), unsafe: "The table is of windows over planes of which `g` and `kept` hold as many as `n` values of `dx` fill.";

    /// Takes the mean of every window, in which padding counts as zeros.
    AveragePool = "average_pool" { x: In<f32>, y: Out<f32>[n], table: In<i32>[WINDOW], n: Long }
        over LaunchGrid::each(n), unsafe: "The table is of windows over planes of which `x` holds as many as `n` values of `y` fill.";

    /// Computes the gradient of [`AveragePool`].
    AveragePoolBackward = "average_pool_backward" {
        g: In<f32>,
        dx: Out<f32>[n],
        table: In<i32>[WINDOW],
        n: Long,
        accumulate: Flag,
    } over LaunchGrid::each(n), unsafe: "The table is of windows over planes of which `g` holds as many as `n` values of `dx` fill.";

    /// Takes the means of windows that divide a plane into as many parts as the output has positions.
    AdaptivePool = "adaptive_pool" { x: In<f32>, y: Out<f32>[n], table: In<i32>[WINDOW], n: Long }
        over LaunchGrid::warps(n), unsafe: "The table is of planes of which `x` holds as many as `n` values of `y` fill.";

    /// Computes the gradient of [`AdaptivePool`].
    AdaptivePoolBackward = "adaptive_pool_backward" {
        g: In<f32>,
        dx: Out<f32>[n],
        table: In<i32>[WINDOW],
        n: Long,
        accumulate: Flag,
    } over LaunchGrid::each(n), unsafe: "The table is of planes of which `g` holds as many as `n` values of `dx` fill.";

    /// Resamples images bilinearly.
    Upsample = "upsample" { x: In<f32>, y: Out<f32>[n], table: In<i32>[RESAMPLING], n: Long }
        over LaunchGrid::each(n), unsafe: "The table is of planes of which `x` holds as many as `n` values of `y` fill.";

    /// Computes the gradient of [`Upsample`].
    UpsampleBackward = "upsample_backward" {
        g: In<f32>,
        dx: Out<f32>[n],
        table: In<i32>[RESAMPLING],
        n: Long,
        accumulate: Flag,
    } over LaunchGrid::each(n), unsafe: "The table is of planes of which `g` holds as many as `n` values of `dx` fill.";

    /// Unfolds images, which begin `item_len` apart, into columns: for every channel and tap, a row of what each position reads there.
    Unfold = "unfold" {
        x: In<f32>,
        columns: Out<f32>[grid.blocks[2] * rows * pitch],
        table: In<i32>[WINDOW],
        item_len: Long,
        taps: Count[taps > 0],
        rows: Count,
        positions: Count,
        pitch: Count,
    } given { grid: LaunchGrid } over grid, unsafe: "The table is of a window of `taps` over images of `rows / taps` channels, and `x` holds one for each of the grid's third axis.";
}
