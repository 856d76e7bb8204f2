//! Reads what a run has released.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use dapple_plan::{Bracket, Certificate, PlanSpec};
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

/// What the first steps of a run cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpendingPoint {
    /// How many steps.
    pub step: u64,
    /// Their epsilon, at the plan's own level.
    pub epsilon: Bracket,
    /// Their epsilon if a whole record is substituted, where the plan protects less than a record; `None` if it is too large to report.
    pub record_level: Option<Bracket>,
}

/// The price of the steps that the run in a folder counts as taken, at `points` places from the first to the last, or fewer where there are
/// fewer steps. Prices that are too large to report are left out.
///
/// # Guarantee
/// Each upper end holds for everything that the run released by its step.
///
/// # Errors
/// A ledger that cannot be read, or was edited.
pub fn spending(folder: &Path, points: u64) -> Result<Vec<SpendingPoint>, TrainError> {
    let recovered = Recovered::read(&Folder::new(folder))?;
    let (terms, spent) = (recovered.terms(), recovered.history.spent());
    let count = points.min(spent);
    let mut found = Vec::new();
    for place in 1..=count {
        let step = (spent * place).div_ceil(count);
        let cost = match terms.cost(step) {
            Ok(cost) => cost,
            Err(TrainError::Plan(error)) if error.is_too_large() => continue,
            Err(error) => return Err(error),
        };
        let point = |price: Certificate| SpendingPoint {
            step,
            epsilon: price.epsilon,
            record_level: cost.whole_record,
        };
        found.extend(cost.price.map(point));
    }
    Ok(found)
}

/// Whether a process holds the run in a folder, and trains it or is about to.
///
/// The answer needs a lock for a moment. A process that wants to take the run up in that very moment is told that another holds it.
///
/// # Errors
/// A folder without a run.
pub fn is_held(folder: &Path) -> Result<bool, TrainError> {
    let path = Folder::new(folder).ledger();
    let failed = |source| TrainError::file(&path, source);
    files::refuse_link(&path)?;
    match File::open(&path).map_err(failed)?.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}
