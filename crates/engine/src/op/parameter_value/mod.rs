//! A parameter that is read as a value, such as a class token or a position embedding.
//!
//! The parameter's gradient is the upstream gradient.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
