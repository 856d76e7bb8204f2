//! File formats. Every parser takes any bytes and answers with a data set or an error that names the file.

mod cifar;
mod folder;
mod gzip;
mod header;
mod idx;
mod list;
mod mask;
mod npy;
mod packed;
mod shards;

pub use cifar::cifar;
pub(crate) use folder::{ENDINGS as PICTURE_ENDINGS, class_folders, one_line, pictures_below, same_twice};
pub use folder::{ImageFolder, decode, read_picture};
pub use header::picture_size;
pub use idx::idx;
pub(crate) use idx::{idx_in_memory, named};
pub(crate) use mask::marked_pixels;
pub use mask::{decode_mask, read_mask};
pub use npy::Npy;
pub(crate) use npy::{ArrayClip, array_mask, array_masks, whole_numbers};
pub use packed::PackedImages;
pub use shards::{
    ShardCut, ShardedArrays, ShardedClips, ShardedImages, ShardedPairs, cut_arrays, list_clip_shards,
    list_pair_shards, list_shards,
};

use std::path::Path;

use sha2::{Digest, Sha256};

use crate::{DataError, MAX_CLASSES};

/// The labels and the number of classes: the plan's, or one more than the largest label. Every label must be below that number.
fn checked_classes(
    path: &Path,
    labels: impl Iterator<Item = i64> + Clone,
    expected: Option<u32>,
) -> Result<(Vec<u32>, u32), DataError> {
    let limit = expected.unwrap_or(MAX_CLASSES);
    let mut found = Vec::with_capacity(labels.size_hint().0);
    for (record, label) in labels.enumerate() {
        match u32::try_from(label) {
            Ok(class) if class < limit => found.push(class),
            _ => return Err(beyond(path, record, label, expected)),
        }
    }
    let classes = expected.unwrap_or_else(|| found.iter().max().map_or(1, |largest| largest + 1));
    Ok((found, classes))
}

/// The error of a label that is not below the number of classes.
fn beyond(path: &Path, record: usize, label: i64, expected: Option<u32>) -> DataError {
    let path = path.to_owned();
    match expected {
        None if label >= 0 => DataError::TooManyClasses { path, record, label, limit: MAX_CLASSES },
        _ => DataError::Label { path, record, label, classes: expected.unwrap_or(MAX_CLASSES) },
    }
}

/// Adds bytes to a fingerprint with their length, so that no two sequences of texts give the same fingerprint.
pub(crate) fn hash_text(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}
