//! Masks that are stored as arrays.

use std::path::Path;

use dapple_geometry::Mask;

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
    let side = |length: u64| u32::try_from(length).unwrap_or(u32::MAX);
    let size = crate::limits::size(limits, side(width), side(height), path)?;
    let expected = header.file_length(path)?;
    if bytes.len() as u64 != expected {
        return Err(DataError::Length { path: path.to_owned(), expected, found: bytes.len() as u64 });
    }
    let values = bytes.get(header.start as usize..).unwrap_or_default();
    let marked = match header.element {
        // Of a float, only the sign does not count: zero may have either.
        Element::Float => {
            values.chunks_exact(4).map(|word| u8::from(word[..3] != [0; 3] || word[3] & 0x7f != 0)).collect()
        }
        element => values
            .chunks_exact(element.bytes())
            .map(|word| u8::from(word.iter().any(|&byte| byte != 0)))
            .collect(),
    };
    Mask::from_bytes(size, marked).map_err(DataError::geometry(path.display().to_string()))
}
