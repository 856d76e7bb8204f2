//! Arrays of images in shards.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use dapple_geometry::Size;
use dapple_plan::number::hexadecimal;
use sha2::{Digest, Sha256};

use super::super::npy::ImageArray;
use super::super::{checked_classes, hash_text};
use super::list::{ListTable, ShardList};
use crate::dataset::within;
use crate::split::content_hash;
use crate::{DataError, DataLimits, Dataset, Image, Target, file};

/// The columns of a list, in the order in which they are written.
pub(super) const COLUMNS: [&str; 9] =
    ["file", "record", "class", "width", "height", "channels", "type", "sha256", "shard"];

/// What all images of a list have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ArrayShape {
    pub(super) size: Size,
    pub(super) channels: usize,
    /// Whether values are numbers rather than bytes.
    pub(super) floats: bool,
}

impl ArrayShape {
    /// The word for what a value is, which is numpy's.
    pub(super) fn word(self) -> &'static str {
        if self.floats { "float32" } else { "uint8" }
    }
}

/// An array of which this machine may or may not have the file.
#[derive(Debug)]
struct ArrayFile {
    path: PathBuf,
    /// The file, once a record of it was read.
    opened: OnceLock<ImageArray>,
}

/// Images in numpy arrays whose records a list names, with their classes. Files are opened when a record of them is read, so a machine may have those
/// of some shards alone; what it reads is what the list says, byte by byte.
#[derive(Debug)]
pub struct ShardedArrays {
    list: ShardList,
    shape: ArrayShape,
    classes: u32,
    /// The class of each record, its file and its number there.
    records: Vec<(u32, usize, u64)>,
    files: Vec<ArrayFile>,
    fingerprint: OnceLock<String>,
}

impl ShardedArrays {
    /// The records of arrays below `root` that a list names, in its order. The list is a table whose first line names the columns `file`, `record`
    /// (from 0), `class` (from 0), `width`, `height`, `channels`, `type` (`uint8` or `float32`), `sha256` and `shard`; others are passed over.
    ///
    /// # Errors
    /// A list that cannot be read or is no such table; a record that it names twice, or one of another shape than the first; a file that lies outside
    /// `root`, or that is the same as another; a class beyond `classes`.
    pub fn open(
        root: &Path,
        list: &Path,
        classes: Option<u32>,
        limits: &DataLimits,
    ) -> Result<Self, DataError> {
        let bytes = file::read(list, limits)?;
        let table = ListTable::read(&bytes, list, COLUMNS, "image")?;
        let lines = ShardList::of(&table, root, [0, 7, 8], Some(1), limits)?;
        let mut shape: Option<ArrayShape> = None;
        let mut labels = Vec::with_capacity(table.lines.len());
        let mut places: BTreeMap<PathBuf, usize> = BTreeMap::new();
        let mut records = Vec::with_capacity(table.lines.len());
        for (number, cells) in &table.lines {
            let at = |problem: &str| table.at(*number, problem);
            let side = |cell: &String| table.number(*number, cell, "number of pixels");
            let path = root.join(&cells[0]);
            let size = crate::limits::size(limits, side(&cells[3])?, side(&cells[4])?, &path)?;
            let channels: usize = table.number(*number, &cells[5], "number of channels")?;
            let floats = match cells[6].as_str() {
                "uint8" => false,
                "float32" => true,
                other => return Err(at(&format!("values are uint8 or float32, and not {other:?}"))),
            };
            let own = ArrayShape { size, channels, floats };
            if own != *shape.get_or_insert(own) || channels == 0 {
                return Err(at("its size, channels or type are not those of the first record"));
            }
            labels.push(table.number::<i64>(*number, &cells[2], "number of a class")?);
            let next = places.len();
            let file = *places.entry(path).or_insert(next);
            records.push((0, file, table.number(*number, &cells[1], "number of a record")?));
        }
        let (labels, classes) = checked_classes(list, labels.into_iter(), classes)?;
        records.iter_mut().zip(labels).for_each(|(record, class)| record.0 = class);
        let mut files: Vec<(PathBuf, usize)> = places.into_iter().collect();
        files.sort_by_key(|(_, place)| *place);
        let file = |(path, _)| ArrayFile { path, opened: OnceLock::new() };
        let files = files.into_iter().map(file).collect();
        let nothing = || DataError::Empty { path: list.to_owned(), what: "image" };
        let shape = shape.ok_or_else(nothing)?;
        Ok(Self { list: lines, shape, classes, records, files, fingerprint: OnceLock::new() })
    }
}

impl Dataset for ShardedArrays {
    fn len(&self) -> usize {
        self.records.len()
    }

    fn classes(&self) -> u32 {
        self.classes
    }

    fn channels(&self) -> usize {
        self.shape.channels
    }

    fn image_size(&self) -> Option<Size> {
        Some(self.shape.size)
    }

    fn target(&self, record: usize) -> Result<Target, DataError> {
        Ok(Target::Class(within(&self.records, record)?.0))
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        let (line, &(class, file, number)) = (self.list.line(record)?, within(&self.records, record)?);
        let ArrayFile { path, opened } = within(&self.files, file)?;
        let array = match opened.get() {
            Some(array) => array,
            None => {
                let array = ImageArray::open(&self.list.here(line, path.clone())?, &self.list.limits)?;
                opened.get_or_init(|| array)
            }
        };
        let other = |what| DataError::OtherContent { path: path.clone(), what };
        if (ArrayShape { size: array.size, channels: array.channels, floats: array.is_of_floats() })
            != self.shape
        {
            return Err(other("shape"));
        }
        if number >= array.records {
            return Err(other("number of records"));
        }
        let image = array.image(number, array.bytes(number)?)?;
        match hexadecimal(&content_hash(&Target::Class(class), image.values()).finalize()) == line.digest {
            true => Ok(image),
            false => Err(other("content")),
        }
    }

    fn place(&self, record: usize) -> String {
        let number = self.records.get(record).map_or(record as u64, |(.., number)| *number);
        format!("{}, record {number}", self.list.place(record))
    }

    fn content_digest(&self, record: usize) -> Option<&str> {
        Some(&self.list.line(record).ok()?.digest)
    }

    fn shard(&self, record: usize) -> Option<&str> {
        self.list.shard(record)
    }

    fn is_here(&self, record: usize) -> bool {
        self.list.line(record).is_ok_and(|line| self.list.path(line).is_file())
    }

    /// Of what the list says of every record, which includes its class and what it holds; not of the files and shards, which may be cut anew.
    fn fingerprint(&self) -> Result<String, DataError> {
        let of_all = || {
            let ArrayShape { size, channels, .. } = self.shape;
            let mut hash = Sha256::new();
            hash.update(format!("sharded arrays {size} {channels} {}\n", self.shape.word()));
            self.list.lines.iter().for_each(|line| hash_text(&mut hash, line.digest.as_bytes()));
            hexadecimal(&hash.finalize())
        };
        Ok(self.fingerprint.get_or_init(of_all).clone())
    }
}
