//! How much a file of records may ask for.

use crate::spec::DataSpec;

/// The most classes that are told apart. More are a mistake: a stray number taken for a label would make a model of terabytes.
pub const MAX_CLASSES: u32 = 1 << 16;

/// How much one file may take. A plan may allow more or less (`data.max_pixels`, `data.max_bytes`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataLimits {
    /// Pixels of a picture, of a label map, or of one image of an array.
    pub pixels: u64,
    /// Bytes of a file that is read as a whole, both on disk and unpacked.
    pub bytes: u64,
}

impl Default for DataLimits {
    fn default() -> Self {
        Self { pixels: 1 << 26, bytes: 1 << 31 }
    }
}

impl DataLimits {
    /// The limits of a plan.
    #[must_use]
    pub fn of(data: &DataSpec) -> Self {
        let usual = Self::default();
        Self { pixels: data.max_pixels.unwrap_or(usual.pixels), bytes: data.max_bytes.unwrap_or(usual.bytes) }
    }
}
