//! A range of an axis.
//!
//! It only moves values; the rest of its input receives no gradient.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
