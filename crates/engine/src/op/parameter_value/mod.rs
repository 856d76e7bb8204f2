//! A parameter as a value: a class token, a position embedding.
//!
//! Its gradient is the upstream gradient.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
