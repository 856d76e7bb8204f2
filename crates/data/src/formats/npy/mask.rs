//! Masks that are stored as arrays.

use std::path::Path;

use dapple_geometry::{Mask, Size};

use super::header::{Element, Header};
use crate::{DataError, DataLimits};

/// The mask of an array of `[height, width]` in the bytes of a file: whatever is not zero is private, and what is not a number too.
///
/// # Errors
/// Bytes that are no array of numbers in two dimensions, or one with more pixels than allowed.
pub(crate) fn array_mask(bytes: &[u8], path: &Path, limits: &DataLimits) -> Result<Mask, DataError> {
    let header = Header::read(&mut &*bytes, path)?;
    let [height, width] = header.shape[..] else {
        let problem = format!("{} dimensions, but a mask has 2: [height, width]", header.shape.len());
        return Err(DataError::malformed(path, problem));
    };
    let size = frame_size((width, height), path, limits)?;
    Mask::from_bytes(size, marked(&header, bytes, path)?)
        .map_err(DataError::geometry(path.display().to_string()))
}

/// The masks of some frames in an array of `[frames, height, width]` for all `total` frames of a clip, or the one mask of an array of
/// `[height, width]`.
///
/// # Errors
/// As [`array_mask`], in three dimensions, and an array of another number of frames.
pub(crate) fn array_masks(
    bytes: &[u8],
    path: &Path,
    (total, shown): (usize, &[usize]),
    limits: &DataLimits,
) -> Result<Vec<Mask>, DataError> {
    let header = Header::read(&mut &*bytes, path)?;
    let [frames, height, width] = header.shape[..] else {
        return array_mask(bytes, path, limits).map(|mask| vec![mask]);
    };
    let size = frame_size((width, height), path, limits)?;
    if frames != total as u64 {
        let problem = format!("masks of {frames} frames, but the clip has {total}");
        return Err(DataError::ImageMask { path: path.to_owned(), problem });
    }
    let marked = marked(&header, bytes, path)?;
    let pixels = size.pixels() as usize;
    let of_frame = |&frame: &usize| Mask::from_bytes(size, marked[frame * pixels..][..pixels].to_vec());
    shown
        .iter()
        .map(of_frame)
        .collect::<Result<_, _>>()
        .map_err(DataError::geometry(path.display().to_string()))
}

fn frame_size((width, height): (u64, u64), path: &Path, limits: &DataLimits) -> Result<Size, DataError> {
    let side = |length: u64| u32::try_from(length).unwrap_or(u32::MAX);
    crate::limits::size(limits, side(width), side(height), path)
}

/// A one for every value that marks a pixel.
fn marked(header: &Header, bytes: &[u8], path: &Path) -> Result<Vec<u8>, DataError> {
    let expected = header.file_length(path)?;
    if bytes.len() as u64 != expected {
        return Err(DataError::Length { path: path.to_owned(), expected, found: bytes.len() as u64 });
    }
    let values = bytes.get(header.start as usize..).unwrap_or_default();
    Ok(match header.element {
        // Of a float, only the sign does not count: zero may have either.
        Element::Float => {
            values.chunks_exact(4).map(|word| u8::from(word[..3] != [0; 3] || word[3] & 0x7f != 0)).collect()
        }
        element => values
            .chunks_exact(element.bytes())
            .map(|word| u8::from(word.iter().any(|&byte| byte != 0)))
            .collect(),
    })
}
