//! Transposed convolution: a convolution's data gradient as a layer of its own, with the convolution as its own data gradient.
//!
//! The gradient of its weight is that of the convolution, with what is read and what comes back in each other's place.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
