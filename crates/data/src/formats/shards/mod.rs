//! Pictures in shards: a list says everything about them that a run needs before it reads one, so that no machine needs them all.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use dapple_geometry::Size;
use dapple_plan::number::hexadecimal;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::folder::{class_folders, decode};
use super::{ImageFolder, hash_text, picture_size, same_twice};
use crate::dataset::within;
use crate::{DataError, DataLimits, Dataset, Image, MAX_CLASSES, Target, csv, file};

/// The columns of a list, in the order in which they are written.
const COLUMNS: [&str; 6] = ["file", "class", "width", "height", "sha256", "shard"];

/// A line of a list.
#[derive(Debug, Clone)]
struct ShardEntry {
    /// The file, from the folder of the pictures.
    name: String,
    class: u32,
    size: Size,
    /// The SHA-256 of the file, in hexadecimal digits.
    digest: String,
    /// The place of the shard's name.
    shard: usize,
}

/// Pictures that a list names. Files are looked for when they are read, so a machine may have those of some shards alone; what it reads is
/// what the list says, byte by byte.
#[derive(Debug)]
pub struct ShardedImages {
    root: PathBuf,
    names: Vec<String>,
    shards: Vec<String>,
    entries: Vec<ShardEntry>,
    limits: DataLimits,
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
        let wrong = |problem: String| DataError::ShardList {
            path: list.to_owned(),
            problem: super::one_line(&problem),
        };
        let text = std::str::from_utf8(bytes).map_err(|_| wrong("it is not text in UTF-8".to_owned()))?;
        let lines = lines(text).map_err(wrong)?;
        if lines.is_empty() {
            return Err(DataError::Empty { path: list.to_owned(), what: "picture" });
        }
        let distinct = |column: usize| -> BTreeSet<&str> {
            lines.iter().map(|(_, cells)| cells[column].as_str()).collect()
        };
        let names = classes.map_or_else(|| in_order(distinct(1)), <[String]>::to_vec);
        if names.len() > MAX_CLASSES as usize {
            let (path, label) = (list.to_owned(), names.len() as i64 - 1);
            return Err(DataError::TooManyClasses { path, record: 0, label, limit: MAX_CLASSES });
        }
        let shards = in_order(distinct(5));
        let places =
            |names: &[String]| -> BTreeMap<String, usize> { names.iter().cloned().zip(0..).collect() };
        let (class_places, shard_places) = (places(&names), places(&shards));
        let mut named = BTreeMap::new();
        let mut entries = Vec::with_capacity(lines.len());
        for (number, cells) in &lines {
            let at = |problem: String| wrong(format!("line {number}: {problem}"));
            let [name, class, width, height, digest, shard] = cells;
            let path = PathBuf::from(name);
            if name.is_empty() || !path.components().all(|part| matches!(part, Component::Normal(_))) {
                return Err(at(format!("{name:?} is no file below the folder of the pictures")));
            }
            // The same path may be spelled in several ways.
            if let Some(before) = named.insert(path.components().collect::<PathBuf>(), *number) {
                return Err(at(format!("{name} is named in line {before} already")));
            }
            let class = class_places.get(class).filter(|_| !class.is_empty());
            let class =
                *class.ok_or_else(|| at(format!("{:?} is no class of the training data", cells[1])))?;
            if shard.is_empty() {
                return Err(at(format!("{name} lies in no shard")));
            }
            let side =
                |cell: &str| cell.parse::<u32>().map_err(|_| at(format!("{cell:?} is no number of pixels")));
            let size = crate::limits::size(limits, side(width)?, side(height)?, &root.join(name))?;
            let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !is_digest {
                return Err(at(format!("{digest:?} is no SHA-256 in 64 hexadecimal digits")));
            }
            entries.push(ShardEntry {
                name: name.clone(),
                class: class as u32,
                size,
                digest: digest.to_ascii_lowercase(),
                shard: shard_places[shard],
            });
        }
        let opened = Self {
            root: root.to_owned(),
            names,
            shards,
            entries,
            limits: *limits,
            fingerprint: OnceLock::new(),
        };
        let here: Vec<PathBuf> =
            opened.entries.iter().map(|entry| root.join(&entry.name)).filter(|path| path.exists()).collect();
        same_twice(here.iter())?;
        Ok(opened)
    }

    fn path(&self, entry: &ShardEntry) -> PathBuf {
        self.root.join(&entry.name)
    }
}

/// The lines of a list, each with its number and the cells of [`COLUMNS`].
fn lines(text: &str) -> Result<Vec<(usize, [String; 6])>, String> {
    let mut lines = csv::lines(text)?.into_iter();
    let (_, header) = lines.next().ok_or("it is empty")?;
    let column = |name: &str| {
        let mut places = (0..header.len()).filter(|&place| header[place].eq_ignore_ascii_case(name));
        match (places.next(), places.next()) {
            (Some(place), None) => Ok(place),
            (Some(_), Some(_)) => Err(format!("several columns {name:?}, of which one alone would count")),
            (None, _) => Err(format!("no column `{name}` in its first line")),
        }
    };
    let columns = COLUMNS.map(column);
    let mut places = [0; 6];
    for (place, column) in places.iter_mut().zip(columns) {
        *place = column?;
    }
    lines
        .map(|(number, mut cells)| {
            if cells.len() != header.len() {
                let problem = format!("{} cells, but the first line has {}", cells.len(), header.len());
                return Err(format!("line {number}: {problem}"));
            }
            Ok((number, places.map(|place| std::mem::take(&mut cells[place]))))
        })
        .collect()
}

/// Names in the order of their numbers, or of their letters if one is no number.
fn in_order(names: BTreeSet<&str>) -> Vec<String> {
    let mut names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let number = |name: &String| name.parse::<u64>().ok();
    if names.iter().all(|name| number(name).is_some()) {
        names.sort_by_key(number);
    }
    names
}

impl Dataset for ShardedImages {
    fn len(&self) -> usize {
        self.entries.len()
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
        Ok(Some(within(&self.entries, record)?.size))
    }

    fn target(&self, record: usize) -> Result<Target, DataError> {
        Ok(Target::Class(within(&self.entries, record)?.class))
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        let entry = within(&self.entries, record)?;
        let path = self.path(entry);
        if !path.exists() {
            return Err(DataError::OtherShard { path, shard: self.shards[entry.shard].clone() });
        }
        let bytes = file::read(&path, &self.limits)?;
        if hexadecimal(&Sha256::digest(&bytes)) != entry.digest {
            return Err(DataError::OtherContent { path, what: "content" });
        }
        let image = decode(&bytes, &path, &self.limits)?;
        match image.size() == entry.size {
            true => Ok(image),
            false => Err(DataError::OtherContent { path, what: "size" }),
        }
    }

    fn place(&self, record: usize) -> String {
        let path = |entry: &ShardEntry| self.path(entry).display().to_string();
        self.entries.get(record).map_or_else(|| format!("record {record}"), path)
    }

    fn name(&self, record: usize) -> Option<String> {
        Some(self.entries.get(record)?.name.clone())
    }

    fn shard(&self, record: usize) -> Option<&str> {
        Some(&self.shards[self.entries.get(record)?.shard])
    }

    fn is_here(&self, record: usize) -> bool {
        self.entries.get(record).is_some_and(|entry| self.path(entry).is_file())
    }

    /// Of the classes and of what the list says of every picture, which includes what it holds; not of the shards, which may be cut anew.
    fn fingerprint(&self) -> Result<String, DataError> {
        let of_all = || {
            let mut hash = Sha256::new();
            for name in &self.names {
                hash_text(&mut hash, name.as_bytes());
            }
            for ShardEntry { name, class, size, digest, .. } in &self.entries {
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

/// In which shard each picture of a list is to lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardCut {
    /// As many shards as this, at least one, to which pictures are dealt in turn.
    Dealt(usize),
    /// Below the folder is one folder for each shard, and in these one for each class.
    Folders,
}

/// A list of the pictures below a folder, in which each class has a folder, as [`ShardedImages::open`] reads it. Every file is read once.
///
/// # Errors
/// A folder that [`ImageFolder::open`] refuses, a file that cannot be read or is no picture, a name that is not text.
pub fn list_shards(root: &Path, cut: ShardCut, limits: &DataLimits) -> Result<String, DataError> {
    let folders: Vec<String> = match cut {
        ShardCut::Folders => class_folders(root)?,
        ShardCut::Dealt(_) => vec![String::new()],
    };
    if folders.is_empty() {
        return Err(DataError::Empty { path: root.to_owned(), what: "folder of a shard" });
    }
    let mut text = COLUMNS.join(",") + "\n";
    for folder in folders {
        let pictures = ImageFolder::open(&root.join(&folder), limits)?;
        let classes = pictures.class_names().unwrap_or_default();
        let line = |record: usize| {
            let path = PathBuf::from(pictures.place(record));
            let not_text = || DataError::malformed(&path, "its name is not text");
            let name = path.strip_prefix(root).ok().and_then(Path::to_str).ok_or_else(not_text)?;
            let size = picture_size(&path, limits)?;
            let digest = hexadecimal(&Sha256::digest(file::read(&path, limits)?));
            let class = &classes[pictures.label(record)? as usize];
            let shard = match cut {
                ShardCut::Dealt(count) => (record % count.max(1)).to_string(),
                ShardCut::Folders => folder.clone(),
            };
            let [name, class, shard] = [name, class, &shard].map(csv::cell);
            Ok(format!("{name},{class},{},{},{digest},{shard}\n", size.width(), size.height()))
        };
        let lines = (0..pictures.len()).into_par_iter().map(line).collect::<Result<Vec<String>, DataError>>();
        lines?.iter().for_each(|line| text.push_str(line));
    }
    Ok(text)
}
