//! Depthwise convolution of tokens over their grid.

use super::declare::{Count, Flag, In, Long, Out, kernels, rows};
use super::window::WINDOW;
use crate::cuda::launch::LaunchGrid;

/// How many filters' gradients a block adds up.
const LANES: usize = 32;
/// How many threads such a block has, which the kernel relies on.
const THREADS: usize = 256;
/// How many values a thread makes, so that a block's copy of the filters is read often enough.
const VALUES: usize = 4;
/// How many weights of filters fit into a block's shared memory.
pub(crate) const HELD_WEIGHTS: usize = 10 << 10;

/// A grid for this many values, with this many weights in shared memory.
fn grid(values: usize, weights: usize) -> LaunchGrid {
    LaunchGrid { shared: 4 * weights, ..LaunchGrid::blocks(values.div_ceil(VALUES * THREADS), THREADS) }
}

kernels! {
    /// Convolves tokens, and copies the first token of an item as it is. With `holds`, the filters are read from shared memory.
    TokenConv = "token_conv" {
        x: In<f32>,
        weight: In<f32>[filters * taps],
        y: Out<f32>[n],
        table: In<i32>[WINDOW],
        features: Count[features > 0],
        filters: Count[filters > 0],
        n: Long,
        holds: Flag[!holds || filters * taps <= HELD_WEIGHTS],
    } given { taps: usize } over grid(n, if holds { filters * taps } else { 0 }), unsafe: "The table is of a window of `taps` over grids, of which `x` holds as many, with a token before each, as `n` values of `y` fill.";

    /// Computes the gradient of the tokens.
    TokenConvBackward = "token_conv_backward" {
        g: In<f32>,
        weight: In<f32>[filters * taps],
        dx: Out<f32>[n],
        table: In<i32>[WINDOW],
        features: Count[features > 0],
        filters: Count[filters > 0],
        n: Long,
        holds: Flag[!holds || filters * taps <= HELD_WEIGHTS],
        accumulate: Flag,
    } given { taps: usize } over grid(n, if holds { filters * taps } else { 0 }), unsafe: "The table is of a window of `taps` over grids, of whose outputs `g` holds as many, with a token before each, as `n` values of `dx` fill.";

    /// Computes each sample's gradient of the filters, which is a sum over its heads.
    TokenConvGradient = "token_conv_gradient" {
        x: In<f32>[samples * views * tokens * features],
        g: In<f32>[samples * views * out_tokens * features],
        d: Out<f32>[rows(samples, stride, filters * taps)],
        stride: Long,
        table: In<i32>[WINDOW],
        features: Count[features.is_multiple_of(filters)],
        filters: Count[filters > 0],
        views: Count,
        accumulate: Flag,
    } given { samples: usize, taps: usize, tokens: usize, out_tokens: usize }
    over LaunchGrid { blocks: [samples, taps, filters.div_ceil(LANES)], threads: THREADS, shared: 0 },
    unsafe: "The table is of a window of `taps` over a grid of `tokens - 1` that makes one of `out_tokens - 1`.";
}
