//! Private training: the step, optimisers, the ledger, checkpoints, runs.

#![forbid(unsafe_code)]

mod checkpoint;
mod digest;
mod error;
mod files;
mod ledger;
mod model;
mod noise;
mod optimiser;
mod schedule;

pub use error::TrainError;
pub use ledger::{Ledger, LedgerError};
pub use noise::Noise;
pub use optimiser::{Ema, Optimiser, Rule, State as OptimiserState};
pub use schedule::Schedule;
