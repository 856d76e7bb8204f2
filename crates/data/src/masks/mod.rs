//! Which pixels of each image are private: masks as annotators and detectors write them.
//!
//! Every reader takes any bytes and answers with a mask or an error that names the file. What is in doubt is private, or refused; only where
//! an object has runs, these are what it covers, and not the box around them.

mod boxes;
mod clips;
mod json;
mod records;
mod runs;
#[cfg(test)]
mod tests;
mod tokens;
mod unique;

pub use boxes::PixelBox;
pub(crate) use clips::{ClipFrames, clip_masks};
pub use records::MaskedRecords;
pub use tokens::PatchedMask;

use std::ffi::OsStr;
use std::path::Path;

use dapple_geometry::{Mask, Size};

use crate::formats::{array_mask, marked_pixels};
use crate::{DataError, DataLimits, file};

/// Endings of the files that are masks.
pub const ENDINGS: [&str; 4] = ["png", "npy", "json", "csv"];

/// The private pixels of an image of this size, as a file says them. The file's ending says how.
///
/// # Errors
/// As [`decode_image_mask`], and a file that cannot be read.
pub fn read_image_mask(path: &Path, size: Size, limits: &DataLimits) -> Result<Mask, DataError> {
    decode_image_mask(&file::read(path, limits)?, path, size, limits)
}

/// The same from bytes in memory; the path stands for them in messages.
///
/// # Guarantee
/// No pixel that the file marks is left out: what is not black or not zero is private, and a box takes in every pixel that it touches. A box
/// beside the runs of the same object marks nothing.
///
/// # Errors
/// An ending that is none of [`ENDINGS`], bytes that say nothing about private pixels, a mask of another size than the image.
pub fn decode_image_mask(
    bytes: &[u8],
    path: &Path,
    size: Size,
    limits: &DataLimits,
) -> Result<Mask, DataError> {
    let mask = read_bytes(bytes, path, size, limits)?;
    match mask.size() == size {
        true => Ok(mask),
        false => Err(DataError::MaskSize { path: path.to_owned(), found: mask.size(), expected: size }),
    }
}

/// The mask that bytes say, which may still be of another size than the image.
fn read_bytes(bytes: &[u8], path: &Path, size: Size, limits: &DataLimits) -> Result<Mask, DataError> {
    crate::limits::size(limits, size.width(), size.height(), path)?;
    let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default().to_ascii_lowercase();
    let wrong = |problem: String| DataError::ImageMask {
        path: path.to_owned(),
        problem: crate::formats::one_line(&problem),
    };
    match ending.as_str() {
        "png" => marked_pixels(bytes, path, limits),
        "npy" => array_mask(bytes, path, limits),
        "json" => json::mask(bytes, size).map_err(wrong),
        "csv" => boxes::of_csv(&String::from_utf8_lossy(bytes))
            .and_then(|boxes| boxes::mask(&boxes, size))
            .map_err(wrong),
        _ => Err(wrong(format!("its name does not end in .{}", ENDINGS.join(", .")))),
    }
}
