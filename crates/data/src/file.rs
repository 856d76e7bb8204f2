//! Opens files and nothing else, because a device has no end and a pipe waits for a writer.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::{DataError, DataLimits};

/// Opens a file and returns it with its length.
///
/// # Errors
/// Anything but a file, or one that cannot be read.
pub(crate) fn open(path: &Path) -> Result<(File, u64), DataError> {
    // Ask before opening, because opening a pipe would wait for its writer.
    let about = fs::metadata(path).map_err(DataError::io(path))?;
    if !about.is_file() {
        return Err(DataError::NotAFile { path: path.to_owned() });
    }
    Ok((File::open(path).map_err(DataError::io(path))?, about.len()))
}

/// Reads a whole file, unless it is longer than allowed.
///
/// # Errors
/// As [`open`]; a file that is too long.
pub(crate) fn read(path: &Path, limits: &DataLimits) -> Result<Vec<u8>, DataError> {
    let (file, length) = open(path)?;
    crate::limits::length(limits, length, path)?;
    let mut bytes = Vec::with_capacity(length as usize);
    // A file that grows in the meantime is still read no farther than allowed.
    file.take(limits.bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(DataError::io(path))?;
    crate::limits::length(limits, bytes.len() as u64, path)?;
    Ok(bytes)
}

/// Whether two paths lead to one file or folder.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}

/// Adds the length and every byte of a file to a hash, piece by piece.
///
/// # Errors
/// As [`open`].
pub(crate) fn hash(path: &Path, hash: &mut Sha256) -> Result<(), DataError> {
    let (mut file, length) = open(path)?;
    hash.update(length.to_le_bytes());
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece).map_err(DataError::io(path))? {
            0 => return Ok(()),
            read => hash.update(&piece[..read]),
        }
    }
}
