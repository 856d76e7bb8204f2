//! The sample, where it enters the graph.
//!
//! It has no gradient.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;

#[cfg(feature = "cuda")]
pub(super) use cuda::CudaInputKernel;
