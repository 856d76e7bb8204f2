//! Values joined along an axis.
//!
//! It only moves values; gradients go back the way they came.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
