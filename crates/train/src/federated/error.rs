//! What can be wrong with a federated run.

/// Why a federated run does not begin or go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FederatedError {
    /// A part of a plan that a server does not carry out.
    #[error("{key}: a federated run has {problem}")]
    Plan {
        /// The dotted key.
        key: &'static str,
        /// What it has instead.
        problem: &'static str,
        /// What to do about it.
        hint: &'static str,
    },
    /// More clients than the plan counts.
    #[error("{online} clients are online, and the plan declares {declared}")]
    Clients {
        /// Clients that are there.
        online: u64,
        /// Clients that the plan counts.
        declared: u64,
    },
    /// A client that was not drawn, or that has answered before.
    #[error("client {client} {problem}")]
    Answer {
        /// The number of the client, from 0.
        client: usize,
        /// What is wrong with its answer.
        problem: &'static str,
    },
    /// No round is open.
    #[error("no round is open")]
    NoRound,
    /// Every round of the plan is spent.
    #[error("the plan has {rounds} rounds, and all of them are spent")]
    Over {
        /// Rounds of the plan.
        rounds: u64,
    },
    /// A model that is not the one the run began with.
    #[error("the model has {found} values where the run's has {expected}")]
    Model {
        /// Values of the run's model.
        expected: usize,
        /// Values that were given.
        found: usize,
    },
    /// Records that do not fit the model, or none.
    #[error("the records have {found} values where the model and the labels ask for {expected}")]
    Records {
        /// Values that the labels ask for.
        expected: usize,
        /// Values that were given.
        found: usize,
    },
}

impl FederatedError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Plan { hint, .. } => hint,
            Self::Clients { .. } => {
                "declare at least as many clients as there will ever be (sampling.records): the rate, and with it the price, follow from it"
            }
            Self::Answer { .. } => "a client is drawn by its own coin, and adds one update to a round",
            Self::NoRound => "promise a round before its updates are added",
            Self::Over { .. } => {
                "more rounds cost more privacy: plan them before the run begins (sampling.steps)"
            }
            Self::Records { .. } => {
                "give at least one record, each as [channels, height, width] with one label"
            }
            Self::Model { .. } => "clients and server train the same parameters in the same order",
        }
    }
}
