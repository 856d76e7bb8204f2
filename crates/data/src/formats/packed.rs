//! Images of one size that all lie in memory.

use std::path::{Path, PathBuf};

use dapple_geometry::Size;
use dapple_plan::number::hexadecimal;
use sha2::{Digest, Sha256};

use crate::dataset::within;
use crate::{DataError, Dataset, Image, Target, Values};

/// Images of one size as bytes in memory.
#[derive(Debug, Clone)]
pub struct PackedImages {
    path: PathBuf,
    size: Size,
    channels: usize,
    // [records, height, width, channels]
    bytes: Vec<u8>,
    labels: Vec<u32>,
    classes: u32,
    names: Option<Vec<String>>,
}

impl PackedImages {
    /// Images from their bytes, `[records, height, width, channels]`; `path` stands for them in messages.
    ///
    /// # Errors
    /// There is no image, or there are not as many bytes as the labels, the size and the channels ask for.
    pub fn new(
        path: &Path,
        size: Size,
        channels: usize,
        bytes: Vec<u8>,
        labels: Vec<u32>,
        classes: u32,
    ) -> Result<Self, DataError> {
        if labels.is_empty() {
            return Err(DataError::Empty { path: path.to_owned(), what: "image" });
        }
        if channels == 0 {
            return Err(DataError::malformed(path, "images without channels"));
        }
        let expected = (labels.len() as u64).saturating_mul(size.pixels()).saturating_mul(channels as u64);
        if bytes.len() as u64 != expected {
            return Err(DataError::Length { path: path.to_owned(), expected, found: bytes.len() as u64 });
        }
        Ok(Self { path: path.to_owned(), size, channels, bytes, labels, classes, names: None })
    }

    /// The same data set with names for its classes.
    #[must_use]
    pub fn with_class_names(self, names: &[&str]) -> Self {
        Self { names: Some(names.iter().map(|&name| name.to_owned()).collect()), ..self }
    }

    /// Bytes of one image.
    fn stride(&self) -> usize {
        self.bytes.len() / self.labels.len().max(1)
    }
}

impl Dataset for PackedImages {
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
        let missing = DataError::Record { record, records: self.len() };
        let stride = self.stride();
        let bytes = record.checked_mul(stride).and_then(|start| self.bytes.get(start..start + stride));
        let values = bytes.map(|bytes| Values::Bytes(bytes.to_vec()));
        values.and_then(|values| Image::new(self.size, self.channels, values)).ok_or(missing)
    }

    fn place(&self, record: usize) -> String {
        format!("{}, record {record}", self.path.display())
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn fingerprint(&self) -> Result<String, DataError> {
        let mut hash = Sha256::new();
        hash.update(format!("bytes {} {} {}\n", self.size, self.channels, self.labels.len()));
        for label in &self.labels {
            hash.update(label.to_le_bytes());
        }
        hash.update(&self.bytes);
        Ok(hexadecimal(&hash.finalize()))
    }

    fn class_names(&self) -> Option<&[String]> {
        self.names.as_deref()
    }
}
