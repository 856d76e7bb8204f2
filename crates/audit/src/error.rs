//! What can stop an audit, and the way out.

use dapple_train::TrainError;

/// Why there is no audit. The message is one line; [`AuditError::hint`] is the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// A probability that is none, or that promises nothing or too much.
    #[error("a confidence of {0} is not between 0 and 1")]
    Confidence(f64),
    /// No canaries, or more than there are records.
    #[error("{canaries} canaries among {records} records")]
    Canaries {
        /// Canaries asked for.
        canaries: usize,
        /// Records of the plan.
        records: usize,
    },
    /// The plan crops images whose size it does not tell.
    #[error("pipeline.image: the size of the images is not given")]
    ImageSize,
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
            Self::Canaries { records, .. } => Some(format!("give between 1 and {records}")),
            Self::ImageSize => Some("give it: --image WxH".to_owned()),
            Self::Train(error) => error.hint(),
        }
    }
}
