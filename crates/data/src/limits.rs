//! How much a file may ask for. Every reader asks here before it takes memory.

use std::path::Path;

use dapple_geometry::Size;
use dapple_plan::spec::DataSpec;

use crate::DataError;

/// Classes that are told apart. More would be a slip: a label that is no label makes a model of terabytes.
pub const MAX_CLASSES: u32 = 1 << 16;

/// What one file may take; a plan may allow more or less (`data.max_pixels`, `data.max_bytes`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Pixels of a picture, of a label map, of one image of an array.
    pub pixels: u64,
    /// Bytes of a file that is read as a whole: as it lies on the disk, and unpacked.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { pixels: 1 << 26, bytes: 1 << 31 }
    }
}

impl Limits {
    /// Those of a plan.
    #[must_use]
    pub fn of(data: &DataSpec) -> Self {
        let usual = Self::default();
        Self { pixels: data.max_pixels.unwrap_or(usual.pixels), bytes: data.max_bytes.unwrap_or(usual.bytes) }
    }

    /// The size of an image, unless it has more pixels than allowed.
    ///
    /// # Errors
    /// No pixels, or too many.
    pub(crate) fn size(&self, width: u32, height: u32, path: &Path) -> Result<Size, DataError> {
        let size =
            Size::named("image", width, height).map_err(DataError::geometry(path.display().to_string()))?;
        if size.pixels() > self.pixels {
            let (key, what) = ("data.max_pixels", format!("an image of {size}, {} pixels", size.pixels()));
            return Err(DataError::Limit { path: path.to_owned(), what, limit: self.pixels, key });
        }
        Ok(size)
    }

    /// Refuses a file of more bytes than allowed.
    ///
    /// # Errors
    /// Too many bytes.
    pub(crate) fn length(&self, bytes: u64, path: &Path) -> Result<(), DataError> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let (key, what) = ("data.max_bytes", format!("{bytes} bytes"));
        Err(DataError::Limit { path: path.to_owned(), what, limit: self.bytes, key })
    }
}
