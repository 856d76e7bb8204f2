//! Dropout of values or of whole channels.
//!
//! What falls follows from the key of the view, the node and the number of the value, so the way back makes the same choices and nothing is
//! kept.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
