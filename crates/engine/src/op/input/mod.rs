//! The sample, which enters the graph here.
//!
//! No gradient of it is computed.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;

#[cfg(feature = "cuda")]
pub(super) use cuda::CudaInputKernel;
