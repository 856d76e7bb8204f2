//! Batch normalisation by stored statistics.
//!
//! Every channel has a fixed scale and shift, followed by trainable ones. A graph whose statistics come from the batch never gets here,
//! because it mixes examples and is refused.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
