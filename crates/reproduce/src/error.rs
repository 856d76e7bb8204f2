//! Why nothing was reproduced, and the way out.

use dapple_accounting::AccountingError;
use dapple_plan::PlanError;
use dapple_report::ReportError;
use dapple_train::TrainError;

/// Why a figure, a table or an experiment could not be made. The message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReproduceError {
    /// What was asked for cannot be done.
    #[error("{message}")]
    Request {
        /// What is wrong.
        message: String,
        /// The way out.
        hint: String,
    },
    /// It was begun, and failed.
    #[error("{message}")]
    Failed {
        /// What went wrong.
        message: String,
        /// The way out, where one is known.
        hint: Option<String>,
    },
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// A plan that cannot be checked or priced.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A run that does not start, resume or finish.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A run of several, and what stopped it.
    #[error("{run}: {source}")]
    Run {
        /// The name of the run.
        run: String,
        /// What stopped it.
        source: Box<TrainError>,
    },
    /// A table or a picture that cannot be made.
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl ReproduceError {
    pub(crate) fn request(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Request { message: message.into(), hint: hint.into() }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::Failed { message: message.into(), hint: None }
    }

    /// The same failure with a way out.
    pub(crate) fn with_hint(self, hint: &str) -> Self {
        match self {
            Self::Failed { message, .. } => Self::Failed { message, hint: Some(hint.to_owned()) },
            other => other,
        }
    }
}

impl From<AccountingError> for ReproduceError {
    fn from(error: AccountingError) -> Self {
        PlanError::from(error).into()
    }
}

/// The result of reproducing something.
pub(crate) type Result<T> = std::result::Result<T, ReproduceError>;
