//! Values joined along an axis.
//!
//! This only moves values, and gradients go back the same way.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
