//! Reordered axes.
//!
//! This only moves values.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
