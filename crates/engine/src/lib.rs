//! Runs a graph: forward, and the clipped sum of per-sample gradients.

mod batch;
mod clipping;
mod cpu;
mod error;
mod layout;
mod loss;
pub mod reference;
mod stats;

pub use batch::{Batch, Dropout, Targets};
pub use clipping::Clipping;
pub use cpu::{CpuExecutor, GradientSum, Loaded, Options};
pub use error::EngineError;
pub use layout::{Entry, Layout};
pub use stats::StepStats;
