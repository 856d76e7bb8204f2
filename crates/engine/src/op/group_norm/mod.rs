//! Group normalisation: every group of channels is normalised by its own mean and variance over all positions.
//!
//! The mean and one over the deviation of every group are kept for the backward pass.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;

#[cfg(feature = "cuda")]
pub(super) use cuda::CudaGroupNormKernel;
