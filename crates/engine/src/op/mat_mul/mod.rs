//! The product of two activations.
//!
//! Both sides are kept for the backward pass.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
