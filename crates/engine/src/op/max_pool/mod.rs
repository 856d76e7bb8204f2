//! The largest value of each window.
//!
//! The first tap that holds it receives the gradient, as in PyTorch; which one that was is kept.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
