//! The product of two values, element by element.
//!
//! Each receives the upstream gradient times the other.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
