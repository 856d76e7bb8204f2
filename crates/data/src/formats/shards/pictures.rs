//! Pictures with one class each in shards.

use std::path::Path;
use std::sync::OnceLock;

use dapple_geometry::Size;
use dapple_plan::number::hexadecimal;
use sha2::{Digest, Sha256};

use super::super::folder::decode;
use super::super::hash_text;
use super::list::{ListTable, ShardLine, ShardList, as_its_list};
use crate::dataset::within;
use crate::{DataError, DataLimits, Dataset, Image, Target, file};

/// The columns of a list, in the order in which they are written.
pub(super) const COLUMNS: [&str; 6] = ["file", "class", "width", "height", "sha256", "shard"];

/// Pictures that a list names. Files are looked for when they are read, so a machine may have those of some shards alone; what it reads is
/// what the list says, byte by byte.
#[derive(Debug)]
pub struct ShardedImages {
    list: ShardList,
    names: Vec<String>,
    /// The class and the size of each picture.
    pictures: Vec<(u32, Size)>,
    fingerprint: OnceLock<String>,
}

impl ShardedImages {
    /// The pictures below `root` that a list names, in its order. The list is a table whose first line names the columns `file`, `class`,
    /// `width`, `height`, `sha256` and `shard`; others are passed over. Classes are in the order of their numbers, or of their names if one is
    /// no number.
    ///
    /// # Errors
    /// A list that cannot be read or is no such table; a file that it names twice, that lies outside `root`, or that is the same as another.
    pub fn open(root: &Path, list: &Path, limits: &DataLimits) -> Result<Self, DataError> {
        Self::decode(&file::read(list, limits)?, list, root, None, limits)
    }

    /// The same, with the classes of another data set, so that labels mean the same in both.
    ///
    /// # Errors
    /// As [`ShardedImages::open`]; a class that the other data set does not have.
    pub fn open_like(
        root: &Path,
        list: &Path,
        classes: &[String],
        limits: &DataLimits,
    ) -> Result<Self, DataError> {
        Self::decode(&file::read(list, limits)?, list, root, Some(classes), limits)
    }

    /// The same from the bytes of a list; `list` stands for it in messages.
    ///
    /// # Errors
    /// As [`ShardedImages::open`].
    pub fn decode(
        bytes: &[u8],
        list: &Path,
        root: &Path,
        classes: Option<&[String]>,
        limits: &DataLimits,
    ) -> Result<Self, DataError> {
        let table = ListTable::read(bytes, list, COLUMNS, "picture")?;
        let (names, classes) = table.classes(1, classes)?;
        let list = ShardList::of(&table, root, [0, 4, 5], None, limits)?;
        let size = |(number, cells): &(usize, [String; 6])| {
            let side = |cell: &String| table.number(*number, cell, "number of pixels");
            crate::limits::size(limits, side(&cells[2])?, side(&cells[3])?, &root.join(&cells[0]))
        };
        let pictures = classes.into_iter().zip(&table.lines);
        let pictures =
            pictures.map(|(class, line)| Ok((class, size(line)?))).collect::<Result<_, DataError>>();
        Ok(Self { list, names, pictures: pictures?, fingerprint: OnceLock::new() })
    }
}

impl Dataset for ShardedImages {
    as_its_list!(list);

    fn len(&self) -> usize {
        self.pictures.len()
    }

    fn classes(&self) -> u32 {
        self.names.len() as u32
    }

    fn channels(&self) -> usize {
        3
    }

    fn image_size(&self) -> Option<Size> {
        None
    }

    fn size_of(&self, record: usize) -> Result<Option<Size>, DataError> {
        Ok(Some(within(&self.pictures, record)?.1))
    }

    fn target(&self, record: usize) -> Result<Target, DataError> {
        Ok(Target::Class(within(&self.pictures, record)?.0))
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        let (line, (_, size)) = (self.list.line(record)?, within(&self.pictures, record)?);
        let (bytes, path) = self.list.bytes(line, self.list.path(line), &line.digest)?;
        let image = decode(&bytes, &path, &self.list.limits)?;
        match image.size() == *size {
            true => Ok(image),
            false => Err(DataError::OtherContent { path, what: "size" }),
        }
    }

    fn is_here(&self, record: usize) -> bool {
        self.list.line(record).is_ok_and(|line| self.list.path(line).is_file())
    }

    /// Of the classes and of what the list says of every picture, which includes what it holds; not of the shards, which may be cut anew.
    fn fingerprint(&self) -> Result<String, DataError> {
        let of_all = || {
            let mut hash = Sha256::new();
            for name in &self.names {
                hash_text(&mut hash, name.as_bytes());
            }
            for (ShardLine { name, digest, .. }, (class, size)) in self.list.lines.iter().zip(&self.pictures)
            {
                hash_text(&mut hash, name.as_bytes());
                hash.update(class.to_le_bytes());
                hash.update(size.width().to_le_bytes());
                hash.update(size.height().to_le_bytes());
                hash_text(&mut hash, digest.as_bytes());
            }
            hexadecimal(&hash.finalize())
        };
        Ok(self.fingerprint.get_or_init(of_all).clone())
    }

    fn class_names(&self) -> Option<&[String]> {
        Some(&self.names)
    }
}
