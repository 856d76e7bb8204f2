//! Masks in the patches of a vision transformer.

use dapple_geometry::{Mask, TokenGrid};

use crate::DataError;

/// How a mask lies over patches of one size.
#[derive(Debug, Clone, PartialEq)]
pub struct PatchedMask {
    /// Patches that hold a private pixel, which are the private tokens of an image that is shown as it is.
    pub private: u64,
    /// All patches. Pixels at the right and at the bottom that fill none are in none.
    pub patches: u64,
    /// The mask with every pixel of those patches in it.
    pub rounded: Mask,
}

impl PatchedMask {
    /// Lays patches of this side over a mask.
    ///
    /// # Errors
    /// A mask that is smaller than a patch.
    pub fn new(mask: &Mask, side: u32) -> Result<Self, DataError> {
        let wrong = || DataError::geometry(format!("a mask of {}", mask.size()));
        let touched = TokenGrid::patches(side).and_then(|grid| grid.touched(mask)).map_err(wrong())?;
        let rounded = Mask::from_fn(mask.size(), |x, y| mask.get(x, y) || touched.get(x / side, y / side));
        Ok(Self {
            private: touched.count(),
            patches: touched.size().pixels(),
            rounded: rounded.map_err(wrong())?,
        })
    }
}
