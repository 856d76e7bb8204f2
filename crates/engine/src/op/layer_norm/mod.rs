//! Layer normalisation: every row of features by its own mean and variance.
//!
//! Mean and one over the deviation of every row are kept for the way back.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
