//! The same values under another shape.
//!
//! A reshape is defined by row-major order, so the CPU brings its input into that form and copies it.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
