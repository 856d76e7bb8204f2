//! The papers whose figures and tables are computed again.

/// A paper; `docs/references.bib` says where it appeared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paper {
    /// A random crop often misses a private patch, which makes training more private.
    PatchLevel,
    /// Only some tokens of a record are private.
    Masked,
    /// A record trains a part of the model, or takes part in a fixed number of steps.
    Partitioning,
    /// Mixtures of a record's own views count as the record does.
    Mixing,
}

impl Paper {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::PatchLevel, Self::Masked, Self::Partitioning, Self::Mixing];

    /// The title.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::PatchLevel => "Amplified Patch-Level Differential Privacy for Free via Random Cropping",
            Self::Masked => "Masked Differential Privacy",
            Self::Partitioning => {
                "Leveraging Randomness in Model and Data Partitioning for Privacy Amplification"
            }
            Self::Mixing => "DP-Mix: Mixup-based Data Augmentation for Differentially Private Learning",
        }
    }

    /// How the names of its figures and tables begin.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::PatchLevel => "patch",
            Self::Masked => "mask",
            Self::Partitioning => "partition",
            Self::Mixing => "mix",
        }
    }
}
