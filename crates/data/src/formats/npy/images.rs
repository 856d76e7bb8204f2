//! Images in one array, read one at a time.

use std::fs::File;
use std::path::{Path, PathBuf};

use dapple_geometry::Size;

use super::header::{Element, Header};
use crate::{DataError, DataLimits, Image, Values, file};

/// The most channels of an image. A larger last dimension means that the channels come first in the file.
const MAX_CHANNELS: u64 = 16;

/// The images of a `.npy` file: `uint8` or `float32`, `[records, height, width]` or `[records, height, width, channels]`, in C order.
#[derive(Debug)]
pub(crate) struct ImageArray {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) header: Header,
    pub(crate) records: u64,
    pub(crate) size: Size,
    pub(crate) channels: usize,
}

impl ImageArray {
    /// Opens the file.
    ///
    /// # Errors
    /// One that cannot be read, is no array of images, is cut short, or is larger than allowed.
    pub(crate) fn open(path: &Path, limits: &DataLimits) -> Result<Self, DataError> {
        let (mut file, length) = file::open(path)?;
        let header = Header::read(&mut file, path)?;
        let (records, height, width, channels) = match header.shape[..] {
            [records, height, width] => (records, height, width, 1),
            [records, height, width, channels] => (records, height, width, channels),
            _ => {
                let problem = format!("{} dimensions, but images have 3 or 4", header.shape.len());
                return Err(DataError::malformed(path, problem));
            }
        };
        if channels == 0 || channels > MAX_CHANNELS {
            let problem =
                format!("{channels} channels; an array of images is [records, height, width, channels]");
            return Err(DataError::malformed(path, problem));
        }
        if !matches!(header.element, Element::UnsignedByte | Element::Float) {
            return Err(DataError::malformed(path, "images are uint8 or float32, little-endian"));
        }
        if records == 0 {
            return Err(DataError::Empty { path: path.to_owned(), what: "image" });
        }
        let expected = header.file_length(path)?;
        if length != expected {
            return Err(DataError::Length { path: path.to_owned(), expected, found: length });
        }
        let side = |length: u64| u32::try_from(length).unwrap_or(u32::MAX);
        let size = crate::limits::size(limits, side(width), side(height), path)?;
        Ok(Self { path: path.to_owned(), file, header, records, size, channels: channels as usize })
    }

    /// Whether values are numbers rather than bytes.
    pub(crate) fn is_of_floats(&self) -> bool {
        self.header.element == Element::Float
    }

    /// The bytes of a record as they are stored; it must be one of the file.
    pub(crate) fn bytes(&self, record: u64) -> Result<Vec<u8>, DataError> {
        let stride = self.size.pixels() as usize * self.channels * self.header.element.bytes();
        let mut bytes = vec![0; stride];
        let offset = self.header.start + record * stride as u64;
        read_at(&self.file, &mut bytes, offset).map_err(DataError::io(&self.path))?;
        Ok(bytes)
    }

    /// The image that these bytes of a record are.
    pub(crate) fn image(&self, record: u64, bytes: Vec<u8>) -> Result<Image, DataError> {
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
        let wrong = || DataError::malformed(&self.path, format!("record {record} has no pixels"));
        Image::new(self.size, self.channels, values).ok_or_else(wrong)
    }
}

/// The header of a file of so many images, which are followed by their values.
pub(crate) fn image_header(records: u64, size: Size, channels: usize, floats: bool) -> Vec<u8> {
    let element = if floats { Element::Float } else { Element::UnsignedByte };
    Header::to_bytes(element, &[records, size.height().into(), size.width().into(), channels as u64])
}

#[cfg(unix)]
pub(super) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
pub(super) fn read_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> std::io::Result<()> {
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
