//! What may differ between two data sets that must look alike.

use std::fmt;

use crate::spec::words;

words! {
    /// The neighbouring relation of a guarantee.
    pub enum Relation {
        /// One record more or less.
        AddRemove = "add-remove",
        /// One record substituted.
        Replace = "replace",
        /// The pixels, and the label pixels, of one region of one image substituted.
        Patch = "patch",
        /// The private tokens of one record substituted, or removed.
        Masked = "masked",
        /// All records of one user more or less.
        User = "user",
    }
}

impl Relation {
    /// How far the sum of clipped gradients moves between neighbours, in clip norms; under `masked`, if private tokens are substituted.
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
