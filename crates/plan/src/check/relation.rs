//! What may differ between two data sets that must look alike.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The neighbouring relation of a guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// One record more or less.
    AddRemove,
    /// One record substituted.
    Replace,
    /// The pixels, and the label pixels, of one region of one image substituted.
    Patch,
    /// The private tokens of one record substituted.
    Masked,
    /// All records of one user more or less.
    User,
}

impl Relation {
    /// Every relation.
    pub const ALL: [Self; 5] = [Self::AddRemove, Self::Replace, Self::Patch, Self::Masked, Self::User];

    /// The name in files and flags.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AddRemove => "add-remove",
            Self::Replace => "replace",
            Self::Patch => "patch",
            Self::Masked => "masked",
            Self::User => "user",
        }
    }

    /// How far the sum of clipped gradients moves between neighbours, in clip norms.
    #[must_use]
    pub fn sensitivity(self) -> f64 {
        match self {
            Self::AddRemove | Self::User => 1.0,
            Self::Replace | Self::Patch | Self::Masked => 2.0,
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
