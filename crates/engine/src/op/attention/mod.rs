//! Multi-head attention of query, key and value.
//!
//! The CPU computes the attention weights a second time in the backward pass, to save memory. So does the card if it works in tiles;
//! otherwise it keeps them.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
