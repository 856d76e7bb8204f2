//! Per-sample weight gradients of convolutions of any rank, window and stride.

use super::declare::{Count, In, Long, Out, kernels, rows};
use crate::cuda::launch::LaunchGrid;

kernels! {
    /// Computes each sample's weight gradient from steps `first..last` of 32 positions each, and adds it to what is there unless it begins
    /// with the first step. The grid has tiles of weights, groups times tiles of filters, and samples times parts of the steps.
    WeightGradient = "weight_gradient" [large] {
        g: In<f32>[grid.blocks[2] / parts * views * groups * out * positions],
        x: In<f32>[grid.blocks[2] / parts * views * groups * channels * plane],
        d: Out<f32>[rows(grid.blocks[2], stride, groups * out * inner)],
        taps: In<[i32; 4]>[inner],
        places: In<[i32; 4]>[positions],
        stride: Long,
        out: Count,
        inner: Count,
        positions: Count[positions > 0],
        plane: Count,
        depth: Count,
        height: Count,
        width: Count,
        groups: Count,
        channels: Count,
        views: Count,
        parts: Count[parts > 0],
        first: Count,
        last: Count,
    } given { grid: LaunchGrid } over grid, unsafe: "Both tables are of the window of these sizes, filled up as the kernel reads them, and a block has the shared memory of two stages.";

    /// Adds the gradients of each sample's parts, in the order of the parts.
    SumParts = "sum_parts" {
        partial: In<f32>[n * parts],
        d: Out<f32>[rows(n / len, stride, len)],
        stride: Long,
        len: Count[n.is_multiple_of(len)],
        parts: Count,
        n: Long,
    } over LaunchGrid::each(n);
}
