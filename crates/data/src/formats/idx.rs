//! IDX, the format of the MNIST family: a magic number with type and rank, then the dimensions, then the values.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::{checked_classes, gzip, packed::PackedImages};
use crate::{DataError, DataLimits};

/// Reads images and labels; both may be compressed by gzip.
///
/// Images are unsigned bytes, `[records, height, width]` or `[records, height, width, channels]`; labels are unsigned bytes,
/// `[records]`.
///
/// # Errors
/// Files that cannot be read, are not IDX, are cut short, do not belong together, contain labels beyond `classes`, or are longer than
/// allowed.
pub fn idx(
    images: &Path,
    labels: &Path,
    classes: Option<u32>,
    limits: &DataLimits,
) -> Result<PackedImages, DataError> {
    parse((gzip::open(images)?, images), (gzip::open(labels)?, labels), classes, limits)
}

/// The same from bytes in memory; the paths stand for them in messages.
pub(crate) fn idx_in_memory(
    (image_bytes, images): (&'static [u8], &Path),
    (label_bytes, labels): (&'static [u8], &Path),
    classes: Option<u32>,
) -> Result<PackedImages, DataError> {
    let image_reader = gzip::unpacked(image_bytes).map_err(DataError::io(images))?;
    let label_reader = gzip::unpacked(label_bytes).map_err(DataError::io(labels))?;
    parse((image_reader, images), (label_reader, labels), classes, &DataLimits::default())
}

fn parse(
    (mut image_reader, images): (Box<dyn Read>, &Path),
    (mut label_reader, labels): (Box<dyn Read>, &Path),
    classes: Option<u32>,
    limits: &DataLimits,
) -> Result<PackedImages, DataError> {
    let image_file = Array::read(&mut image_reader, images, limits)?;
    let label_file = Array::read(&mut label_reader, labels, limits)?;
    let (records, height, width, channels) = match image_file.shape[..] {
        [records, height, width] => (records, height, width, 1),
        [records, height, width, channels] => (records, height, width, channels),
        _ => return Err(rank(images, "images have 3 or 4", image_file.shape.len())),
    };
    let [label_count] = label_file.shape[..] else {
        return Err(rank(labels, "labels have 1", label_file.shape.len()));
    };
    if records != label_count {
        return Err(DataError::Counts {
            path: images.to_owned(),
            images: records as usize,
            labels_path: labels.to_owned(),
            labels: label_count as usize,
        });
    }
    if records == 0 {
        return Err(DataError::Empty { path: images.to_owned(), what: "image" });
    }
    let size = crate::limits::size(limits, width, height, images)?;
    let values = label_file.bytes.iter().map(|&label| i64::from(label));
    let (values, classes) = checked_classes(labels, values, classes)?;
    PackedImages::new(images, size, channels as usize, image_file.bytes, values, classes)
}

fn rank(path: &Path, expected: &str, found: usize) -> DataError {
    DataError::malformed(path, format!("{found} dimensions, but {expected}"))
}

/// An array of unsigned bytes.
#[derive(Debug, PartialEq)]
struct Array {
    shape: Vec<u32>,
    bytes: Vec<u8>,
}

/// Type code of unsigned bytes.
const UNSIGNED_BYTE: u8 = 8;

impl Array {
    fn read(reader: &mut dyn Read, path: &Path, limits: &DataLimits) -> Result<Self, DataError> {
        let magic: [u8; 4] = header(reader, path, 0, 4)?;
        let [0, 0, kind, rank] = magic else {
            return Err(DataError::Magic {
                path: path.to_owned(),
                expected: "an IDX file",
                found: dapple_plan::number::hexadecimal(&magic),
            });
        };
        if kind != UNSIGNED_BYTE || rank == 0 || rank > 4 {
            return Err(DataError::malformed(
                path,
                format!(
                    "type {kind:#04x} in {rank} dimensions, but only unsigned bytes (0x08) in 1 to 4 are read"
                ),
            ));
        }
        let before = 4 + 4 * u64::from(rank);
        let mut shape = Vec::with_capacity(rank.into());
        for read in 0..u64::from(rank) {
            shape.push(u32::from_be_bytes(header(reader, path, 4 + 4 * read, before)?));
        }
        let length = shape.iter().try_fold(1u64, |product, &side| product.checked_mul(side.into()));
        let length =
            length.ok_or_else(|| DataError::malformed(path, format!("impossible dimensions {shape:?}")))?;
        Ok(Self { bytes: gzip::read_rest(reader, path, before, length, limits)?, shape })
    }
}

/// The next four bytes of a header that is `expected` bytes long and of which `before` have been read.
fn header(reader: &mut dyn Read, path: &Path, before: u64, expected: u64) -> Result<[u8; 4], DataError> {
    let mut bytes = Vec::with_capacity(4);
    reader.take(4).read_to_end(&mut bytes).map_err(|source| gzip::unpack_error(path, source))?;
    let found = before + bytes.len() as u64;
    <[u8; 4]>::try_from(bytes).map_err(|_| DataError::Length { path: path.to_owned(), expected, found })
}

/// The file of this name in a folder, compressed or not.
pub(crate) fn named(folder: &Path, name: &str) -> Option<PathBuf> {
    [folder.join(name), folder.join(format!("{name}.gz"))].into_iter().find(|path| path.is_file())
}
