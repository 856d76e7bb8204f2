//! The sum of two values.
//!
//! Both receive the upstream gradient as it is, so that one of them may take it over without a copy.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
