//! A linear layer along the last axis.
//!
//! On the CPU it runs as the matrix products of `cpu/gemm`, as convolutions do: many items at once, and if that is cheaper, with norms of
//! gradients that are never written down.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
