//! What is wrong with a key that says how data are read.

use thiserror::Error;

/// A key of the plan that the data cannot go by. The message is one line; [`SettingError::hint`] is the way out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingError {
    /// A value that is needed and not given.
    #[error("`{key}` is missing: {why}")]
    Missing {
        /// The key of the plan.
        key: &'static str,
        /// What it is needed for.
        why: String,
    },
    /// A value that makes no sense.
    #[error("`{key}`: {problem}")]
    Refused {
        /// The key of the plan.
        key: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

impl SettingError {
    /// A value that is needed and not given.
    #[must_use]
    pub fn missing(key: &'static str, why: impl Into<String>) -> Self {
        Self::Missing { key, why: why.into() }
    }

    /// A value that makes no sense.
    #[must_use]
    pub fn refused(key: &'static str, problem: impl Into<String>) -> Self {
        Self::Refused { key, problem: problem.into() }
    }

    /// The way out.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Missing { key, .. } => format!("set `{key}` in the plan"),
            Self::Refused { key, .. } => format!("change `{key}` in the plan, or leave it out"),
        }
    }
}
