//! Which records a step sees.

use std::fmt;

use crate::spec::words;

words! {
    /// The name of a sampling scheme, as written in a plan.
    pub enum Scheme {
        /// Each record joins each step by its own coin.
        Poisson = "poisson",
        /// Each step takes a uniform subset of fixed size.
        WithoutReplacement = "without-replacement",
        /// Each record joins a fixed number of steps, drawn for it alone.
        Balanced = "balanced",
    }
}

/// A checked sampling scheme with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sampling {
    /// Each record joins each step with probability batch / records, independently.
    Poisson,
    /// Each step takes a uniform subset of exactly `batch` records.
    WithoutReplacement,
    /// Each record joins exactly `per_record` steps of every `epoch_steps`: a uniform subset that is drawn for it alone, and anew in each
    /// such epoch. The run has a whole number of epochs.
    Balanced {
        /// Steps of an epoch that each record joins, from 1 to `epoch_steps`.
        per_record: u64,
        /// Steps of an epoch.
        epoch_steps: u64,
    },
}

impl Sampling {
    /// The scheme without its parameters.
    #[must_use]
    pub fn scheme(self) -> Scheme {
        match self {
            Self::Poisson => Scheme::Poisson,
            Self::WithoutReplacement => Scheme::WithoutReplacement,
            Self::Balanced { .. } => Scheme::Balanced,
        }
    }

    /// The name in files and flags.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.scheme().name()
    }
}

impl fmt::Display for Sampling {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
