//! The optimiser's updates.

use super::declare::{ByValue, Code, In, Long, Out, Structure, kernels};
use crate::cuda::launch::LaunchGrid;
use crate::cuda::slice::element;
use crate::update::UpdateNumbers;

/// The numbers that the kernel gives to the rules.
pub(crate) const PLAIN: i32 = 0;
pub(crate) const MOMENTUM: i32 = 1;
pub(crate) const ADAM: i32 = 2;
pub(crate) const CORRECTED_ADAM: i32 = 3;
pub(crate) const MEAN: i32 = 4;

const _: () = assert!(size_of::<UpdateNumbers>() == 52);

// SAFETY: both sides have twelve numbers in single precision and one whole number in this order, and the source asserts the same size.
unsafe impl Structure for UpdateNumbers {
    const TYPE: &'static str = "const __grid_constant__ Rule";
}

/// A stretch of trainable values: where it starts in a sum, its length, and where it starts among all parameters.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UpdateBlock {
    pub(crate) start: i32,
    pub(crate) len: i32,
    pub(crate) target: i32,
}

const _: () = assert!(size_of::<UpdateBlock>() == 12);

element! {
    UpdateBlock => "UpdateBlock",
}

kernels! {
    /// Moves values against the noisy sum, block by block.
    UpdateValues = "update_values" {
        kind: Code,
        values: Out<f32>,
        sum: In<f32>,
        first: Out<f32>,
        second: Out<f32>,
        blocks: In<UpdateBlock>[block_count],
        rule: ByValue<UpdateNumbers>,
    } given { block_count: usize } over LaunchGrid::blocks(block_count, 256), unsafe: "Every block lies in `sum` and in `values`, and in as many moments as the rule has.";

    /// Computes `mean += rest (value - mean)`.
    MoveMean = "move_mean" { mean: Out<f32>[n], values: In<f32>[n], rest: f32, n: Long } over LaunchGrid::each(n);

    /// Exchanges two rows of numbers.
    Exchange = "exchange" { a: Out<f32>[n], b: Out<f32>[n], n: Long } over LaunchGrid::each(n);
}
