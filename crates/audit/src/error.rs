//! What can stop an audit, and what to do about it.

use dapple_train::TrainError;

/// Why an audit was not done. The message is one line, and [`AuditError::hint`] says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// A confidence that is not strictly between 0 and 1.
    #[error("a confidence of {0} is not between 0 and 1")]
    Confidence(f64),
    /// No canaries, or more than there are records or room for.
    #[error("{canaries} canaries, not between 1 and {most}")]
    Canaries {
        /// Canaries asked for.
        canaries: usize,
        /// The most that this plan may have.
        most: usize,
    },
    /// Images that cannot be made.
    #[error("pipeline.image: {problem}")]
    Image {
        /// What is wrong with them.
        problem: String,
    },
    /// Canaries that a split model cannot have, or knowledge of submodels where there are none.
    #[error("partition.submodels: {problem}")]
    Split {
        /// What is wrong with them.
        problem: String,
    },
    /// Canaries that cannot have a private and a public part.
    #[error("privacy.relation: {problem}")]
    Masked {
        /// What is wrong with them.
        problem: String,
    },
    /// The plan cannot be trained, or its training failed.
    #[error(transparent)]
    Train(#[from] TrainError),
}

impl AuditError {
    /// What to do about it, where something can be done.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Confidence(_) => Some("give a share such as 0.95".to_owned()),
            Self::Canaries { most, .. } => Some(format!("give a number from 1 to {most}")),
            Self::Image { .. } => Some("give their size: --image WxH".to_owned()),
            Self::Split { .. } => Some("use plain canaries, and attack the plan as it is".to_owned()),
            Self::Masked { .. } => Some("use plain canaries".to_owned()),
            Self::Train(error) => error.hint(),
        }
    }
}
