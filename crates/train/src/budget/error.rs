//! What a budget refuses.

use std::path::Path;

use dapple_plan::number;

use crate::error::TrainError;
use crate::ledger::LedgerError;

/// Why a budget does not take a run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// The run would cost more than is left.
    #[error(
        "epsilon would come to {} at delta {}, above the total of {}; {} are spent or reserved",
        number::up(*.epsilon, 4), number::brief(*.delta), number::exact(*.total), number::up(*.before, 4)
    )]
    Exceeded {
        /// What everything would cost together.
        epsilon: f64,
        /// The most that was stated.
        total: f64,
        /// What everything before costs together.
        before: f64,
        /// The budget's delta.
        delta: f64,
    },
    /// A total larger than the one that was stated.
    #[error("a total of {} is above the {} that was stated before", number::exact(*.asked), number::exact(*.stated))]
    Raised {
        /// The new one.
        asked: f64,
        /// The old one.
        stated: f64,
    },
    /// A total that is no epsilon.
    #[error("{0} is no epsilon")]
    NoEpsilon(f64),
    /// A budget of other records.
    #[error("the budget is about other records")]
    OtherRecords,
    /// A run that cannot be priced for the budget's neighbours.
    #[error("the budget protects under the {relation} relation: {problem}")]
    NotComposed {
        /// The relation of the budget.
        relation: &'static str,
        /// What is missing.
        problem: String,
    },
    /// A run without privacy.
    #[error("a run without privacy has no price")]
    NotPrivate,
    /// There is no such file.
    #[error("there is no budget here")]
    Missing,
    /// A run that this budget never counted.
    #[error("this budget does not know the run")]
    Unknown,
    /// A copy of a run whose allocation was drawn ahead.
    #[error(
        "a copy of a run with balanced sampling goes on: both copies draw the same records, and no theorem prices them together"
    )]
    SharedAllocation,
    /// A run that is in the budget already.
    #[error("the run is in this budget already")]
    Known,
    /// A file that cannot be trusted.
    #[error(transparent)]
    Broken(#[from] LedgerError),
    /// An entry that does not fit those before it.
    #[error("line {line}: {problem}")]
    Entry {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl BudgetError {
    /// The same error with the path of the budget.
    pub(crate) fn at(self, path: &Path) -> TrainError {
        TrainError::Budget { path: path.to_owned(), source: self }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Exceeded { .. } => {
                "lower privacy.epsilon or the steps; `dapple budget FILE` tells what was counted"
            }
            Self::Raised { .. } => {
                "leave --epsilon-total out to keep the one that was stated, or raise it in the open: dapple budget FILE --epsilon-total E"
            }
            Self::NoEpsilon(_) => "give a positive number such as 3",
            Self::OtherRecords => {
                "give each data set a budget of its own; if they share records, what both cost must be added"
            }
            Self::NotComposed { .. } => {
                "draw records by Poisson sampling, or give the run a budget of its own and add what both cost"
            }
            Self::NotPrivate => "leave --no-dp or --budget out",
            Self::Missing => {
                "a budget begins with its first run, `dapple train PLAN --out DIR --budget FILE`; if it was moved, say where to: --budget FILE"
            }
            Self::Unknown => "name the budget that the run began with: --budget FILE",
            Self::SharedAllocation => "go on with the run itself, or start a new one",
            Self::Known => "nothing is to be done",
            Self::Broken(_) | Self::Entry { .. } => {
                "restore the budget from a backup; what was spent cannot be told from it"
            }
        }
    }
}
