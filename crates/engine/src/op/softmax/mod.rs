//! Softmax along the last axis.
//!
//! The backward pass reads the output, not the input.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;

pub(crate) use cpu::{softmax_rows_backward, softmax_rows_of};
pub(crate) use reference::{softmax, softmax_backward};
