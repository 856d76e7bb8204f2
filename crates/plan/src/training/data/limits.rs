//! How much a file of records may ask for.

use crate::spec::DataSpec;

/// Classes that are told apart. More would be a slip: a label that is no label makes a model of terabytes.
pub const MAX_CLASSES: u32 = 1 << 16;

/// What one file may take; a plan may allow more or less (`data.max_pixels`, `data.max_bytes`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataLimits {
    /// Pixels of a picture, of a label map, of one image of an array.
    pub pixels: u64,
    /// Bytes of a file that is read as a whole: as it lies on the disk, and unpacked.
    pub bytes: u64,
}

impl Default for DataLimits {
    fn default() -> Self {
        Self { pixels: 1 << 26, bytes: 1 << 31 }
    }
}

impl DataLimits {
    /// Those of a plan.
    #[must_use]
    pub fn of(data: &DataSpec) -> Self {
        let usual = Self::default();
        Self { pixels: data.max_pixels.unwrap_or(usual.pixels), bytes: data.max_bytes.unwrap_or(usual.bytes) }
    }
}
