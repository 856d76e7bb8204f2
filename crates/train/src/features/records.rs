//! Records as the trainable part of a model sees them.

use std::sync::Arc;

use dapple_data::{DataError, Dataset, IGNORED, Image, Target, Values};
use dapple_geometry::Size;

/// The records of a data set with features in place of pixels.
pub(super) struct FeatureRecords {
    records: Arc<dyn Dataset>,
    /// `[records, length]`.
    values: Vec<f32>,
    length: usize,
    /// Whether there is anything to be seen of each record; of every one if there is no list.
    seen: Option<Vec<bool>>,
}

impl FeatureRecords {
    pub(super) fn new(
        records: Arc<dyn Dataset>,
        values: Vec<f32>,
        length: usize,
        seen: Option<Vec<bool>>,
    ) -> Self {
        Self { records, values, length, seen }
    }
}

impl Dataset for FeatureRecords {
    fn len(&self) -> usize {
        self.records.len()
    }

    fn classes(&self) -> u32 {
        self.records.classes()
    }

    fn channels(&self) -> usize {
        1
    }

    fn image_size(&self) -> Option<Size> {
        Size::new(u32::try_from(self.length).ok()?, 1).ok()
    }

    /// The class of a record, or [`IGNORED`] if nothing of it is to be seen, so that it adds nothing.
    fn target(&self, record: usize) -> Result<Target, DataError> {
        match self.seen.as_ref().and_then(|seen| seen.get(record)) {
            Some(false) => Ok(Target::Class(IGNORED)),
            _ => self.records.target(record),
        }
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        let beyond = || DataError::Record { record, records: self.len() };
        let values = self.values.chunks_exact(self.length).nth(record).ok_or_else(beyond)?;
        let size = self.image_size().ok_or_else(beyond)?;
        Image::new(size, 1, Values::Floats(values.to_vec())).ok_or_else(beyond)
    }

    fn place(&self, record: usize) -> String {
        self.records.place(record)
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn fingerprint(&self) -> Result<String, DataError> {
        self.records.fingerprint()
    }
}
