//! A function that is applied to every value by itself: ReLU and its kin.
//!
//! The backward pass multiplies the upstream gradient by the derivative at the input.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
