//! Dropout of values or of whole channels.
//!
//! What is dropped follows from the sample's mask, or from the key of the view, the node and the number of the value. So the backward pass
//! makes the same choices, and nothing has to be kept.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
