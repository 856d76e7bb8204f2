//! Group normalisation: every group of channels by its own mean and variance over all positions.
//!
//! Mean and one over the deviation of every group are kept for the way back.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;

#[cfg(feature = "cuda")]
pub(super) use cuda::CudaGroupNormKernel;
