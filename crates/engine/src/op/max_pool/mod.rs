//! The largest value of each window.
//!
//! The first tap that holds the largest value receives the gradient, as in PyTorch, so which tap that was is kept.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
