//! Clips in shards.

use std::path::Path;

use dapple_geometry::{Mask, Size};
use dapple_plan::number::hexadecimal;
use sha2::{Digest, Sha256};

use super::super::hash_text;
use super::list::{ListTable, ShardList, as_its_list};
use crate::clips::Clips;
use crate::{DataError, DataLimits, Dataset, Image, Target, file};

/// The columns of a list, in the order in which they are written.
pub(super) const COLUMNS: [&str; 4] = ["file", "class", "sha256", "shard"];

/// Clips that a list names: folders of pictures, arrays and video files. They are looked for when they are read, so a machine may have those of some
/// shards alone, and each is compared with the list before it is decoded.
#[derive(Debug)]
pub struct ShardedClips {
    list: ShardList,
    clips: Clips,
}

impl ShardedClips {
    /// The clips below `root` that a list names, in its order, of which so many frames are read, evenly spaced over each. The list is a table whose
    /// first line names the columns `file`, `class`, `sha256` and `shard`; others are passed over. `like` are the classes of another data set, so
    /// that labels mean the same in both; otherwise classes are in the order of their numbers, or of their names if one is no number.
    ///
    /// # Errors
    /// A list that cannot be read or is no such table; a clip that it names twice, that lies outside `root`, that is of no known kind, or that is the
    /// same as another.
    pub fn open(
        root: &Path,
        list: &Path,
        like: Option<&[String]>,
        frames: usize,
        limits: &DataLimits,
    ) -> Result<Self, DataError> {
        let bytes = file::read(list, limits)?;
        let table = ListTable::read(&bytes, list, COLUMNS, "clip")?;
        let (names, classes) = table.classes(1, like)?;
        let list = ShardList::of(&table, root, [0, 2, 3], None, limits)?;
        let mut hash = Sha256::new();
        hash.update("sharded clips\n");
        hash.update((frames as u64).to_le_bytes());
        names.iter().for_each(|name| hash_text(&mut hash, name.as_bytes()));
        for (line, class) in list.lines.iter().zip(&classes) {
            hash_text(&mut hash, line.name.as_bytes());
            hash.update(class.to_le_bytes());
            hash_text(&mut hash, line.digest.as_bytes());
        }
        let paths = list.lines.iter().map(|line| list.path(line)).zip(classes).collect();
        let clips = Clips::listed(root, names, paths, frames, limits, hexadecimal(&hash.finalize()))?;
        Ok(Self { list, clips })
    }

    /// The same clips with the masks of a folder, as [`Clips::with_masks`] finds them.
    ///
    /// # Errors
    /// As [`Clips::with_masks`].
    pub fn with_masks(self, folder: &Path) -> Result<Self, DataError> {
        Ok(Self { clips: self.clips.with_masks(folder)?, ..self })
    }
}

impl Dataset for ShardedClips {
    as_its_list!(list);

    fn len(&self) -> usize {
        self.clips.len()
    }

    fn classes(&self) -> u32 {
        self.clips.classes()
    }

    fn channels(&self) -> usize {
        self.clips.channels()
    }

    fn frames(&self) -> Option<usize> {
        self.clips.frames()
    }

    fn image_size(&self) -> Option<Size> {
        self.clips.image_size()
    }

    fn target(&self, record: usize) -> Result<Target, DataError> {
        self.clips.target(record)
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        let line = self.list.line(record)?;
        let path = self.list.here(line, self.list.path(line))?;
        match self.clips.digest(record)? == line.digest {
            true => self.clips.read(record),
            false => Err(DataError::OtherContent { path, what: "content" }),
        }
    }

    fn frame_masks(&self, record: usize, size: Size) -> Result<Option<Vec<Mask>>, DataError> {
        self.clips.frame_masks(record, size)
    }

    fn is_here(&self, record: usize) -> bool {
        self.list.line(record).is_ok_and(|line| self.list.path(line).exists())
    }

    /// Of the classes, of what the list says of every clip and of every byte of the masks; not of the shards, which may be cut anew.
    fn fingerprint(&self) -> Result<String, DataError> {
        self.clips.fingerprint()
    }

    fn images_fingerprint(&self) -> Result<String, DataError> {
        self.clips.images_fingerprint()
    }

    fn class_names(&self) -> Option<&[String]> {
        self.clips.class_names()
    }
}
