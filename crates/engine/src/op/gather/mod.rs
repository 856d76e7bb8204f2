//! Chosen rows, in a chosen order.
//!
//! It only moves values; a row that was chosen twice receives both gradients.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
