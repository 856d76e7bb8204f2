//! File formats. Every parser takes any bytes and answers with a data set or an error that names the file.

mod cifar;
mod folder;
mod gzip;
mod idx;
mod mask;
mod npy;
mod packed;

pub use cifar::cifar;
pub use folder::{ImageFolder, decode};
pub(crate) use folder::{MAX_PICTURE_MEMORY, one_line, pictures_below};
pub use idx::idx;
pub(crate) use idx::{idx_in_memory, named};
pub use mask::read_mask;
pub use npy::Npy;
pub use packed::Packed;

use std::path::Path;

use sha2::{Digest, Sha256};

use crate::DataError;

/// The number of classes: the plan's, or one more than the largest label. Every label must be below it.
fn checked_classes(path: &Path, labels: &[i64], expected: Option<u32>) -> Result<(Vec<u32>, u32), DataError> {
    let largest = labels.iter().copied().max().unwrap_or(0);
    let classes = match expected {
        Some(classes) => classes,
        None => u32::try_from(largest.saturating_add(1)).unwrap_or(u32::MAX),
    };
    let wrong = labels.iter().position(|&label| !(0..i64::from(classes)).contains(&label));
    if let Some(record) = wrong {
        return Err(DataError::Label { path: path.to_owned(), record, label: labels[record], classes });
    }
    Ok((labels.iter().map(|&label| label as u32).collect(), classes))
}

/// Adds bytes to a fingerprint so that no two sequences of texts give the same.
pub(crate) fn hash_text(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}
