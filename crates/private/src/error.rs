//! Why a step cannot be taken.

use dapple_data::DataError;
use dapple_engine::EngineError;

/// What stops a step. The message is one line; [`StepError::hint`] says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// A standard deviation that no noise can have.
    #[error("noise of standard deviation {deviation} cannot be drawn")]
    Noise {
        /// The standard deviation.
        deviation: f64,
    },
    /// A number that is infinite or not a number.
    #[error("{what} is not finite")]
    NotFinite {
        /// What it is.
        what: &'static str,
    },
    /// A device that cannot be used, or that failed.
    #[error("{device}: {problem}")]
    Device {
        /// The device as a plan names it.
        device: String,
        /// What is wrong with it.
        problem: String,
        /// The way out, where one is known.
        hint: Option<&'static str>,
    },
    /// Public parts of records on a machine that knows of none.
    #[error("public parts of records are computed on the processor alone")]
    PublicParts,
    /// Scales of gradients on a machine that learns none.
    #[error("gradients are scaled before they are clipped on the processor alone")]
    GradientScales,
    /// Another of the processes that take the step together failed.
    #[error("rank {rank}: {problem}")]
    Rank {
        /// The number of the process, from 0.
        rank: usize,
        /// What it says went wrong.
        problem: String,
    },
    /// The records cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The engine cannot carry out a step.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The threads could not be started.
    #[error("cannot start {threads} threads: {reason}")]
    Threads {
        /// Threads asked for.
        threads: usize,
        /// What the system said.
        reason: String,
    },
}

impl StepError {
    /// The way out, where one is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let words = match self {
            Self::Noise { .. } => "check privacy.noise_multiplier and privacy.max_grad_norm",
            Self::NotFinite { .. } => {
                "training has diverged: lower optimiser.learning_rate or privacy.max_grad_norm"
            }
            Self::PublicParts | Self::GradientScales => "set performance.device = \"cpu\"",
            Self::Device { hint, .. } => return hint.map(str::to_owned),
            Self::Rank { .. } => {
                "look at that rank's machine; then resume the run, with as many ranks as you like"
            }
            Self::Data(source) => return source.hint(),
            Self::Engine(source) => return source.hint().map(str::to_owned),
            Self::Threads { .. } => "set performance.threads to fewer",
        };
        Some(words.to_owned())
    }
}
