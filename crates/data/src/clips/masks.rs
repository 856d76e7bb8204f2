//! The private pixels of each frame of clips: masks as annotators and detectors write them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use dapple_geometry::{Mask, Size};
use sha2::Sha256;

use super::evenly_spaced;
use super::source::FrameNames;
use crate::dataset::within;
use crate::file::is_same;
use crate::formats::hash_text;
use crate::masks::{ClipFrames, ENDINGS, clip_masks, read_image_mask};
use crate::{DataError, DataLimits, file};

/// Where the masks of each clip are: in one file, or in a folder with one file for each frame.
#[derive(Debug)]
pub(crate) struct ClipMasks {
    paths: Vec<PathBuf>,
}

impl ClipMasks {
    /// Finds the masks of clips, given by their relative paths without endings and by where they are.
    ///
    /// # Errors
    /// A clip without masks or with several kinds of them, two clips that would share them, a clip that would be its own mask.
    pub(super) fn find(
        folder: &Path,
        clips: impl Iterator<Item = (PathBuf, String)>,
    ) -> Result<Self, DataError> {
        let mut taken: BTreeMap<PathBuf, String> = BTreeMap::new();
        let mut paths = Vec::new();
        for (name, place) in clips {
            let stem = folder.join(name);
            let path = only(&stem, &place, stem.is_dir().then(|| stem.clone()))?;
            // What is private must not follow from private pixels.
            if is_same(&path, Path::new(&place)) {
                return Err(DataError::ImageMask { path, problem: "it is the clip itself".to_owned() });
            }
            if let Some(other) = taken.insert(path.clone(), place.clone()) {
                let problem = format!("it would be that of both {other} and {place}");
                return Err(DataError::ImageMask { path, problem });
            }
            paths.push(path);
        }
        Ok(Self { paths })
    }

    /// The private pixels of the frames that are shown of a clip, or of all frames alike.
    ///
    /// # Guarantee
    /// A frame has the mask of that very frame. Masks that are not those of all frames of the clip, of each one, are refused.
    ///
    /// # Errors
    /// What is wrong with a mask; frames without a mask; masks of frames that the clip does not have.
    pub(super) fn read(
        &self,
        record: usize,
        names: &FrameNames,
        frames: usize,
        (size, limits): (Size, &DataLimits),
    ) -> Result<Vec<Mask>, DataError> {
        let path = within(&self.paths, record)?;
        let shown: Vec<usize> = evenly_spaced(names.len(), frames).collect();
        if path.is_dir() {
            let masks = of_frames(path, names)?;
            return shown.iter().map(|&frame| read_image_mask(&masks[frame], size, limits)).collect();
        }
        let clip = ClipFrames { total: names.len(), shown: &shown, size };
        clip_masks(&file::read(path, limits)?, path, clip, limits)
    }

    /// Adds every byte of all masks to a hash.
    pub(super) fn hash(&self, hash: &mut Sha256, limits: &DataLimits) -> Result<(), DataError> {
        for path in &self.paths {
            let files = if path.is_dir() { masks_in(path)? } else { vec![path.clone()] };
            for path in files {
                hash_text(hash, path.file_name().unwrap_or_default().as_encoded_bytes());
                hash_text(hash, &file::read(&path, limits)?);
            }
        }
        Ok(())
    }
}

/// The masks in a folder, in the order of their names. Files of other kinds are passed over.
fn masks_in(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let entries = fs::read_dir(folder).map_err(DataError::io(folder))?;
    let paths = entries.map(|entry| Ok(entry.map_err(DataError::io(folder))?.path()));
    let mut paths = paths.collect::<Result<Vec<PathBuf>, DataError>>()?;
    let ending =
        |path: &Path| path.extension().and_then(OsStr::to_str).unwrap_or_default().to_ascii_lowercase();
    paths.retain(|path| ENDINGS.contains(&ending(path).as_str()));
    paths.sort();
    Ok(paths)
}

/// The mask of each frame in a folder: of the name of its picture, or of its number.
fn of_frames(folder: &Path, names: &FrameNames) -> Result<Vec<PathBuf>, DataError> {
    let mut found = BTreeMap::new();
    for path in masks_in(folder)? {
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let name = match names {
            FrameNames::Pictures(_) => stem,
            FrameNames::Counted(_) => stem.parse().map_or(stem, |number: usize| number.to_string()),
        };
        if let Some(other) = found.insert(name, path.clone()) {
            let problem = format!("its frame has the mask {} already", other.display());
            return Err(DataError::ImageMask { path, problem });
        }
    }
    let masks = (0..names.len()).map(|frame| {
        let name = match names {
            FrameNames::Pictures(names) => names[frame].clone(),
            FrameNames::Counted(_) => frame.to_string(),
        };
        found.remove(&name).ok_or_else(|| DataError::Masks {
            place: format!("{}, frame {frame}", folder.display()),
            found: "no mask",
            stem: folder.join(name),
        })
    });
    let masks = masks.collect::<Result<_, _>>()?;
    match found.pop_first() {
        None => Ok(masks),
        Some((_, path)) => {
            Err(DataError::ImageMask { path, problem: "the clip has no frame of its name".to_owned() })
        }
    }
}

/// The only file of this name with an ending of masks, or `other` if there is one.
fn only(stem: &Path, place: &str, other: Option<PathBuf>) -> Result<PathBuf, DataError> {
    let with = |ending: &&str| PathBuf::from(format!("{}.{ending}", stem.display()));
    let mut found = ENDINGS.iter().map(with).filter(|path| path.is_file()).chain(other);
    let several = |found| DataError::Masks { place: place.to_owned(), found, stem: stem.to_owned() };
    match (found.next(), found.next()) {
        (Some(path), None) => Ok(path),
        (None, _) => Err(several("no mask")),
        (Some(_), Some(_)) => Err(several("more than one mask")),
    }
}
