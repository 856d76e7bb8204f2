//! Private training: the step, optimisers, the ledger, checkpoints, runs.

#![forbid(unsafe_code)]

mod certificate;
mod checkpoint;
mod digest;
mod error;
mod evaluation;
mod files;
mod folder;
mod ledger;
mod model;
mod noise;
mod observer;
mod optimiser;
mod pace;
mod prepare;
mod run;
mod schedule;
mod step;

// The tests of single modules share helpers with those of the whole crate.
#[cfg(test)]
extern crate self as dapple_train;

pub use certificate::{RunCertificate, Status};
pub use error::TrainError;
pub use evaluation::Evaluation;
pub use ledger::{Entry, History, Ledger, LedgerError, Start};
pub use noise::Noise;
pub use observer::{Event, Observer, Silent, StepReport};
pub use optimiser::{Ema, Optimiser, Rule, State as OptimiserState};
pub use prepare::Request;
pub use run::{Outcome, certify, evaluate, resume, start};
pub use schedule::Schedule;
