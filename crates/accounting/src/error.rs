//! What can be wrong with a question, and the way out.

use thiserror::Error;

/// Why the accountant gave no answer.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum AccountingError {
    /// A number lies outside the range in which the accountant is proved and tested.
    #[error("{name} = {value} is outside {range}")]
    OutOfRange {
        /// The name of the quantity.
        name: &'static str,
        /// The value that was given.
        value: f64,
        /// The range it must lie in, in words.
        range: &'static str,
    },
    /// Probabilities that should form a distribution do not.
    #[error("the probabilities {names} add up to {sum}, not to 1")]
    NotADistribution {
        /// Which probabilities.
        names: &'static str,
        /// Their sum.
        sum: f64,
    },
    /// An operation needs a pair that bounds both directions at once.
    #[error("{operation} needs a substitution (symmetric) relation")]
    NotSymmetric {
        /// The operation.
        operation: &'static str,
    },
    /// No value of the unknown reaches the target.
    #[error("no {unknown} between {low} and {high} reaches epsilon {epsilon}")]
    Unreachable {
        /// The unknown that was solved for.
        unknown: &'static str,
        /// The smallest value that was tried.
        low: f64,
        /// The largest value that was tried.
        high: f64,
        /// The target.
        epsilon: f64,
    },
    /// Only a mechanism with bounded losses has an epsilon at delta 0.
    #[error("delta = 0: the losses of the mechanism have no bound")]
    NotPure,
    /// A composition needs longer lattices than are computed.
    #[error("the composition needs a lattice of {points:.3e} points, above {limit:.3e}")]
    LatticeTooLong {
        /// The points it would have.
        points: f64,
        /// The most that are computed.
        limit: f64,
    },
    /// Answers that belong together, such as those of a search, take more work than they may.
    #[error("the answer takes more than {limit:.1e} units of work")]
    TooMuchWork {
        /// The most they may take, in points of transforms.
        limit: f64,
    },
    /// The privacy loss is so large that no useful bound exists.
    #[error("epsilon is above {limit}: the plan gives no privacy at delta {delta}")]
    EpsilonTooLarge {
        /// The largest epsilon the accountant reports.
        limit: f64,
        /// The delta asked for.
        delta: f64,
    },
}

impl AccountingError {
    /// The way out, as one sentence.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::OutOfRange { name, .. } => match *name {
                "delta" => "delta is a probability, commonly 1e-5 or one over the number of records",
                "sample rate" => "the sample rate is batch / records, at most 1",
                "noise multiplier" => {
                    "the noise multiplier is the noise's standard deviation in units of the clip norm"
                }
                "steps" => "steps = epochs * ceil(records / batch)",
                _ => "give a finite number inside that range",
            },
            Self::NotADistribution { .. } => "give probabilities that add up to 1",
            Self::NotSymmetric { .. } => {
                "sampling without replacement keeps the number of records: use the replace or patch relation"
            }
            Self::Unreachable { .. } => "raise epsilon or delta, lower the steps, or lower the sample rate",
            Self::NotPure => "ask at a delta above 0, commonly 1e-5 or one over the number of records",
            Self::LatticeTooLong { .. } => {
                "compose fewer different mechanisms, or give distributions with fewer losses"
            }
            Self::TooMuchWork { .. } => {
                "ask for less precision, e.g. --precision 0.01; or give the value and price it by `dapple account`"
            }
            Self::EpsilonTooLarge { .. } => "raise the noise multiplier or lower the steps",
        }
    }
}

/// The result of asking the accountant.
pub type Result<T> = std::result::Result<T, AccountingError>;

/// Checks that `low <= value <= high` and that it is a number.
pub(crate) fn in_range(
    name: &'static str,
    value: f64,
    low: f64,
    high: f64,
    range: &'static str,
) -> Result<f64> {
    if value >= low && value <= high {
        Ok(value)
    } else {
        Err(AccountingError::OutOfRange { name, value, range })
    }
}

/// Checks that probabilities add up to 1.
pub(crate) fn adds_up_to_one(names: &'static str, probabilities: impl Iterator<Item = f64>) -> Result<()> {
    let sum = probabilities.fold(0.0, |sum, probability| sum + probability);
    if (sum - 1.0).abs() > 1e-12 {
        return Err(AccountingError::NotADistribution { names, sum });
    }
    Ok(())
}
