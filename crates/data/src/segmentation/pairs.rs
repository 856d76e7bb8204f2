//! Pictures in pairs: an image, and a label picture of the same size.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use dapple_geometry::Size;
use dapple_plan::number::hexadecimal;
use sha2::{Digest, Sha256};

use super::ClassMap;
use crate::dataset::within;
use crate::formats::{hash_text, picture_size, pictures_below, read_picture};
use crate::{DataError, DataLimits, Dataset, Image, Target, TargetKind, file};

/// Images with label maps on disk. Both are decoded when they are read, the images to red, green and blue.
#[derive(Debug)]
pub struct Pairs {
    root: PathBuf,
    pairs: Vec<Pair>,
    map: ClassMap,
    limits: DataLimits,
    fingerprint: OnceLock<String>,
}

/// The two files of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) image: PathBuf,
    pub(super) labels: PathBuf,
}

impl Pairs {
    /// Pairs the pictures of two folders: partners have the same path below their folders, but for the ending. Records are in the order
    /// of their paths.
    ///
    /// # Errors
    /// A folder that cannot be read or has no picture, a picture without a partner, two pictures with the same partner.
    pub fn open(images: &Path, labels: &Path, map: ClassMap, limits: &DataLimits) -> Result<Self, DataError> {
        let mut partners = stems(labels)?;
        let mut pairs = Vec::new();
        for (stem, image) in stems(images)? {
            let missing = || {
                let mut missing = labels.join(&stem).into_os_string();
                missing.push(".png");
                DataError::Partner { path: image.clone(), missing: missing.into() }
            };
            let labels = partners.remove(&stem).ok_or_else(missing)?;
            pairs.push(Pair { image, labels });
        }
        if let Some((stem, alone)) = partners.pop_first() {
            return Err(DataError::Partner { path: alone, missing: images.join(stem) });
        }
        Self::new(images, images, pairs, map, limits)
    }

    /// A data set of the given pairs. The fingerprint names images relative to `root`; `place` is where they were looked for, for
    /// messages.
    pub(super) fn new(
        root: &Path,
        place: &Path,
        pairs: Vec<Pair>,
        map: ClassMap,
        limits: &DataLimits,
    ) -> Result<Self, DataError> {
        if pairs.is_empty() {
            return Err(DataError::Empty { path: place.to_owned(), what: "image with a label map" });
        }
        Ok(Self { root: root.to_owned(), pairs, map, limits: *limits, fingerprint: OnceLock::new() })
    }

    /// The image and the label picture of a record.
    ///
    /// # Errors
    /// A record beyond the end.
    pub(crate) fn files(&self, record: usize) -> Result<(&Path, &Path), DataError> {
        let Pair { image, labels } = within(&self.pairs, record)?;
        Ok((image, labels))
    }
}

/// The pictures below a folder by their names without endings.
fn stems(folder: &Path) -> Result<BTreeMap<PathBuf, PathBuf>, DataError> {
    let mut stems = BTreeMap::new();
    for path in pictures_below(folder)? {
        let stem = path.strip_prefix(folder).unwrap_or(&path).with_extension("");
        if let Some(other) = stems.insert(stem, path.clone()) {
            let problem = format!("the same name as {}", other.display());
            return Err(DataError::malformed(&path, problem));
        }
    }
    Ok(stems)
}

impl Dataset for Pairs {
    fn len(&self) -> usize {
        self.pairs.len()
    }

    fn classes(&self) -> u32 {
        self.map.classes()
    }

    fn channels(&self) -> usize {
        3
    }

    fn image_size(&self) -> Option<Size> {
        None
    }

    fn size_of(&self, record: usize) -> Result<Option<Size>, DataError> {
        picture_size(&within(&self.pairs, record)?.image, &self.limits).map(Some)
    }

    fn target_kind(&self) -> TargetKind {
        TargetKind::LabelMap
    }

    fn target(&self, record: usize) -> Result<Target, DataError> {
        let path = &within(&self.pairs, record)?.labels;
        let bytes = file::read(path, &self.limits)?;
        Ok(Target::Map(self.map.read(&bytes, path, &self.limits)?))
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        let path = &within(&self.pairs, record)?.image;
        read_picture(path, &self.limits)
    }

    fn strange_labels(&self, record: usize) -> Result<BTreeSet<String>, DataError> {
        let path = &within(&self.pairs, record)?.labels;
        self.map.strange_values(&file::read(path, &self.limits)?, path, &self.limits)
    }

    fn place(&self, record: usize) -> String {
        self.pairs
            .get(record)
            .map_or_else(|| format!("record {record}"), |pair| pair.image.display().to_string())
    }

    fn name(&self, record: usize) -> Option<String> {
        let Pair { image, .. } = self.pairs.get(record)?;
        Some(image.strip_prefix(&self.root).unwrap_or(image).to_string_lossy().into_owned())
    }

    fn fingerprint(&self) -> Result<String, DataError> {
        if let Some(known) = self.fingerprint.get() {
            return Ok(known.clone());
        }
        let mut hash = Sha256::new();
        hash.update("pairs\n");
        self.map.hash(&mut hash);
        for Pair { image, labels } in &self.pairs {
            let name = image.strip_prefix(&self.root).unwrap_or(image);
            hash_text(&mut hash, name.to_string_lossy().as_bytes());
            for path in [image, labels] {
                hash_text(&mut hash, &file::read(path, &self.limits)?);
            }
        }
        Ok(self.fingerprint.get_or_init(|| hexadecimal(&hash.finalize())).clone())
    }

    fn class_names(&self) -> Option<&[String]> {
        self.map.names()
    }

    fn palette(&self) -> Option<&[[u8; 3]]> {
        self.map.palette()
    }
}
