//! Reads what a run has released.

use std::path::{Path, PathBuf};

use dapple_plan::PlanSpec;
use serde::Deserialize;

use crate::error::TrainError;
use crate::evaluation::Evaluation;
use crate::files;
use crate::folder::Folder;
use crate::prepare::Request;
use crate::recover::Recovered;

/// An evaluation in the course of a run: a line of `metrics.jsonl`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct EvaluationLine {
    /// Steps taken.
    pub step: u64,
    /// The clip norm of the next step, where it follows a quantile.
    #[serde(default)]
    pub clip_norm: Option<f64>,
    /// How good the model was.
    #[serde(flatten)]
    pub evaluation: Evaluation,
}

/// The plan of the run in a folder, with everything filled in.
///
/// # Errors
/// A folder without a run, a plan that cannot be read.
pub fn plan_of_run(folder: &Path) -> Result<PlanSpec, TrainError> {
    Ok(Folder::new(folder).read_request()?.0)
}

/// The plan of the run in a folder as a request of its own, with the mask that the run keeps. It names its files by absolute paths.
///
/// # Errors
/// As [`plan_of_run`], and a mask that cannot be read.
pub fn request_of_run(folder: &Path) -> Result<Request, TrainError> {
    let (spec, masks) = Folder::new(folder).read_request()?;
    Ok(Request { spec, base: PathBuf::new(), masks })
}

/// How many of the steps that the run in a folder counts as taken changed nothing, because a crash lost their updates.
///
/// # Errors
/// A ledger that cannot be read, or was edited.
pub fn steps_lost(folder: &Path) -> Result<u64, TrainError> {
    Ok(Recovered::read(&Folder::new(folder))?.history.lost())
}

/// The evaluations of the run in a folder, in order.
///
/// # Errors
/// A file that cannot be read.
pub fn evaluations(folder: &Path) -> Result<Vec<EvaluationLine>, TrainError> {
    let text = files::read_text(&Folder::new(folder).metrics())?;
    // A run that was killed may have left half a line, which nobody relied on.
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}
