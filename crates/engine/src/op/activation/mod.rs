//! A function of every value by itself: ReLU and its kin.
//!
//! It keeps its input for the way back, where the upstream gradient is multiplied by the derivative there.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
