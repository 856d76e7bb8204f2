//! Records as the trainable part of a model sees them.

use std::sync::Arc;

use dapple_data::{DataError, Dataset, IGNORED, Image, Target, Users, Values};
use dapple_geometry::Size;

/// The records of a data set with features in place of pixels.
pub(super) struct FeatureRecords {
    records: Arc<dyn Dataset>,
    /// `[records, length]`, or `[records, length + 1]` if it is said behind each record's features whether anything of it is to be seen.
    values: Arc<Vec<f32>>,
    length: usize,
    parts: bool,
}

impl FeatureRecords {
    pub(super) fn new(records: Arc<dyn Dataset>, values: Arc<Vec<f32>>, length: usize, parts: bool) -> Self {
        Self { records, values, length, parts }
    }

    /// The features of a record, and whether anything of it is to be seen.
    fn row(&self, record: usize) -> Result<(&[f32], bool), DataError> {
        let beyond = || DataError::Record { record, records: self.len() };
        let row = self.values.chunks_exact(self.length + usize::from(self.parts)).nth(record);
        let (features, seen) = row.ok_or_else(beyond)?.split_at(self.length);
        Ok((features, seen != [0.0]))
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
        match self.row(record)? {
            (_, true) => self.records.target(record),
            (_, false) => Ok(Target::Class(IGNORED)),
        }
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        let (features, _) = self.row(record)?;
        let image = |size| Image::new(size, 1, Values::Floats(features.to_vec()));
        let beyond = || DataError::Record { record, records: self.len() };
        self.image_size().and_then(image).ok_or_else(beyond)
    }

    fn users(&self) -> Option<&Users> {
        self.records.users()
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
