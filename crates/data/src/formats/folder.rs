//! A folder with one folder of pictures for each class.

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use dapple_geometry::Size;
use dapple_plan::number::hexadecimal;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageReader};
use sha2::{Digest, Sha256};

use super::{hash_text, picture_size};
use crate::dataset::within;
use crate::{DataError, DataLimits, Dataset, Image, MAX_CLASSES, Target, Values, file};

/// Endings of the files that are read; others are passed over.
pub(crate) const ENDINGS: [&str; 8] = ["png", "jpg", "jpeg", "webp", "ppm", "pgm", "pbm", "pnm"];
/// How deep folders within a class may be nested. Deeper nesting is taken for a loop of links.
const MAX_DEPTH: usize = 16;
/// Bytes that a decoder may take for each pixel: four channels of sixteen bits.
const BYTES_A_PIXEL: u64 = 8;
/// Bytes that a decoder may take in addition to its pixels.
const BESIDE_PIXELS: u64 = 1 << 20;

/// Pictures on disk, decoded to red, green and blue when they are read. Transparency is dropped, sixteen bits become eight, and the
/// orientation that a camera notes in the file is not applied.
#[derive(Debug)]
pub struct ImageFolder {
    root: PathBuf,
    names: Vec<String>,
    pictures: Vec<(PathBuf, u32)>,
    limits: DataLimits,
    fingerprint: OnceLock<String>,
}

impl ImageFolder {
    /// Lists the pictures below `root`. Classes are in the order of their folders' names, and the pictures of a class in the order of
    /// their paths.
    ///
    /// # Errors
    /// A folder that cannot be read, has no class, or has a class without pictures; a picture that is listed twice because of a link.
    pub fn open(root: &Path, limits: &DataLimits) -> Result<Self, DataError> {
        let names = class_folders(root)?;
        if names.is_empty() {
            return Err(DataError::Empty { path: root.to_owned(), what: "folder of a class" });
        }
        Self::with_classes(root, names, limits)
    }

    /// The same, with the classes of another data set, so that labels mean the same in both. A class may have no folder here.
    ///
    /// # Errors
    /// As [`ImageFolder::open`]; a folder that is none of the classes.
    pub fn open_like(root: &Path, classes: &[String], limits: &DataLimits) -> Result<Self, DataError> {
        if let Some(unknown) = class_folders(root)?.into_iter().find(|name| !classes.contains(name)) {
            return Err(DataError::malformed(
                &root.join(unknown),
                "a class that the training data does not have",
            ));
        }
        Self::with_classes(root, classes.to_vec(), limits)
    }

    /// The same, with one class of another data set for all pictures, whichever folders they lie in.
    ///
    /// # Errors
    /// A folder that cannot be read or has no pictures; a picture that is listed twice because of a link.
    pub fn open_as(
        root: &Path,
        classes: &[String],
        class: u32,
        limits: &DataLimits,
    ) -> Result<Self, DataError> {
        let pictures: Vec<_> = pictures_below(root)?.into_iter().map(|path| (path, class)).collect();
        Self::of_pictures(root, classes.to_vec(), pictures, limits)
    }

    /// Pictures with the numbers of their classes.
    pub(super) fn of_pictures(
        root: &Path,
        names: Vec<String>,
        pictures: Vec<(PathBuf, u32)>,
        limits: &DataLimits,
    ) -> Result<Self, DataError> {
        if names.len() > MAX_CLASSES as usize {
            let (path, label) = (root.to_owned(), names.len() as i64 - 1);
            return Err(DataError::TooManyClasses { path, record: 0, label, limit: MAX_CLASSES });
        }
        if pictures.is_empty() {
            return Err(DataError::Empty { path: root.to_owned(), what: "picture" });
        }
        Ok(Self { root: root.to_owned(), names, pictures, limits: *limits, fingerprint: OnceLock::new() })
    }

    fn with_classes(root: &Path, names: Vec<String>, limits: &DataLimits) -> Result<Self, DataError> {
        let mut listed = Listed::default();
        let mut pictures = Vec::new();
        for (class, name) in names.iter().enumerate() {
            let folder = root.join(name);
            if !folder.exists() {
                continue;
            }
            let found = listed.below(&folder)?;
            if found.is_empty() {
                return Err(DataError::Empty { path: folder, what: "picture" });
            }
            pictures.extend(found.into_iter().map(|path| (path, class as u32)));
        }
        listed.check(pictures.iter().map(|(path, _)| path))?;
        Self::of_pictures(root, names, pictures, limits)
    }
}

/// Sorted names of the folders in a folder. Hidden ones are passed over.
pub(crate) fn class_folders(root: &Path) -> Result<Vec<String>, DataError> {
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
///
/// # Errors
/// A folder that cannot be read, a picture that is not a file, or one that is listed twice because of a link.
pub(crate) fn pictures_below(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut listed = Listed::default();
    let pictures = listed.below(folder)?;
    listed.check(pictures.iter())?;
    Ok(pictures)
}

/// What has been listed so far. It is kept to find files listed twice: a record that counts twice is protected half as well.
#[derive(Default)]
struct Listed {
    /// The folders listed, by where they really are once links are followed.
    folders: BTreeMap<PathBuf, PathBuf>,
    /// Whether any picture is a link.
    links: bool,
}

impl Listed {
    /// The pictures below a folder, in the order of their names.
    fn below(&mut self, folder: &Path) -> Result<Vec<PathBuf>, DataError> {
        let mut pictures = Vec::new();
        self.list(folder, MAX_DEPTH, &mut pictures)?;
        pictures.sort();
        Ok(pictures)
    }

    /// Adds the pictures below a folder to the list. Hidden files and folders are passed over.
    fn list(&mut self, folder: &Path, depth: usize, pictures: &mut Vec<PathBuf>) -> Result<(), DataError> {
        if depth == 0 {
            return Err(DataError::malformed(folder, "folders are nested too deep"));
        }
        let place = fs::canonicalize(folder).map_err(DataError::io(folder))?;
        if let Some(other) = self.folders.insert(place, folder.to_owned()) {
            return Err(DataError::Twice { path: folder.to_owned(), other });
        }
        for entry in fs::read_dir(folder).map_err(DataError::io(folder))? {
            let entry = entry.map_err(DataError::io(folder))?;
            let path = entry.path();
            let hidden =
                path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with('.'));
            if hidden {
                continue;
            }
            let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
            let picture = ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()));
            let link = entry.file_type().map_err(DataError::io(&path))?.is_symlink();
            let about = match fs::metadata(&path) {
                Ok(about) => about,
                // A link that leads nowhere is a mistake if it is named like a picture, and passed over otherwise.
                Err(error) if picture => return Err(DataError::io(&path)(error)),
                Err(_) => continue,
            };
            match () {
                () if about.is_dir() => self.list(&path, depth - 1, pictures)?,
                () if !picture => {}
                () if about.is_file() => {
                    self.links |= link;
                    pictures.push(path);
                }
                () => return Err(DataError::NotAFile { path }),
            }
        }
        Ok(())
    }

    /// Refuses two pictures that are one file. Without links there are none, so nothing is looked up then.
    fn check<'a>(&self, pictures: impl Iterator<Item = &'a PathBuf>) -> Result<(), DataError> {
        if self.links { same_twice(pictures) } else { Ok(()) }
    }
}

/// Refuses two paths that lead to the same file.
pub(crate) fn same_twice<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Result<(), DataError> {
    let mut places = BTreeMap::new();
    for path in files {
        let place = fs::canonicalize(path).map_err(DataError::io(path))?;
        if let Some(other) = places.insert(place, path) {
            return Err(DataError::Twice { path: path.clone(), other: other.clone() });
        }
    }
    Ok(())
}

/// Reads and decodes a picture to red, green and blue.
///
/// # Errors
/// Anything but a file, a file that is too long, and as [`decode`].
pub fn read_picture(path: &Path, limits: &DataLimits) -> Result<Image, DataError> {
    decode(&file::read(path, limits)?, path, limits)
}

/// Decodes a picture in memory to red, green and blue; `path` stands for it in messages.
///
/// # Errors
/// Bytes that are no picture of a known format, or a picture that is damaged or too large.
pub fn decode(bytes: &[u8], path: &Path, limits: &DataLimits) -> Result<Image, DataError> {
    let failed = |problem: String| DataError::Picture { path: path.to_owned(), problem: one_line(&problem) };
    let mut reader =
        ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(DataError::io(path))?;
    reader.limits(decoder_limits(limits));
    let mut decoder = reader.into_decoder().map_err(|error| failed(error.to_string()))?;
    let (width, height) = decoder.dimensions();
    let size = crate::limits::size(limits, width, height, path)?;
    let turned = !matches!(decoder.orientation(), Ok(Orientation::NoTransforms));
    let picture = DynamicImage::from_decoder(decoder).map_err(|error| failed(error.to_string()))?.into_rgb8();
    let image = Image::new(size, 3, Values::Bytes(picture.into_raw()));
    Ok(image.ok_or_else(|| failed("it has no pixels".to_owned()))?.noted_turned(turned))
}

/// The limits of the plan as the decoder takes them.
pub(super) fn decoder_limits(limits: &DataLimits) -> image::Limits {
    let mut bounds = image::Limits::default();
    bounds.max_alloc = Some(limits.pixels.saturating_mul(BYTES_A_PIXEL).saturating_add(BESIDE_PIXELS));
    bounds
}

/// A decoder's message, cut and cleaned so that it fits into one line.
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

    fn size_of(&self, record: usize) -> Result<Option<Size>, DataError> {
        let (path, _) = within(&self.pictures, record)?;
        picture_size(path, &self.limits).map(Some)
    }

    fn target(&self, record: usize) -> Result<Target, DataError> {
        within(&self.pictures, record).map(|(_, label)| Target::Class(*label))
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        let (path, _) = within(&self.pictures, record)?;
        read_picture(path, &self.limits)
    }

    fn place(&self, record: usize) -> String {
        self.pictures
            .get(record)
            .map_or_else(|| format!("record {record}"), |(path, _)| path.display().to_string())
    }

    fn name(&self, record: usize) -> Option<String> {
        let (path, _) = self.pictures.get(record)?;
        Some(path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().into_owned())
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
            hash_text(&mut hash, &file::read(path, &self.limits)?);
        }
        Ok(self.fingerprint.get_or_init(|| hexadecimal(&hash.finalize())).clone())
    }

    fn class_names(&self) -> Option<&[String]> {
        Some(&self.names)
    }
}
