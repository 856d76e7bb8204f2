//! The binary files of CIFAR-10 and CIFAR-100: a record is one label byte (two for CIFAR-100) and three planes of 32x32 bytes.

use std::path::{Path, PathBuf};

use dapple_geometry::Size;

use super::{checked_classes, gzip, packed::PackedImages};
use crate::{DataError, DataLimits};

const SIDE: u32 = 32;
const PLANE: usize = (SIDE * SIDE) as usize;
const PICTURE: usize = 3 * PLANE;

/// Reads the files in the given order as one data set. `classes` of 100 means CIFAR-100, of which the fine labels are used. Without
/// `classes`, the length of the files decides between the two.
///
/// # Errors
/// Files that cannot be read, hold no whole number of records, fit both CIFAR-10 and CIFAR-100, contain labels beyond the classes, or are
/// together longer than allowed.
pub fn cifar(
    files: &[PathBuf],
    classes: Option<u32>,
    limits: &DataLimits,
) -> Result<PackedImages, DataError> {
    let mut contents = Vec::with_capacity(files.len());
    for path in files {
        let read: usize = contents.iter().map(|(_, bytes): &(_, Vec<u8>)| bytes.len()).sum();
        let left = DataLimits { bytes: limits.bytes.saturating_sub(read as u64), ..*limits };
        contents.push((path, gzip::read_all(path, &left)?));
    }
    let whole = |label_bytes: usize| {
        contents.iter().all(|(_, bytes)| bytes.len().is_multiple_of(label_bytes + PICTURE))
    };
    let label_bytes = match classes {
        Some(10) => 1,
        Some(100) => 2,
        None if whole(1) && whole(2) && contents.iter().any(|(_, bytes)| !bytes.is_empty()) => {
            let why = "the length of the files fits 10 classes and 100".to_owned();
            return Err(DataError::missing("data.classes", why));
        }
        None if whole(1) => 1,
        None => 2,
        Some(classes) => {
            let problem = format!("{classes} classes, but CIFAR has 10 or 100");
            return Err(DataError::setting("data.classes", problem));
        }
    };
    let classes = if label_bytes == 1 { 10 } else { 100 };
    let mut pixels = Vec::new();
    let mut labels = Vec::new();
    for (path, bytes) in contents {
        if bytes.is_empty() {
            return Err(DataError::Empty { path: path.clone(), what: "image" });
        }
        let stride = label_bytes + PICTURE;
        if !bytes.len().is_multiple_of(stride) {
            let problem = format!("{} bytes are no whole number of records of {stride} bytes", bytes.len());
            return Err(DataError::malformed(path, problem));
        }
        let fine = bytes.chunks_exact(stride).map(|record| i64::from(record[label_bytes - 1]));
        labels.extend(checked_classes(path, fine, Some(classes))?.0);
        pixels.reserve_exact(bytes.len() / stride * PICTURE);
        for record in bytes.chunks_exact(stride) {
            let planes = &record[label_bytes..];
            pixels.extend((0..PICTURE).map(|value| planes[value % 3 * PLANE + value / 3]));
        }
    }
    let size = Size::new(SIDE, SIDE).map_err(DataError::geometry("CIFAR"))?;
    let first = files.first().map_or(Path::new("CIFAR"), PathBuf::as_path);
    // Messages name the folder where there are several files.
    let place = if files.len() > 1 { first.parent().unwrap_or(first) } else { first };
    PackedImages::new(place, size, 3, pixels, labels, classes)
}
