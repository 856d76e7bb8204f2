//! Transposed convolution, which computes a convolution's data gradient as a layer of its own. Its own data gradient is the convolution.
//!
//! The gradient of its weight is that of the convolution, with the layer's input and the gradient of its output in each other's place.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
