//! A range of an axis.
//!
//! This only moves values, and the rest of the input receives no gradient.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
