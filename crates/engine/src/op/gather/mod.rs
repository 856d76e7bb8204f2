//! Rows picked by their index, in any order.
//!
//! This only moves values, and a row that was picked twice receives both gradients.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
