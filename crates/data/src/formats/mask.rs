//! Pictures that mark private pixels.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use dapple_geometry::{MAX_PIXELS, Mask, Size};
use image::{DynamicImage, ImageFormat, ImageReader, Limits};

use crate::DataError;

/// Bytes that a decoder may take for each pixel.
const BYTES_A_PIXEL: u64 = 8;

/// The mask of a PNG picture.
///
/// # Guarantee
/// Whatever is not black is private: no pixel that the picture marks is left out.
///
/// # Errors
/// A file that cannot be read or is no PNG picture of a size that geometry knows.
pub fn read_mask(path: &Path) -> Result<Mask, DataError> {
    let wrong = |problem: String| DataError::Mask { path: path.to_owned(), problem };
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let mut reader = ImageReader::with_format(BufReader::new(file), ImageFormat::Png);
    let mut limits = Limits::default();
    limits.max_alloc = Some(BYTES_A_PIXEL * MAX_PIXELS);
    reader.limits(limits);
    let picture = reader.decode().map_err(|error| wrong(error.to_string()))?;
    let size =
        Size::named("mask", picture.width(), picture.height()).map_err(|error| wrong(error.to_string()))?;
    let bytes = match picture {
        DynamicImage::ImageLuma8(grey) => grey.into_raw(),
        // Sixteen bits, so that no faint colour rounds to black.
        other => other.into_luma16().pixels().map(|pixel| u8::from(pixel.0[0] != 0)).collect(),
    };
    Mask::from_bytes(size, bytes).map_err(|error| wrong(error.to_string()))
}
