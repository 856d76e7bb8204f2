//! What can go wrong.

use dapple_pages::PageError;
use dapple_plan::PlanError;
use dapple_report::ReportError;
use dapple_train::TrainError;
use dapple_train::data::DataError;

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
    /// A plan in the browser that would train on, or with, something else than the server was given.
    #[error(
        "`{key}` is not that of the plan that the server was started with, and a run from the page keeps it"
    )]
    Fixed {
        /// The key, or the section.
        key: &'static str,
    },
    /// There is no run of the name that was asked for.
    #[error("there is no such run")]
    NoRun,
    /// The folder of runs cannot be read or made.
    #[error("the folder of runs: {source}")]
    Folder {
        /// What the system says.
        source: std::io::Error,
    },
    /// No process can be started.
    #[error("the run cannot be started: {source}")]
    Launch {
        /// What the system says.
        source: std::io::Error,
    },
    /// Something that cannot be done now.
    #[error("{problem}")]
    Refused {
        /// Why not.
        problem: String,
        /// What to do.
        hint: Option<&'static str>,
    },
    /// A run that cannot be read or trusted.
    #[error(transparent)]
    Train(Box<TrainError>),
    /// A picture that cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A page that cannot be made.
    #[error(transparent)]
    Page(Box<PageError>),
    /// A drawing that cannot be made.
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl From<TrainError> for ServeError {
    fn from(error: TrainError) -> Self {
        Self::Train(Box::new(error))
    }
}

impl From<PageError> for ServeError {
    fn from(error: PageError) -> Self {
        Self::Page(Box::new(error))
    }
}

impl ServeError {
    /// Something that cannot be done now.
    pub(crate) fn refused(problem: String, hint: Option<&'static str>) -> Self {
        Self::Refused { problem, hint }
    }

    /// What to do about it, where something can be done.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Listen { .. } => Some("give another --port, or none to have a free one".to_owned()),
            Self::Stopped(_)
            | Self::Random(_)
            | Self::Question(_)
            | Self::NoRun
            | Self::Folder { .. }
            | Self::Launch { .. }
            | Self::Page(_) => None,
            Self::Plan(error) => error.hint(),
            Self::Train(error) => error.hint(),
            Self::Data(error) => error.hint(),
            Self::Report(error) => error.hint().map(str::to_owned),
            Self::Refused { hint, .. } => hint.map(str::to_owned),
            Self::Fixed { .. } => {
                Some("change it in the file, and start `dapple serve` with that".to_owned())
            }
            Self::File { .. } => {
                Some("give a rectangle or a circle, or start `dapple serve` with that plan".to_owned())
            }
        }
    }
}
