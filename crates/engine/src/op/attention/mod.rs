//! Multi-head attention of query, key and value.
//!
//! Scores are made a second time on the way back rather than kept.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
