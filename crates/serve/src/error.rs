//! What can go wrong.

use dapple_plan::PlanError;

/// Why there is no page, or no answer.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port cannot be had.
    #[error("cannot listen on 127.0.0.1:{port}: {source}")]
    Listen {
        /// The port that was asked for.
        port: u16,
        /// What the system says.
        source: std::io::Error,
    },
    /// The server cannot go on.
    #[error("the server stopped: {0}")]
    Stopped(std::io::Error),
    /// The system has no random numbers for the address.
    #[error("no random numbers for the address: {0}")]
    Random(String),
    /// A plan that makes no sense.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A question in another form than the page asks.
    #[error("{0}")]
    Question(String),
    /// A plan in the browser that names a file.
    #[error("`{key}` names a file, and the page opens none but those of the plan that it was started with")]
    File {
        /// The key.
        key: &'static str,
    },
}

impl ServeError {
    /// What to do about it, where something can be done.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Listen { .. } => Some("give another --port, or none to have a free one".to_owned()),
            Self::Stopped(_) | Self::Random(_) | Self::Question(_) => None,
            Self::Plan(error) => error.hint(),
            Self::File { .. } => {
                Some("give a rectangle or a circle, or start `dapple serve` with that plan".to_owned())
            }
        }
    }
}
