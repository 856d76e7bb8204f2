//! Numpy arrays, read from the file record by record.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use dapple_geometry::Size;
use dapple_plan::number::hexadecimal;
use sha2::{Digest, Sha256};

use super::checked_classes;
use crate::dataset::within;
use crate::{DataError, DataLimits, Dataset, Image, Target, Values, file};

mod clip;
mod header;
mod mask;

pub(crate) use clip::ArrayClip;
use header::{Element, Header};
pub(crate) use mask::{array_mask, array_masks};

/// The most channels of an image. A larger last dimension means that the channels come first in the file.
const MAX_CHANNELS: u64 = 16;

/// Images in one `.npy` file and labels in another.
///
/// Images are `uint8` or `float32`, `[records, height, width]` or `[records, height, width, channels]`, in C order. They stay on disk and
/// are read one at a time.
#[derive(Debug)]
pub struct Npy {
    path: PathBuf,
    file: File,
    header: Header,
    size: Size,
    channels: usize,
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
        let (mut file, length) = file::open(images)?;
        let header = Header::read(&mut file, images)?;
        let (records, height, width, channels) = match header.shape[..] {
            [records, height, width] => (records, height, width, 1),
            [records, height, width, channels] => (records, height, width, channels),
            _ => {
                let problem = format!("{} dimensions, but images have 3 or 4", header.shape.len());
                return Err(DataError::malformed(images, problem));
            }
        };
        if channels == 0 || channels > MAX_CHANNELS {
            let problem =
                format!("{channels} channels; an array of images is [records, height, width, channels]");
            return Err(DataError::malformed(images, problem));
        }
        if !matches!(header.element, Element::UnsignedByte | Element::Float) {
            return Err(DataError::malformed(images, "images are uint8 or float32, little-endian"));
        }
        if records == 0 {
            return Err(DataError::Empty { path: images.to_owned(), what: "image" });
        }
        let expected = header.file_length(images)?;
        if length != expected {
            return Err(DataError::Length { path: images.to_owned(), expected, found: length });
        }
        let side = |length: u64| u32::try_from(length).unwrap_or(u32::MAX);
        let size = crate::limits::size(limits, side(width), side(height), images)?;
        let (labels, classes) = read_labels(labels, images, records, classes, limits)?;
        let (path, channels) = (images.to_owned(), channels as usize);
        Ok(Self { path, file, header, size, channels, labels, classes, fingerprint: OnceLock::new() })
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

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => {
                bytes = &mut bytes[read..];
                offset += read as u64;
            }
        }
    }
    Ok(())
}

impl Dataset for Npy {
    fn len(&self) -> usize {
        self.labels.len()
    }

    fn classes(&self) -> u32 {
        self.classes
    }

    fn channels(&self) -> usize {
        self.channels
    }

    fn image_size(&self) -> Option<Size> {
        Some(self.size)
    }

    fn target(&self, record: usize) -> Result<Target, DataError> {
        within(&self.labels, record).copied().map(Target::Class)
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        self.label(record)?;
        let values = self.size.pixels() as usize * self.channels;
        let stride = values * self.header.element.bytes();
        let mut bytes = vec![0; stride];
        let offset = self.header.start + record as u64 * stride as u64;
        read_at(&self.file, &mut bytes, offset).map_err(DataError::io(&self.path))?;
        let values = match self.header.element {
            Element::Float => {
                let floats: Vec<f32> = bytes
                    .chunks_exact(4)
                    .map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]]))
                    .collect();
                if floats.iter().any(|value| !value.is_finite()) {
                    let problem = format!("record {record} holds a value that is not a finite number");
                    return Err(DataError::malformed(&self.path, problem));
                }
                Values::Floats(floats)
            }
            _ => Values::Bytes(bytes),
        };
        let wrong = || DataError::Record { record, records: self.len() };
        Image::new(self.size, self.channels, values).ok_or_else(wrong)
    }

    fn place(&self, record: usize) -> String {
        format!("{}, record {record}", self.path.display())
    }

    fn fingerprint(&self) -> Result<String, DataError> {
        if let Some(known) = self.fingerprint.get() {
            return Ok(known.clone());
        }
        let mut hash = Sha256::new();
        hash.update(format!("npy {:?} {:?}\n", self.header.element, self.header.shape));
        for label in &self.labels {
            hash.update(label.to_le_bytes());
        }
        let mut offset = self.header.start;
        let end = self.header.file_length(&self.path)?;
        let mut piece = vec![0; 1 << 20];
        while offset < end {
            let length = (end - offset).min(piece.len() as u64) as usize;
            read_at(&self.file, &mut piece[..length], offset).map_err(DataError::io(&self.path))?;
            hash.update(&piece[..length]);
            offset += length as u64;
        }
        Ok(self.fingerprint.get_or_init(|| hexadecimal(&hash.finalize())).clone())
    }
}
