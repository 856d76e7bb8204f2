//! The same values under another shape.
//!
//! Row-major order is what a reshape means, so the CPU brings its input into that form and copies.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
