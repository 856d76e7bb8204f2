//! Images with label maps in shards.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use dapple_geometry::Size;
use dapple_plan::number::hexadecimal;
use sha2::{Digest, Sha256};

use super::super::folder::decode;
use super::super::hash_text;
use super::list::{ListTable, ShardList, as_its_list};
use crate::dataset::within;
use crate::segmentation::ClassMap;
use crate::{DataError, DataLimits, Dataset, Image, Target, TargetKind, file};

/// The columns of a list, in the order in which they are written.
pub(super) const COLUMNS: [&str; 7] =
    ["file", "labels", "width", "height", "sha256", "labels_sha256", "shard"];
/// The folders of images and of label pictures below the folder of a data set.
pub(super) const FOLDERS: [&str; 2] = ["images", "labels"];

/// What a list says of a record beside its image.
#[derive(Debug)]
struct ListedLabels {
    size: Size,
    /// The label picture, from the folder of label pictures.
    name: PathBuf,
    /// Its SHA-256, in hexadecimal digits.
    digest: String,
}

/// Images and label pictures that a list names. Files are looked for when they are read, so a machine may have those of some shards alone; what it
/// reads is what the list says, byte by byte.
#[derive(Debug)]
pub struct ShardedPairs {
    list: ShardList,
    folder: PathBuf,
    labels: Vec<ListedLabels>,
    map: ClassMap,
    fingerprint: OnceLock<String>,
}

impl ShardedPairs {
    /// The pairs that a list names, in its order: images in the folder `images` below `root`, label pictures in `labels`. The list is a table
    /// whose first line names the columns `file`, `labels`, `width`, `height`, `sha256`, `labels_sha256` and `shard`; others are passed over.
    ///
    /// # Errors
    /// A list that cannot be read or is no such table; a file that it names twice, that lies outside its folder, or that is the same as another.
    pub fn open(root: &Path, list: &Path, map: ClassMap, limits: &DataLimits) -> Result<Self, DataError> {
        let bytes = file::read(list, limits)?;
        let [images, folder] = FOLDERS.map(|folder| root.join(folder));
        let table = ListTable::read(&bytes, list, COLUMNS, "image with a label map")?;
        let list = ShardList::of(&table, &images, [0, 4, 6], None, limits)?;
        let mut named = BTreeSet::new();
        let mut labels = Vec::with_capacity(table.lines.len());
        for (number, cells) in &table.lines {
            let name = table.below(*number, &cells[1], "the label maps")?;
            if !named.insert(name.clone()) {
                return Err(table.at(*number, &format!("{} is named twice", cells[1])));
            }
            let side = |cell: &String| table.number(*number, cell, "number of pixels");
            let size =
                crate::limits::size(limits, side(&cells[2])?, side(&cells[3])?, &images.join(&cells[0]))?;
            labels.push(ListedLabels { size, name, digest: table.digest(*number, &cells[5])? });
        }
        Ok(Self { list, folder, labels, map, fingerprint: OnceLock::new() })
    }

    /// The bytes of a record's label picture, and where they are.
    fn label_bytes(&self, record: usize) -> Result<(Vec<u8>, PathBuf), DataError> {
        let (line, labels) = (self.list.line(record)?, within(&self.labels, record)?);
        self.list.bytes(line, self.folder.join(&labels.name), &labels.digest)
    }
}

impl Dataset for ShardedPairs {
    as_its_list!(list);

    fn len(&self) -> usize {
        self.labels.len()
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
        Ok(Some(within(&self.labels, record)?.size))
    }

    fn target_kind(&self) -> TargetKind {
        TargetKind::LabelMap
    }

    fn target(&self, record: usize) -> Result<Target, DataError> {
        let (bytes, path) = self.label_bytes(record)?;
        Ok(Target::Map(self.map.read(&bytes, &path, &self.list.limits)?))
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        let (line, labels) = (self.list.line(record)?, within(&self.labels, record)?);
        let (bytes, path) = self.list.bytes(line, self.list.path(line), &line.digest)?;
        let image = decode(&bytes, &path, &self.list.limits)?;
        match image.size() == labels.size {
            true => Ok(image),
            false => Err(DataError::OtherContent { path, what: "size" }),
        }
    }

    fn strange_labels(&self, record: usize) -> Result<BTreeSet<String>, DataError> {
        let (bytes, path) = self.label_bytes(record)?;
        self.map.strange_values(&bytes, &path, &self.list.limits)
    }

    fn is_here(&self, record: usize) -> bool {
        let files = self.list.line(record).map(|line| self.list.path(line)).into_iter();
        let labels = self.labels.get(record).map(|labels| self.folder.join(&labels.name));
        record < self.len() && files.chain(labels).all(|path| path.is_file())
    }

    /// Of the classes and of what the list says of every pair; not of the shards, which may be cut anew.
    fn fingerprint(&self) -> Result<String, DataError> {
        let of_all = || {
            let mut hash = Sha256::new();
            hash.update("sharded pairs\n");
            self.map.hash(&mut hash);
            for (line, labels) in self.list.lines.iter().zip(&self.labels) {
                let name = labels.name.to_string_lossy();
                for text in [&line.name, &line.digest, &*name, &labels.digest] {
                    hash_text(&mut hash, text.as_bytes());
                }
                hash.update(labels.size.width().to_le_bytes());
                hash.update(labels.size.height().to_le_bytes());
            }
            hexadecimal(&hash.finalize())
        };
        Ok(self.fingerprint.get_or_init(of_all).clone())
    }

    fn class_names(&self) -> Option<&[String]> {
        self.map.names()
    }

    fn palette(&self) -> Option<&[[u8; 3]]> {
        self.map.palette()
    }
}
