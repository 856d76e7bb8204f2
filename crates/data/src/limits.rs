//! How much a file may ask for. Every reader checks here before it takes memory.

use std::path::Path;

use dapple_geometry::Size;
use dapple_plan::DataLimits;

use crate::DataError;

/// The size of an image, unless it has more pixels than allowed.
///
/// # Errors
/// No pixels, or too many.
pub(crate) fn size(limits: &DataLimits, width: u32, height: u32, path: &Path) -> Result<Size, DataError> {
    let size =
        Size::named("image", width, height).map_err(DataError::geometry(path.display().to_string()))?;
    if size.pixels() > limits.pixels {
        let (key, what) = ("data.max_pixels", format!("an image of {size}, {} pixels", size.pixels()));
        return Err(DataError::Limit { path: path.to_owned(), what, limit: limits.pixels, key });
    }
    Ok(size)
}

/// Refuses a file of more bytes than allowed.
///
/// # Errors
/// Too many bytes.
pub(crate) fn length(limits: &DataLimits, bytes: u64, path: &Path) -> Result<(), DataError> {
    if bytes <= limits.bytes {
        return Ok(());
    }
    let (key, what) = ("data.max_bytes", format!("{bytes} bytes"));
    Err(DataError::Limit { path: path.to_owned(), what, limit: limits.bytes, key })
}

/// Refuses a clip whose frames together have more pixels than allowed.
///
/// # Errors
/// Too many pixels.
pub(crate) fn clip(limits: &DataLimits, size: Size, frames: usize, path: &Path) -> Result<(), DataError> {
    if size.pixels().checked_mul(frames as u64).is_some_and(|pixels| pixels <= limits.pixels) {
        return Ok(());
    }
    let (key, what) = ("data.max_pixels", format!("{frames} frames of {size}"));
    Err(DataError::Limit { path: path.to_owned(), what, limit: limits.pixels, key })
}
