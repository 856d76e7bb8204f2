//! Errors of the keys that say how data is read.

use thiserror::Error;

/// A key about the data that is missing or makes no sense. The message is one line, and [`SettingError::hint`] says what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingError {
    /// A value that is needed but not given.
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
    /// The error of a value that is needed but not given.
    #[must_use]
    pub fn missing(key: &'static str, why: impl Into<String>) -> Self {
        Self::Missing { key, why: why.into() }
    }

    /// The error of a value that makes no sense.
    #[must_use]
    pub fn refused(key: &'static str, problem: impl Into<String>) -> Self {
        Self::Refused { key, problem: problem.into() }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Missing { key, .. } => format!("set `{key}` in the plan"),
            Self::Refused { key, .. } => format!("change `{key}` in the plan, or leave it out"),
        }
    }
}
