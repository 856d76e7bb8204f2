//! Multi-head attention of query, key and value.
//!
//! For the backward pass the CPU computes the attention weights a second time, to save memory; the card keeps them.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
