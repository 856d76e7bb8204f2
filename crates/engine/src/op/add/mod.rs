//! The sum of two values.
//!
//! Both inputs receive the upstream gradient as it is, so one of them may take it over without a copy.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
