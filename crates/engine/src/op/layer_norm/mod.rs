//! Layer normalisation: every row of features is normalised by its own mean and variance.
//!
//! The mean and one over the deviation of every row are kept for the backward pass.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
