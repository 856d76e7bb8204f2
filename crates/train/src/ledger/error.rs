//! What can be wrong with a ledger.

/// A ledger that cannot be trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// It does not say which run it belongs to.
    #[error("the ledger has no first line")]
    NoStart,
    /// A line that is no entry.
    #[error("line {line} is no entry of a ledger")]
    Broken {
        /// The line, from 1.
        line: usize,
    },
    /// A line that does not fit the one before, because something was changed, removed or moved.
    #[error("line {line} does not follow from the lines before it: the ledger was edited")]
    Chain {
        /// The line, from 1.
        line: usize,
    },
    /// An entry that cannot stand where it does.
    #[error("line {line}: {problem}")]
    Order {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Entries that a checkpoint has seen are gone.
    #[error("the ledger ends before the entries that the checkpoint of step {step} has seen")]
    Shorter {
        /// The step of the checkpoint.
        step: u64,
    },
    /// A file tells of a step that the ledger does not count.
    #[error("{witness} tells of step {step}, and the ledger counts {spent}: its end was removed")]
    Behind {
        /// The file.
        witness: String,
        /// The step it tells of.
        step: u64,
        /// Steps that the ledger counts.
        spent: u64,
    },
    /// A file knows a line that the ledger does not have.
    #[error(
        "{witness} knows a line that the ledger does not have: its end was removed, or it is another run's"
    )]
    Forgotten {
        /// The file.
        witness: String,
    },
    /// Another process wrote to the ledger, or put another file in its place.
    #[error("the ledger was changed or replaced while the run wrote it")]
    Touched,
    /// A promise of steps that the plan does not have, or has otherwise.
    #[error("line {line} tells of steps that the plan does not take")]
    Plan {
        /// The line, from 1.
        line: usize,
    },
}

impl LedgerError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoStart => "no step of this run was taken: start it anew in an empty folder",
            _ => {
                "epsilon cannot be told from it; restore the ledger from a backup, or count the whole plan as spent and start a new run"
            }
        }
    }
}
