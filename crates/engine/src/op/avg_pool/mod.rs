//! The mean of each window, in which padding counts as zeros.
//!
//! This is a linear map between positions, the same for every channel. The backward pass is its transpose and reads no values.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
