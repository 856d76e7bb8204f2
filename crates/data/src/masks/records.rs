//! Records together with the masks of their images.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use dapple_geometry::{Mask, Size};
use dapple_plan::number::hexadecimal;
use sha2::{Digest, Sha256};

use super::{ENDINGS, read_image_mask};
use crate::dataset::{as_its_records, within};
use crate::file::is_same;
use crate::formats::hash_text;
use crate::{DataError, DataLimits, Dataset, Image, file};

/// A data set whose images each have a mask in a folder: at the same relative path, with the same name but for the ending.
pub struct MaskedRecords {
    whole: Arc<dyn Dataset>,
    /// The mask of each record.
    paths: Vec<PathBuf>,
    limits: DataLimits,
    fingerprint: OnceLock<String>,
}

impl MaskedRecords {
    /// Finds the mask of every record in a folder. They are read when they are needed.
    ///
    /// # Errors
    /// Records that have no names, a record without a mask or with several, two records that would share one, and a picture that would be
    /// its own mask.
    pub fn open(whole: Arc<dyn Dataset>, folder: &Path, limits: &DataLimits) -> Result<Self, DataError> {
        let mut taken: BTreeMap<PathBuf, usize> = BTreeMap::new();
        let find = |record: usize| {
            let name = whole.name(record).ok_or_else(|| {
                DataError::setting(
                    "data.masks",
                    "the records of this format have no names that masks could have",
                )
            })?;
            let stem = folder.join(name).with_extension("");
            let with = |ending: &&str| PathBuf::from(format!("{}.{ending}", stem.display()));
            let mut found = ENDINGS.iter().map(with).filter(|path| path.exists());
            let several = |found| DataError::Masks { place: whole.place(record), found, stem: stem.clone() };
            let path = found.next().ok_or_else(|| several("no mask"))?;
            if found.next().is_some() {
                return Err(several("more than one mask"));
            }
            // What is private must not follow from private pixels.
            if is_same(&path, Path::new(&whole.place(record))) {
                return Err(DataError::ImageMask { path, problem: "it is the picture itself".to_owned() });
            }
            if let Some(other) = taken.insert(path.clone(), record) {
                let problem =
                    format!("it would be that of both {} and {}", whole.place(other), whole.place(record));
                return Err(DataError::ImageMask { path, problem });
            }
            Ok(path)
        };
        let paths = (0..whole.len()).map(find).collect::<Result<_, _>>()?;
        Ok(Self { whole, paths, limits: *limits, fingerprint: OnceLock::new() })
    }
}

impl Dataset for MaskedRecords {
    as_its_records!(whole);

    fn read(&self, record: usize) -> Result<Image, DataError> {
        self.whole.read(record)?.upright(|| self.place(record))
    }

    fn mask(&self, record: usize, size: Size) -> Result<Option<Mask>, DataError> {
        read_image_mask(within(&self.paths, record)?, size, &self.limits).map(Some)
    }

    /// Of the images and of every byte of the masks.
    fn fingerprint(&self) -> Result<String, DataError> {
        if let Some(known) = self.fingerprint.get() {
            return Ok(known.clone());
        }
        let mut hash = Sha256::new();
        hash_text(&mut hash, self.whole.fingerprint()?.as_bytes());
        for path in &self.paths {
            hash_text(&mut hash, &file::read(path, &self.limits)?);
        }
        Ok(self.fingerprint.get_or_init(|| hexadecimal(&hash.finalize())).clone())
    }
}
