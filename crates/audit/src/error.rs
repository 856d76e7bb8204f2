//! What can stop an audit, and the way out.

use dapple_train::TrainError;

/// Why there is no audit. The message is one line; [`AuditError::hint`] is the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// A probability that is none, or that promises nothing or too much.
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
    /// The plan, or its training.
    #[error(transparent)]
    Train(#[from] TrainError),
}

impl AuditError {
    /// The way out, where one is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Confidence(_) => Some("give a share such as 0.95".to_owned()),
            Self::Canaries { most, .. } => Some(format!("give a number from 1 to {most}")),
            Self::Image { .. } => Some("give their size: --image WxH".to_owned()),
            Self::Train(error) => error.hint(),
        }
    }
}
