//! Clips on disk: folders of frames, arrays, and video files.

mod frames;
mod masks;
mod source;
#[cfg(test)]
mod split_tests;
mod splits;
#[cfg(test)]
mod tests;
mod video;
#[cfg(test)]
#[cfg(unix)]
mod video_tests;

pub use frames::evenly_spaced;
pub(crate) use masks::ClipMasks;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use dapple_geometry::{Mask, Size};
use dapple_plan::number::hexadecimal;
use sha2::{Digest, Sha256};

use crate::dataset::within;
use crate::formats::{class_folders, hash_text, same_twice};
use crate::{DataError, DataLimits, Dataset, Image, MAX_CLASSES, Target};
use source::ClipSource;
pub(crate) use splits::{SplitPart, SplitPlan};

/// Values per pixel of a frame: red, green and blue.
const CHANNELS: usize = 3;

/// Clips on disk, of which the same number of frames is read, evenly spaced over each.
#[derive(Debug)]
pub struct Clips {
    root: PathBuf,
    names: Vec<String>,
    clips: Vec<(ClipSource, u32)>,
    frames: usize,
    masks: Option<ClipMasks>,
    limits: DataLimits,
    fingerprint: OnceLock<String>,
}

impl Clips {
    /// Lists the clips below `root`, which has one folder for each class. In it, a folder of pictures is a clip, and so is an array
    /// (`.npy`) or a video file. Classes are in the order of their names, and so are the clips of a class. `like` are the classes of
    /// another data set, so that labels mean the same in both; a class may have no folder then.
    ///
    /// # Errors
    /// A folder that cannot be read, has no class, or has a class without clips; a folder that is none of the classes; a clip that is
    /// listed twice because of a link, or because it lies there in two forms.
    pub fn open(
        root: &Path,
        like: Option<&[String]>,
        frames: usize,
        limits: &DataLimits,
    ) -> Result<Self, DataError> {
        let found = class_folders(root)?;
        if found.is_empty() {
            return Err(DataError::Empty { path: root.to_owned(), what: "folder of a class" });
        }
        let names = match like {
            None => found,
            Some(like) => match found.into_iter().find(|name| !like.contains(name)) {
                None => like.to_vec(),
                Some(unknown) => {
                    let problem = "a class that the training data does not have";
                    return Err(DataError::malformed(&root.join(unknown), problem));
                }
            },
        };
        let mut clips = Vec::new();
        for (class, name) in (0..).zip(&names) {
            let folder = root.join(name);
            if !folder.exists() {
                continue;
            }
            let found = clips_in(&folder)?;
            if found.is_empty() {
                return Err(DataError::Empty { path: folder, what: "clip" });
            }
            clips.extend(found.into_iter().map(|clip| (clip, class)));
        }
        Self::of_clips(root, names, clips, frames, limits)
    }

    /// The clips of one part of a published split.
    ///
    /// # Errors
    /// As [`Clips::open`], lists or names that make no sense, a clip that is listed and not there.
    pub(crate) fn open_split(
        root: &Path,
        part: SplitPart,
        frames: usize,
        limits: &DataLimits,
    ) -> Result<Self, DataError> {
        let find = |(path, class): (PathBuf, u32)| {
            let missing = || DataError::NoClip { path: root.join(&path) };
            Ok((ClipSource::find(&root.join(&path)).ok_or_else(missing)?, class))
        };
        let clips = part.clips.into_iter().map(find).collect::<Result<_, DataError>>()?;
        Self::of_clips(root, part.names, clips, frames, limits)
    }

    /// Clips with the numbers of their classes.
    fn of_clips(
        root: &Path,
        names: Vec<String>,
        clips: Vec<(ClipSource, u32)>,
        frames: usize,
        limits: &DataLimits,
    ) -> Result<Self, DataError> {
        if names.len() > MAX_CLASSES as usize {
            let (path, label) = (root.to_owned(), names.len() as i64 - 1);
            return Err(DataError::TooManyClasses { path, record: 0, label, limit: MAX_CLASSES });
        }
        if clips.is_empty() {
            return Err(DataError::Empty { path: root.to_owned(), what: "clip" });
        }
        same_twice(clips.iter().map(|(clip, _)| clip.path()))?;
        once(&clips)?;
        let (root, limits) = (root.to_owned(), *limits);
        Ok(Self { root, names, clips, frames, masks: None, limits, fingerprint: OnceLock::new() })
    }

    /// Clips that a list names with the numbers of their classes, some of which may lie elsewhere; `fingerprint` stands for what all of them hold.
    ///
    /// # Errors
    /// A clip of no known kind, or one that is named in two forms.
    pub(crate) fn listed(
        root: &Path,
        names: Vec<String>,
        paths: Vec<(PathBuf, u32)>,
        frames: usize,
        limits: &DataLimits,
        fingerprint: String,
    ) -> Result<Self, DataError> {
        let source = |(path, class): (PathBuf, u32)| {
            let unknown = || DataError::malformed(&path, "its name is not that of a clip");
            Ok((ClipSource::named(&path).ok_or_else(unknown)?, class))
        };
        let clips = paths.into_iter().map(source).collect::<Result<Vec<_>, DataError>>()?;
        once(&clips)?;
        let (root, limits, fingerprint) = (root.to_owned(), *limits, OnceLock::from(fingerprint));
        Ok(Self { root, names, clips, frames, masks: None, limits, fingerprint })
    }

    /// SHA-256, in hexadecimal digits, of every byte of a clip.
    ///
    /// # Errors
    /// A record beyond the end, a clip that cannot be read.
    pub(crate) fn digest(&self, record: usize) -> Result<String, DataError> {
        let mut hash = Sha256::new();
        within(&self.clips, record)?.0.hash(&mut hash, &self.limits)?;
        Ok(hexadecimal(&hash.finalize()))
    }

    /// The same clips with the masks of a folder: those of a clip have its relative path and name.
    ///
    /// # Errors
    /// A clip without masks or with several kinds of them; a video that may be turned where it is shown, of which nothing tells whether its
    /// masks are.
    pub fn with_masks(mut self, folder: &Path) -> Result<Self, DataError> {
        let may_turn = |clip: &ClipSource| matches!(clip, ClipSource::Video(video) if video.may_turn());
        if let Some((clip, _)) = self.clips.iter().find(|(clip, _)| may_turn(clip)) {
            let place = clip.path().display();
            let problem = format!(
                "{place}: a video of this kind may be turned where it is shown, and nothing tells whether its mask is; take its frames out of it, and make masks of these"
            );
            return Err(DataError::setting("data.masks", problem));
        }
        let stems = (0..self.clips.len()).map(|record| (self.stem(record), self.place(record)));
        self.masks = Some(ClipMasks::find(folder, stems)?);
        Ok(self)
    }

    /// The relative path of a clip without the ending of its file.
    fn stem(&self, record: usize) -> PathBuf {
        let Some((clip, _)) = self.clips.get(record) else { return PathBuf::new() };
        let stem = clip.stem();
        stem.strip_prefix(&self.root).unwrap_or(&stem).to_owned()
    }
}

/// Refuses a clip that lies there in two forms, such as a video and the frames that were taken out of it. They would be two records of the
/// same people.
fn once(clips: &[(ClipSource, u32)]) -> Result<(), DataError> {
    let mut stems = BTreeMap::new();
    for (clip, _) in clips {
        if let Some(other) = stems.insert(clip.stem(), clip.path()) {
            return Err(DataError::ClipTwice { path: clip.path().clone(), other: other.clone() });
        }
    }
    Ok(())
}

/// Reads frames of one clip, evenly spaced over it.
///
/// # Errors
/// A path that is no clip, and what is wrong with it.
pub fn read_clip(path: &Path, frames: usize, limits: &DataLimits) -> Result<Image, DataError> {
    fs::metadata(path).map_err(DataError::io(path))?;
    let none = || DataError::Empty { path: path.to_owned(), what: "clip" };
    ClipSource::of(path.to_owned()).ok_or_else(none)?.read(frames, limits)
}

/// The clips in the folder of a class, in the order of their names. Hidden files and files of other kinds are passed over.
fn clips_in(folder: &Path) -> Result<Vec<ClipSource>, DataError> {
    let entries = fs::read_dir(folder).map_err(DataError::io(folder))?;
    let paths = entries.map(|entry| Ok(entry.map_err(DataError::io(folder))?.path()));
    let mut paths = paths.collect::<Result<Vec<_>, DataError>>()?;
    paths.sort();
    Ok(paths.into_iter().filter_map(ClipSource::of).collect())
}

impl Dataset for Clips {
    fn len(&self) -> usize {
        self.clips.len()
    }

    fn classes(&self) -> u32 {
        self.names.len() as u32
    }

    fn channels(&self) -> usize {
        CHANNELS
    }

    fn frames(&self) -> Option<usize> {
        Some(self.frames)
    }

    fn image_size(&self) -> Option<Size> {
        None
    }

    fn target(&self, record: usize) -> Result<Target, DataError> {
        within(&self.clips, record).map(|(_, class)| Target::Class(*class))
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        let clip = within(&self.clips, record)?.0.read(self.frames, &self.limits)?;
        if self.masks.is_some() { clip.upright(|| self.place(record)) } else { Ok(clip) }
    }

    fn frame_masks(&self, record: usize, size: Size) -> Result<Option<Vec<Mask>>, DataError> {
        let Some(masks) = &self.masks else { return Ok(None) };
        let (clip, _) = within(&self.clips, record)?;
        if let ClipSource::Video(video) = clip
            && let Some([read, stored]) = video.uneven(&self.limits)?
        {
            let place = clip.path().display();
            let problem = format!(
                "{place}: some frames are repeated or left out so that they come at an even rate ({read} are read, {stored} are stored), and nothing tells which of them a mask is of; take its frames out of it, and make masks of these"
            );
            return Err(DataError::setting("data.masks", problem));
        }
        masks.read(record, &clip.frame_names(&self.limits)?, self.frames, (size, &self.limits)).map(Some)
    }

    fn place(&self, record: usize) -> String {
        let clip = self.clips.get(record);
        clip.map_or_else(|| format!("record {record}"), |(clip, _)| clip.path().display().to_string())
    }

    fn name(&self, record: usize) -> Option<String> {
        let (clip, _) = self.clips.get(record)?;
        let path = clip.path();
        Some(path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().into_owned())
    }

    /// Of the clips and of every byte of their masks.
    fn fingerprint(&self) -> Result<String, DataError> {
        let Some(masks) = &self.masks else { return self.images_fingerprint() };
        let mut hash = Sha256::new();
        hash_text(&mut hash, self.images_fingerprint()?.as_bytes());
        masks.hash(&mut hash, &self.limits)?;
        Ok(hexadecimal(&hash.finalize()))
    }

    fn images_fingerprint(&self) -> Result<String, DataError> {
        if let Some(known) = self.fingerprint.get() {
            return Ok(known.clone());
        }
        let mut hash = Sha256::new();
        hash.update((self.frames as u64).to_le_bytes());
        self.names.iter().for_each(|name| hash_text(&mut hash, name.as_bytes()));
        for (record, (clip, class)) in self.clips.iter().enumerate() {
            hash_text(&mut hash, self.name(record).unwrap_or_default().as_bytes());
            hash.update(class.to_le_bytes());
            clip.hash(&mut hash, &self.limits)?;
        }
        Ok(self.fingerprint.get_or_init(|| hexadecimal(&hash.finalize())).clone())
    }

    fn class_names(&self) -> Option<&[String]> {
        Some(&self.names)
    }
}
