//! The product of two activations.
//!
//! Both sides are kept for the way back.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
