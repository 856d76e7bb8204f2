//! Convolution over images and clips, with channel groups and standardised weights.
//!
//! Nearly all the time of a step is spent here and in linear layers, which run as the same matrix products. On the CPU, convolutions with
//! one channel in each group have a kernel of their own.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod depthwise;
mod reference;

#[cfg(feature = "cuda")]
pub(crate) use cuda::{CudaConvKernel, Tiled};
pub(crate) use depthwise::Depthwise;
pub(crate) use reference::project;
