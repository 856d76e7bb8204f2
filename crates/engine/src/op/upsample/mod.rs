//! Bilinear resampling of an image.
//!
//! This is a linear map between positions, the same for every channel. The backward pass is its transpose and reads no values.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
