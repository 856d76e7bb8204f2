//! What can be wrong with the cards of a group.

use super::super::CudaError;

/// A list of cards that is no group, or a card of a group that cannot be used or failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CudaGroupError {
    /// A list without a card.
    #[error("no card is named")]
    Empty,
    /// A card that is in the list twice.
    #[error("card {device} is named twice")]
    Twice {
        /// The card's number.
        device: usize,
    },
    /// One card failed.
    #[error("card {device}: {source}")]
    Card {
        /// The card's number.
        device: usize,
        /// What it said.
        source: CudaError,
    },
    /// A card's parameters are no longer the same as those of the first card.
    #[error("card {device} holds other parameters than the first card")]
    Apart {
        /// The card's number.
        device: usize,
    },
    /// Something that the cards do together failed, or what they were given cannot be used by any card.
    #[error(transparent)]
    Together(#[from] CudaError),
}

impl CudaGroupError {
    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Empty => Some("name at least one card; nvidia-smi lists them"),
            Self::Twice { .. } => Some("name every card once; nvidia-smi lists them"),
            Self::Apart { .. } => Some("a card or the links between the cards are at fault; use one card"),
            Self::Card { source, .. } | Self::Together(source) => source.hint(),
        }
    }
}
