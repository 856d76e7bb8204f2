//! Batch normalisation by stored statistics.
//!
//! A fixed scale and shift of every channel, with a trainable one on top. A graph whose statistics come from the batch never gets here: it
//! mixes examples and is refused.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
