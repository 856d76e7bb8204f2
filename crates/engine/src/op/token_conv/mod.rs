//! Depthwise convolution of tokens over their grid, with one bank of filters for all heads.
//!
//! A sample's gradient of the filters is the sum over its heads. It is always written down for each sample, because the bank is small and
//! the positions are many.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;

use dapple_graph::op::TokenConv;

/// The grid of the tokens that the convolution makes.
fn output_grid(conv: &TokenConv) -> Vec<usize> {
    conv.window.output(&conv.grid).expect("a graph's windows fit")
}
