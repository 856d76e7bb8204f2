//! A folder with one folder of pictures for each class.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use dapple_geometry::Size;
use image::{ImageReader, Limits};
use sha2::{Digest, Sha256};

use super::hash_text;
use crate::dataset::{hexadecimal, within};
use crate::{DataError, Dataset, Image, Target, Values};

/// Endings of the files that are read; others are passed over.
const ENDINGS: [&str; 8] = ["png", "jpg", "jpeg", "webp", "ppm", "pgm", "pbm", "pnm"];
/// Folders within a class may be nested this deep; deeper is a loop of links.
const MAX_DEPTH: usize = 16;
/// A picture may take this much memory; more is an attack or a slip.
pub(crate) const MAX_PICTURE_MEMORY: u64 = 1 << 30;

/// Pictures on disk, decoded when they are read, as red, green and blue. Transparency is dropped, sixteen bits become eight, and
/// the orientation that a camera notes in the file is not applied.
#[derive(Debug)]
pub struct ImageFolder {
    root: PathBuf,
    names: Vec<String>,
    pictures: Vec<(PathBuf, u32)>,
    fingerprint: OnceLock<String>,
}

impl ImageFolder {
    /// Lists the pictures below `root`: classes in the order of their folders' names, pictures in the order of theirs.
    ///
    /// # Errors
    /// A folder that cannot be read, has no class, or has a class without pictures.
    pub fn open(root: &Path) -> Result<Self, DataError> {
        let names = class_folders(root)?;
        if names.is_empty() {
            return Err(DataError::Empty { path: root.to_owned(), what: "folder of a class" });
        }
        Self::with_classes(root, names)
    }

    /// The same with the classes of another data set, so that labels mean the same in both. A class may be missing.
    ///
    /// # Errors
    /// As [`ImageFolder::open`]; a folder that is none of the classes.
    pub fn open_like(root: &Path, classes: &[String]) -> Result<Self, DataError> {
        if let Some(unknown) = class_folders(root)?.into_iter().find(|name| !classes.contains(name)) {
            return Err(DataError::malformed(
                &root.join(unknown),
                "a class that the training data does not have",
            ));
        }
        Self::with_classes(root, classes.to_vec())
    }

    fn with_classes(root: &Path, names: Vec<String>) -> Result<Self, DataError> {
        let mut pictures = Vec::new();
        for (class, name) in names.iter().enumerate() {
            let folder = root.join(name);
            if !folder.exists() {
                continue;
            }
            let found = pictures_below(&folder)?;
            if found.is_empty() {
                return Err(DataError::Empty { path: folder, what: "picture" });
            }
            pictures.extend(found.into_iter().map(|path| (path, class as u32)));
        }
        if pictures.is_empty() {
            return Err(DataError::Empty { path: root.to_owned(), what: "picture" });
        }
        Ok(Self { root: root.to_owned(), names, pictures, fingerprint: OnceLock::new() })
    }
}

/// Names of the folders in a folder, sorted; hidden ones are passed over.
fn class_folders(root: &Path) -> Result<Vec<String>, DataError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root).map_err(DataError::io(root))? {
        let path = entry.map_err(DataError::io(root))?.path();
        if path.is_dir() {
            let name = path.file_name().and_then(|name| name.to_str());
            let name = name.ok_or_else(|| DataError::malformed(&path, "the name of a class is not text"))?;
            if !name.starts_with('.') {
                names.push(name.to_owned());
            }
        }
    }
    names.sort();
    Ok(names)
}

/// The pictures below a folder, in the order of their names.
pub(crate) fn pictures_below(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut pictures = Vec::new();
    list(folder, MAX_DEPTH, &mut pictures)?;
    pictures.sort();
    Ok(pictures)
}

/// Adds the pictures below a folder.
fn list(folder: &Path, depth: usize, pictures: &mut Vec<PathBuf>) -> Result<(), DataError> {
    if depth == 0 {
        return Err(DataError::malformed(folder, "folders are nested too deep"));
    }
    for entry in fs::read_dir(folder).map_err(DataError::io(folder))? {
        let path = entry.map_err(DataError::io(folder))?.path();
        let hidden =
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with('.'));
        let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
        if hidden {
        } else if path.is_dir() {
            list(&path, depth - 1, pictures)?;
        } else if ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str())) {
            pictures.push(path);
        }
    }
    Ok(())
}

/// Decodes a picture in memory to red, green and blue; `path` stands for it in messages.
///
/// # Errors
/// Bytes that are no picture of a known format, or a picture that is damaged or too large.
pub fn decode(bytes: &[u8], path: &Path) -> Result<Image, DataError> {
    let failed = |problem: String| DataError::Picture { path: path.to_owned(), problem: one_line(&problem) };
    let mut reader =
        ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(DataError::io(path))?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_PICTURE_MEMORY);
    reader.limits(limits);
    let picture = reader.decode().map_err(|error| failed(error.to_string()))?.into_rgb8();
    let size = Size::new(picture.width(), picture.height())
        .map_err(DataError::geometry(path.display().to_string()))?;
    Image::new(size, 3, Values::Bytes(picture.into_raw()))
        .ok_or_else(|| failed("it has no pixels".to_owned()))
}

/// A decoder's message as part of one line.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

impl Dataset for ImageFolder {
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

    fn target(&self, record: usize) -> Result<Target, DataError> {
        within(&self.pictures, record).map(|(_, label)| Target::Class(*label))
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        let (path, _) = within(&self.pictures, record)?;
        decode(&fs::read(path).map_err(DataError::io(path))?, path)
    }

    fn place(&self, record: usize) -> String {
        self.pictures
            .get(record)
            .map_or_else(|| format!("record {record}"), |(path, _)| path.display().to_string())
    }

    fn fingerprint(&self) -> Result<String, DataError> {
        if let Some(known) = self.fingerprint.get() {
            return Ok(known.clone());
        }
        let mut hash = Sha256::new();
        for name in &self.names {
            hash_text(&mut hash, name.as_bytes());
        }
        for (path, label) in &self.pictures {
            let name = path.strip_prefix(&self.root).unwrap_or(path);
            hash_text(&mut hash, name.to_string_lossy().as_bytes());
            hash.update(label.to_le_bytes());
            hash_text(&mut hash, &fs::read(path).map_err(DataError::io(path))?);
        }
        Ok(self.fingerprint.get_or_init(|| hexadecimal(&hash.finalize())).clone())
    }

    fn class_names(&self) -> Option<&[String]> {
        Some(&self.names)
    }
}
