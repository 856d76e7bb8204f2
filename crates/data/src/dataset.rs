//! The trait of all data sets, and subsets of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use dapple_geometry::{Mask, Size};
use dapple_plan::number::hexadecimal;
use sha2::{Digest, Sha256};

use crate::{DataError, Image, Target, TargetKind, Users};

/// Records, each an image or a clip with a class, or an image with a label map, read one at a time.
pub trait Dataset: Send + Sync {
    /// Number of records, at least 1.
    fn len(&self) -> usize;

    /// Whether there are no records; no format opens such a data set.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of classes.
    fn classes(&self) -> u32;

    /// Values per pixel, the same for all images; of clips, per pixel of a frame.
    fn channels(&self) -> usize;

    /// The number of frames of every record, if the records are clips.
    fn frames(&self) -> Option<usize> {
        None
    }

    /// The size that all images share, where the format says so.
    fn image_size(&self) -> Option<Size>;

    /// The size of a record's image, where it is known without decoding the image.
    ///
    /// # Errors
    /// A record beyond the end, a header that cannot be read.
    fn size_of(&self, _record: usize) -> Result<Option<Size>, DataError> {
        Ok(self.image_size())
    }

    /// Whether every record has one class, or one for each pixel.
    fn target_kind(&self) -> TargetKind {
        TargetKind::Class
    }

    /// What the model should say about a record. It is of the kind that [`Dataset::target_kind`] names, and its classes are below
    /// [`Dataset::classes`].
    ///
    /// # Errors
    /// A record beyond the end, a label map that cannot be read or decoded.
    fn target(&self, record: usize) -> Result<Target, DataError>;

    /// The class of a record.
    ///
    /// # Errors
    /// A record beyond the end, or one with a label map.
    fn label(&self, record: usize) -> Result<u32, DataError> {
        match self.target(record)? {
            Target::Class(class) => Ok(class),
            Target::Map(_) => {
                let place = self.place(record);
                Err(DataError::TargetKind { place, found: "a label map", expected: "one class" })
            }
        }
    }

    /// Reads and decodes the image of a record.
    ///
    /// # Errors
    /// A record beyond the end, a file that cannot be read or decoded.
    fn read(&self, record: usize) -> Result<Image, DataError>;

    /// Every value in a record's label map that is neither a class nor ignored, as messages show it.
    ///
    /// # Errors
    /// A record beyond the end, a label map that cannot be decoded.
    fn strange_labels(&self, _record: usize) -> Result<BTreeSet<String>, DataError> {
        Ok(BTreeSet::new())
    }

    /// The private pixels of a record whose image has this size, the same in all frames of a clip; `None` if the data set does not tell
    /// them.
    ///
    /// # Errors
    /// A record beyond the end, a mask that cannot be read or is of another size.
    fn mask(&self, _record: usize, _size: Size) -> Result<Option<Mask>, DataError> {
        Ok(None)
    }

    /// The private pixels of a record: one mask for all frames, or one for each; `None` if the data set does not tell them.
    ///
    /// # Errors
    /// As [`Dataset::mask`].
    fn frame_masks(&self, record: usize, size: Size) -> Result<Option<Vec<Mask>>, DataError> {
        Ok(self.mask(record, size)?.map(|mask| vec![mask]))
    }

    /// Whose records are whose, if the data set tells it.
    fn users(&self) -> Option<&Users> {
        None
    }

    /// Number of what a step draws: of users where the data set tells them, else of records.
    fn units(&self) -> usize {
        self.users().map_or_else(|| self.len(), Users::len)
    }

    /// Where a record comes from, for messages.
    fn place(&self, record: usize) -> String;

    /// The name of a record, where records have one that does not depend on their content, such as a file below the data set's folder.
    fn name(&self, _record: usize) -> Option<String> {
        None
    }

    /// SHA-256, in hexadecimal digits, of the word `content`, a record's class and its values, where a data set knows it without reading the record.
    /// Classes take four bytes, the lowest first, and so do values that are no bytes themselves.
    fn content_digest(&self, _record: usize) -> Option<&str> {
        None
    }

    /// The shard that a record lies in, where records lie in shards, some of which a machine may do without.
    fn shard(&self, _record: usize) -> Option<&str> {
        None
    }

    /// Whether the files of a record lie on this machine.
    fn is_here(&self, _record: usize) -> bool {
        true
    }

    /// Whether every record is known to be intact without reading it, because it lies in memory or is made by the program.
    fn is_whole(&self) -> bool {
        false
    }

    /// SHA-256, in hexadecimal digits, of every image and every class or label map, so that another data set has another fingerprint.
    /// Computing it may read everything once. It says something about the content, so keep it only where the data itself may be kept.
    ///
    /// # Errors
    /// A file that cannot be read.
    fn fingerprint(&self) -> Result<String, DataError>;

    /// The fingerprint of the images and labels alone, if the data set tells of more.
    ///
    /// # Errors
    /// As [`Dataset::fingerprint`].
    fn images_fingerprint(&self) -> Result<String, DataError> {
        self.fingerprint()
    }

    /// Names of the classes, where the format has any.
    fn class_names(&self) -> Option<&[String]> {
        None
    }

    /// Colours in which the classes are shown, as red, green and blue, where the format has any.
    fn palette(&self) -> Option<&[[u8; 3]]> {
        None
    }
}

/// Writes the methods of [`Dataset`] that a data set with something beside its records answers as the records in this field do: all but what
/// reads a record, its masks and users, and the fingerprint, which each has to say for itself.
macro_rules! as_its_records {
    ($records:ident) => {
        fn len(&self) -> usize {
            self.$records.len()
        }

        fn classes(&self) -> u32 {
            self.$records.classes()
        }

        fn channels(&self) -> usize {
            self.$records.channels()
        }

        fn frames(&self) -> Option<usize> {
            self.$records.frames()
        }

        fn image_size(&self) -> Option<dapple_geometry::Size> {
            self.$records.image_size()
        }

        fn size_of(&self, record: usize) -> Result<Option<dapple_geometry::Size>, $crate::DataError> {
            self.$records.size_of(record)
        }

        fn target_kind(&self) -> $crate::TargetKind {
            self.$records.target_kind()
        }

        fn target(&self, record: usize) -> Result<$crate::Target, $crate::DataError> {
            self.$records.target(record)
        }

        fn strange_labels(
            &self,
            record: usize,
        ) -> Result<std::collections::BTreeSet<String>, $crate::DataError> {
            self.$records.strange_labels(record)
        }

        fn place(&self, record: usize) -> String {
            self.$records.place(record)
        }

        fn name(&self, record: usize) -> Option<String> {
            self.$records.name(record)
        }

        fn content_digest(&self, record: usize) -> Option<&str> {
            self.$records.content_digest(record)
        }

        fn shard(&self, record: usize) -> Option<&str> {
            self.$records.shard(record)
        }

        fn is_here(&self, record: usize) -> bool {
            self.$records.is_here(record)
        }

        fn images_fingerprint(&self) -> Result<String, $crate::DataError> {
            self.$records.images_fingerprint()
        }

        fn class_names(&self) -> Option<&[String]> {
            self.$records.class_names()
        }

        fn palette(&self) -> Option<&[[u8; 3]]> {
            self.$records.palette()
        }
    };
}
pub(crate) use as_its_records;

/// Some records of a data set, in a given order.
#[derive(Clone)]
pub struct Subset {
    whole: Arc<dyn Dataset>,
    records: Arc<[usize]>,
}

impl Subset {
    /// The given records of `whole`.
    ///
    /// # Errors
    /// A record beyond the end.
    pub fn new(whole: Arc<dyn Dataset>, records: Vec<usize>) -> Result<Self, DataError> {
        match records.iter().find(|&&record| record >= whole.len()) {
            Some(&record) => Err(DataError::Record { record, records: whole.len() }),
            None => Ok(Self { whole, records: records.into() }),
        }
    }

    fn at(&self, record: usize) -> Result<usize, DataError> {
        within(&self.records, record).copied()
    }
}

/// The entry of a record, or an error that says how many records there are.
pub(crate) fn within<T>(entries: &[T], record: usize) -> Result<&T, DataError> {
    entries.get(record).ok_or(DataError::Record { record, records: entries.len() })
}

impl Dataset for Subset {
    fn len(&self) -> usize {
        self.records.len()
    }

    fn classes(&self) -> u32 {
        self.whole.classes()
    }

    fn channels(&self) -> usize {
        self.whole.channels()
    }

    fn frames(&self) -> Option<usize> {
        self.whole.frames()
    }

    fn image_size(&self) -> Option<Size> {
        self.whole.image_size()
    }

    fn size_of(&self, record: usize) -> Result<Option<Size>, DataError> {
        self.whole.size_of(self.at(record)?)
    }

    fn target_kind(&self) -> TargetKind {
        self.whole.target_kind()
    }

    fn target(&self, record: usize) -> Result<Target, DataError> {
        self.whole.target(self.at(record)?)
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        self.whole.read(self.at(record)?)
    }

    fn strange_labels(&self, record: usize) -> Result<BTreeSet<String>, DataError> {
        self.whole.strange_labels(self.at(record)?)
    }

    fn mask(&self, record: usize, size: Size) -> Result<Option<Mask>, DataError> {
        self.whole.mask(self.at(record)?, size)
    }

    fn frame_masks(&self, record: usize, size: Size) -> Result<Option<Vec<Mask>>, DataError> {
        self.whole.frame_masks(self.at(record)?, size)
    }

    fn place(&self, record: usize) -> String {
        self.at(record).map_or_else(|error| error.to_string(), |record| self.whole.place(record))
    }

    fn name(&self, record: usize) -> Option<String> {
        self.whole.name(self.at(record).ok()?)
    }

    fn content_digest(&self, record: usize) -> Option<&str> {
        self.whole.content_digest(self.at(record).ok()?)
    }

    fn shard(&self, record: usize) -> Option<&str> {
        self.whole.shard(self.at(record).ok()?)
    }

    fn is_here(&self, record: usize) -> bool {
        self.at(record).is_ok_and(|record| self.whole.is_here(record))
    }

    fn is_whole(&self) -> bool {
        self.whole.is_whole()
    }

    fn fingerprint(&self) -> Result<String, DataError> {
        let mut hash = Sha256::new();
        hash.update(self.whole.fingerprint()?);
        for &record in self.records.iter() {
            hash.update((record as u64).to_le_bytes());
        }
        Ok(hexadecimal(&hash.finalize()))
    }

    fn class_names(&self) -> Option<&[String]> {
        self.whole.class_names()
    }

    fn palette(&self) -> Option<&[[u8; 3]]> {
        self.whole.palette()
    }
}
