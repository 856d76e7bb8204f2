//! The product of two values, element by element.
//!
//! Each input receives the upstream gradient times the other input.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
