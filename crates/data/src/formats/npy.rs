//! Numpy arrays, read from the file record by record.

use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;

use dapple_geometry::Size;
use dapple_plan::number::hexadecimal;
use sha2::{Digest, Sha256};

use super::checked_classes;
use crate::dataset::within;
use crate::{DataError, DataLimits, Dataset, Image, Target, file};

mod clip;
mod header;
mod images;
mod mask;

pub(crate) use clip::ArrayClip;
use header::Header;
use images::read_at;
pub(crate) use images::{ImageArray, image_header};
pub(crate) use mask::{array_mask, array_masks};

/// Images in one `.npy` file and labels in another.
///
/// Images are `uint8` or `float32`, `[records, height, width]` or `[records, height, width, channels]`, in C order. They stay on disk and
/// are read one at a time.
#[derive(Debug)]
pub struct Npy {
    images: ImageArray,
    labels: Vec<u32>,
    classes: u32,
    fingerprint: OnceLock<String>,
}

impl Npy {
    /// Opens images and labels.
    ///
    /// # Errors
    /// Files that cannot be read, are not arrays, are cut short, do not belong together, contain labels beyond `classes`, or are larger
    /// than allowed.
    pub fn open(
        images: &Path,
        labels: &Path,
        classes: Option<u32>,
        limits: &DataLimits,
    ) -> Result<Self, DataError> {
        let opened = ImageArray::open(images, limits)?;
        let (labels, classes) = read_labels(labels, images, opened.records, classes, limits)?;
        Ok(Self { images: opened, labels, classes, fingerprint: OnceLock::new() })
    }
}

fn read_labels(
    path: &Path,
    images: &Path,
    records: u64,
    classes: Option<u32>,
    limits: &DataLimits,
) -> Result<(Vec<u32>, u32), DataError> {
    let values = read_whole_numbers(path, "labels", limits)?;
    if values.len() as u64 != records {
        return Err(DataError::Counts {
            path: images.to_owned(),
            images: records as usize,
            labels_path: path.to_owned(),
            labels: values.len(),
        });
    }
    checked_classes(path, values.into_iter(), classes)
}

/// The whole numbers of an array of one dimension.
///
/// # Errors
/// A file that cannot be read, is cut short, is larger than allowed, or is another kind of array.
pub(crate) fn whole_numbers(path: &Path, limits: &DataLimits) -> Result<Vec<i64>, DataError> {
    read_whole_numbers(path, "users", limits)
}

/// The same, by what the numbers are in messages.
fn read_whole_numbers(path: &Path, what: &str, limits: &DataLimits) -> Result<Vec<i64>, DataError> {
    let (mut file, _) = file::open(path)?;
    let header = Header::read(&mut file, path)?;
    if header.shape.len() != 1 {
        let problem = format!("{} dimensions, but {what} have 1", header.shape.len());
        return Err(DataError::malformed(path, problem));
    }
    let expected = header.file_length(path)?;
    crate::limits::length(limits, expected, path)?;
    let mut bytes = Vec::new();
    file.take(expected.saturating_sub(header.start) + 1)
        .read_to_end(&mut bytes)
        .map_err(DataError::io(path))?;
    let found = header.start + bytes.len() as u64;
    if found != expected {
        return Err(DataError::Length { path: path.to_owned(), expected, found });
    }
    let values = header.element.integers(&bytes);
    let other = || DataError::malformed(path, format!("{what} are whole numbers, little-endian"));
    Ok(values.ok_or_else(other)?.collect())
}

impl Dataset for Npy {
    fn len(&self) -> usize {
        self.labels.len()
    }

    fn classes(&self) -> u32 {
        self.classes
    }

    fn channels(&self) -> usize {
        self.images.channels
    }

    fn image_size(&self) -> Option<Size> {
        Some(self.images.size)
    }

    fn target(&self, record: usize) -> Result<Target, DataError> {
        within(&self.labels, record).copied().map(Target::Class)
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        self.label(record)?;
        let bytes = self.images.bytes(record as u64)?;
        self.images.image(record as u64, bytes)
    }

    fn place(&self, record: usize) -> String {
        format!("{}, record {record}", self.images.path.display())
    }

    fn fingerprint(&self) -> Result<String, DataError> {
        if let Some(known) = self.fingerprint.get() {
            return Ok(known.clone());
        }
        let ImageArray { path, file, header, .. } = &self.images;
        let mut hash = Sha256::new();
        hash.update(format!("npy {:?} {:?}\n", header.element, header.shape));
        for label in &self.labels {
            hash.update(label.to_le_bytes());
        }
        let mut offset = header.start;
        let end = header.file_length(path)?;
        let mut piece = vec![0; 1 << 20];
        while offset < end {
            let length = (end - offset).min(piece.len() as u64) as usize;
            read_at(file, &mut piece[..length], offset).map_err(DataError::io(path))?;
            hash.update(&piece[..length]);
            offset += length as u64;
        }
        Ok(self.fingerprint.get_or_init(|| hexadecimal(&hash.finalize())).clone())
    }
}
