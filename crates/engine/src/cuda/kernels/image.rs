//! Convolutions over images as matrix products, with a strip of the image in shared memory.

use super::declare::{ByValue, Count, Flag, In, Long, Maybe, Out, Structure, kernels, rows};
use crate::cuda::launch::LaunchGrid;

/// How many taps a strip has room for.
pub(crate) const TAPS: usize = 64;

/// The sizes of a convolution and of its strip, laid out as the kernels read them.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImageStrip {
    /// The number of filters and of channels of one group.
    pub(crate) out: i32,
    pub(crate) channels: i32,
    pub(crate) groups: i32,
    pub(crate) taps: i32,
    /// The size of the input.
    pub(crate) height: i32,
    pub(crate) width: i32,
    /// The size of the output.
    pub(crate) out_width: i32,
    pub(crate) positions: i32,
    /// The stride and padding of the window.
    pub(crate) stride: [i32; 2],
    pub(crate) padding_y: i32,
    /// The number of rows of the strip, how many numbers a row and a channel take, and the column of the first pixel.
    pub(crate) rows: i32,
    pub(crate) pitch: i32,
    pub(crate) plane: i32,
    pub(crate) left: i32,
    /// The number of channels of a step, of arranged weights of a filter, and of items of a tile.
    pub(crate) block: i32,
    pub(crate) inner: i32,
    pub(crate) segments: i32,
    /// The output is every `step`-th row and column, from `phase` on, of an image of the full size.
    pub(crate) step: [i32; 2],
    pub(crate) phase: i32,
    pub(crate) full_width: i32,
    pub(crate) full_positions: i32,
    /// Where each tap reads in the strip.
    pub(crate) tap_offsets: [i32; TAPS],
}

const _: () = assert!(size_of::<ImageStrip>() == 4 * (23 + TAPS));

// SAFETY: both sides have 87 whole numbers of 32 bits in this order, and the source asserts the same size.
unsafe impl Structure for ImageStrip {
    const TYPE: &'static str = "const __grid_constant__ Image";
}

kernels! {
    /// Computes each sample's weight gradient from steps `first..last` of 32 positions each. The three kernels take 32, 160 or 288 weights of
    /// a block. The grid has blocks of channels, groups times tiles of filters, and samples times parts of the steps.
    ImageWeightGradient =
        "image_weight_gradient_1" | "image_weight_gradient_5" | "image_weight_gradient_9" by size [large]
    {
        g: In<f32>[grid.blocks[2] / parts * views * output_len],
        x: In<f32>[grid.blocks[2] / parts * views * input_len],
        d: Out<f32>[rows(grid.blocks[2], stride, weight_len)],
        image: ByValue<ImageStrip>,
        offsets: In<i32>,
        stride: Long,
        views: Count,
        parts: Count[parts > 0],
        first: Count,
        last: Count,
    } given { size: usize, grid: LaunchGrid, input_len: usize, output_len: usize, weight_len: usize }
        over grid, unsafe: "`image` and `offsets` are of one tiling, which has at most that many weights in a block and the grid's shared memory; an item of `x` has `input_len` values, one of `g` `output_len`, and a gradient `weight_len`.";

    /// Adds the clipped gradients of a convolution to the sum. The first three kernels go through the positions step by step; the others take
    /// an image as one step. The grid has blocks of channels, tiles of filters and shares of the samples.
    ImageWeightSum =
        "image_weight_sum_1" | "image_weight_sum_5" | "image_weight_sum_9"
        | "whole_weight_sum_1" | "whole_weight_sum_5" | "whole_weight_sum_9" by size [large]
    {
        g: In<f32>[samples * output_len],
        x: In<f32>[samples * input_len],
        image: ByValue<ImageStrip>,
        offsets: In<i32>,
        factors: In<f32>[rows(samples, entries, 1)],
        entries: Count,
        means: Maybe<In<f32>>[rows(samples, mean_stride, filters)],
        mean_stride: Count,
        inverses: Maybe<In<f32>>[filters],
        sum: Out<u32>[weight_len],
        samples: Count,
        whole: Flag,
        ahead: Count[ahead > 0],
    } given {
        size: usize,
        grid: LaunchGrid,
        input_len: usize,
        output_len: usize,
        filters: usize,
        weight_len: usize,
    } over grid, unsafe: "`image` and `offsets` are of one tiling, which has at most that many weights in a block, and the grid's shared memory holds `ahead + 1` of its stages; an item of `x` has `input_len` values, one of `g` `output_len`, and the gradient `weight_len` for `filters`.";

    /// Computes `y[o, p]`, the sum over channels and taps of `weight[o, (c / 8, tap, c % 8)] x[c, p + tap]`, for steps `first..last` of
    /// channels. The grid has tiles of positions, tiles of filters and groups.
    ImageConvolve = "image_convolve" [large] {
        weight: In<f32>[weight_len],
        x: In<f32>[items * input_len],
        y: Out<f32>[items * output_len],
        image: ByValue<ImageStrip>,
        items: Count,
        accumulate: Flag,
        first: Count,
        last: Count,
    } given { grid: LaunchGrid, input_len: usize, output_len: usize, weight_len: usize }
        over grid, unsafe: "`image` is of a tiling that has the grid's shared memory; an item of `x` has `input_len` values, one of `y` `output_len`, and the arranged weights are `weight_len`.";

    /// Puts weights in the order in which [`ImageConvolve`] reads them. `list` says for each tap which of the window's taps it is.
    ArrangeWeights = "arrange_weights" {
        weight: In<f32>[groups * out * channels * window],
        arranged: Out<f32>[n],
        list: In<i32>[taps],
        out: Count[n == groups * inner * if backward { channels } else { out }],
        channels: Count,
        window: Count,
        taps: Count[taps > 0],
        inner: Count[inner > 0],
        backward: Flag,
        n: Long,
    } given { groups: usize } over LaunchGrid::each(n), unsafe: "Every number in `list` is a tap of the window.";
}
