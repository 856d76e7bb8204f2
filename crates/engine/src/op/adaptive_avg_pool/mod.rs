//! Means over windows chosen so that the output has a given size.
//!
//! A linear map between positions, the same for every channel; the way back is its transpose and reads nothing.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
