//! A linear layer along the last axis.
//!
//! It runs as the matrix products of `cpu/gemm`, as convolutions do: many items at once, with norms of gradients that are never written
//! down where that is cheaper.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
