//! What can stop a run, where, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use dapple_data::DataError;
use dapple_engine::EngineError;
use dapple_graph::GraphError;
use dapple_mpi::MpiError;
use dapple_plan::{PlanError, SettingError};
use dapple_private::StepError;

use crate::budget::BudgetError;
use crate::federated::FederatedError;
use crate::ledger::LedgerError;

/// Why a run does not start, go on or finish. The message is one line, and [`TrainError::hint`] says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A file that cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another process works on the run.
    #[error("{}: another process works on this run", folder.display())]
    Locked {
        /// The run folder.
        folder: PathBuf,
    },
    /// Something that does not belong to the run stands where the run would write.
    #[error("{}: there is something in the way that is not of this run", path.display())]
    InTheWay {
        /// What is in the way.
        path: PathBuf,
    },
    /// A new run in a folder that already has one.
    #[error("{}: there is a run in this folder already", folder.display())]
    Exists {
        /// The run folder.
        folder: PathBuf,
    },
    /// A folder that holds no run.
    #[error("{}: no run in this folder", folder.display())]
    NoRun {
        /// The folder.
        folder: PathBuf,
    },
    /// Something that the run began with has changed.
    #[error("{}: the {what} is not the one the run began with", folder.display())]
    Changed {
        /// The run folder.
        folder: PathBuf,
        /// What has changed.
        what: &'static str,
    },
    /// A ledger that cannot be trusted.
    #[error("{}: {source}", path.display())]
    Ledger {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: LedgerError,
    },
    /// A budget that does not take a run.
    #[error("{}: {source}", path.display())]
    Budget {
        /// The file.
        path: PathBuf,
        /// Why the budget refuses.
        source: BudgetError,
    },
    /// A checkpoint that cannot be used.
    #[error("{}: {problem}", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A value of the plan that the trainer cannot carry out.
    #[error("{key}: {problem}")]
    Setting {
        /// The dotted key.
        key: &'static str,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        hint: String,
    },
    /// A process that would share a run cannot, or does not have the same as the first.
    #[error("rank {rank}: {problem}")]
    Ranks {
        /// The number of the process, from 0.
        rank: usize,
        /// What is wrong there.
        problem: String,
    },
    /// The processes cannot work together.
    #[error(transparent)]
    Mpi(#[from] MpiError),
    /// A step failed; what it cost stays in the ledger.
    #[error("step {step}: {source}")]
    Step {
        /// The step, from 1.
        step: u64,
        /// What went wrong.
        source: Box<TrainError>,
    },
    /// A federated run does not begin or go on.
    #[error(transparent)]
    Federated(#[from] FederatedError),
    /// The plan is wrong or cannot be priced.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The data cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The model or its weights cannot be used.
    #[error(transparent)]
    Model(#[from] GraphError),
    /// A step failed, or an executor for it cannot be made.
    #[error(transparent)]
    Private(#[from] StepError),
}

/// A reader's message as part of one line. The file may contain line ends where it should have a name.
pub(crate) fn one_line(problem: impl ToString) -> String {
    problem.to_string().chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// Whether the system had no room left for a file.
fn no_room(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

impl From<SettingError> for TrainError {
    fn from(error: SettingError) -> Self {
        Self::Data(error.into())
    }
}

impl From<EngineError> for TrainError {
    fn from(error: EngineError) -> Self {
        Self::Private(error.into())
    }
}

impl TrainError {
    pub(crate) fn file(path: &Path, source: io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }

    pub(crate) fn setting(key: &'static str, problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Setting { key, problem: problem.into(), hint: hint.into() }
    }

    /// What to do about it, where something can be done.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let words = match self {
            Self::File { source, .. } if no_room(source) => {
                "the disk is full, or a limit is reached: make room, then resume the run; what was spent is in its ledger"
            }
            Self::File { .. } => "check the path and its permissions",
            Self::Locked { .. } => "wait for it to finish, or end it; nothing is lost",
            Self::InTheWay { .. } => {
                "move it away, or choose another folder: nothing is written over or through it"
            }
            Self::Exists { .. } => "resume it, or choose another folder",
            Self::NoRun { .. } => "a run folder holds plan.toml and ledger.jsonl",
            Self::Changed { .. } => {
                "bring back what the run began with, or start a new run: its budget is counted on its own, and both must be summed if both are released"
            }
            Self::Ledger { source, .. } => source.hint(),
            Self::Budget { source, .. } => source.hint(),
            Self::Checkpoint { .. } => {
                "resume uses the newest checkpoint that is whole; remove this one to go on"
            }
            Self::Setting { hint, .. } => return Some(hint.clone()),
            Self::Ranks { .. } => "all ranks need the same program, plan and files, at the same paths",
            Self::Mpi(source) => return source.hint().map(str::to_owned),
            Self::Federated(source) => source.hint(),
            Self::Step { source, .. } => return source.hint(),
            Self::Plan(source) => return source.hint(),
            Self::Data(source) => return source.hint(),
            Self::Model(source) => return source.hint(),
            Self::Private(source) => return source.hint(),
        };
        Some(words.to_owned())
    }
}
