//! Features on disk: a line that says whose they are, a line with the checksum of the rest, and the values.

use std::path::Path;

use crate::digest;
use crate::error::TrainError;
use crate::files::{self, Access};

/// Digits of a digest.
const DIGITS: usize = 64;
const HEAD: usize = 2 * (DIGITS + 1);

/// The features in a file; `None` unless they belong to the key, are as many as expected, and are intact.
pub(super) fn read(path: &Path, key: &str, expected: usize) -> Option<Vec<f32>> {
    let about = std::fs::symlink_metadata(path).ok()?;
    if !about.is_file() || about.len() != (HEAD + 4 * expected) as u64 {
        return None;
    }
    let bytes = files::read(path).ok()?;
    let (head, values) = bytes.split_at_checked(HEAD)?;
    let whole = head == head_of(key, values).as_bytes();
    whole.then(|| values.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

/// Writes features so that only the owner of the run can read them.
pub(super) fn write(path: &Path, key: &str, values: &[f32]) -> Result<(), TrainError> {
    let values: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut bytes = head_of(key, &values).into_bytes();
    bytes.extend(values);
    files::write_for(path, &bytes, Access::Owner)
}

fn head_of(key: &str, values: &[u8]) -> String {
    format!("{key}\n{}\n", digest::of(&[values]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("features");
        let (key, other) = ("a".repeat(DIGITS), "b".repeat(DIGITS));
        assert_eq!(read(&path, &key, 3), None);
        write(&path, &key, &[1.5, -0.0, f32::MIN_POSITIVE]).unwrap();
        assert_eq!(read(&path, &key, 3), Some(vec![1.5, -0.0, f32::MIN_POSITIVE]));
        assert_eq!((read(&path, &other, 3), read(&path, &key, 2)), (None, None));
        let bytes = std::fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(read(&path, &key, 3), None, "{at}");
        }
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(read(&path, &key, 3), None);
    }
}
