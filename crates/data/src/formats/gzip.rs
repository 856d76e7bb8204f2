//! Files that may be compressed.

use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::{DataError, DataLimits, file};

/// The content of a file, unpacked if it begins like gzip.
pub(super) fn open(path: &Path) -> Result<Box<dyn Read>, DataError> {
    let (file, _) = file::open(path)?;
    unpacked(file).map_err(DataError::io(path))
}

/// The bytes of a reader, unpacked if they begin like gzip.
pub(super) fn unpacked(mut reader: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    let mut start = Vec::with_capacity(2);
    reader.by_ref().take(2).read_to_end(&mut start)?;
    let packed = start == [0x1f, 0x8b];
    let whole = io::Cursor::new(start).chain(reader);
    Ok(if packed {
        Box::new(MultiGzDecoder::new(BufReader::new(whole)))
    } else {
        Box::new(BufReader::new(whole))
    })
}

/// Reads and unpacks a whole file, unless its content is longer than allowed.
pub(super) fn read_all(path: &Path, limits: &DataLimits) -> Result<Vec<u8>, DataError> {
    let mut bytes = Vec::new();
    let read = open(path)?.take(limits.bytes.saturating_add(1)).read_to_end(&mut bytes);
    let read = read.map_err(|source| unpack_error(path, source))?;
    crate::limits::length(limits, read as u64, path)?;
    Ok(bytes)
}

/// Reads exactly `length` bytes, after which the file must end. Memory grows with what is there, not with what a header claims.
pub(super) fn read_rest(
    reader: &mut dyn Read,
    path: &Path,
    before: u64,
    length: u64,
    limits: &DataLimits,
) -> Result<Vec<u8>, DataError> {
    crate::limits::length(limits, length, path)?;
    let mut bytes = Vec::new();
    let read = reader
        .take(length.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|source| unpack_error(path, source))?;
    if read as u64 != length {
        let path = path.to_owned();
        return Err(DataError::Length {
            path,
            expected: before.saturating_add(length),
            found: before + read as u64,
        });
    }
    Ok(bytes)
}

/// The error of a failed read: bytes that do not unpack are the fault of the file, everything else is the operating system's.
pub(super) fn unpack_error(path: &Path, source: io::Error) -> DataError {
    match source.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            DataError::malformed(path, format!("the compressed bytes do not unpack: {source}"))
        }
        _ => DataError::io(path)(source),
    }
}
