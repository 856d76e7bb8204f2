//! What one clip is stored in.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use dapple_geometry::Size;
use sha2::Sha256;

use super::video::Video;
use super::{CHANNELS, evenly_spaced};
use crate::formats::{ArrayClip, PICTURE_ENDINGS, hash_text, read_picture};
use crate::{DataError, DataLimits, Image, Values, file, limits};

/// A clip on disk.
#[derive(Debug, Clone)]
pub(super) enum ClipSource {
    /// A folder of pictures, one for each frame, in natural order: `frame2` comes before `frame10`.
    Pictures(PathBuf),
    /// An array of `[frames, height, width, channels]` or `[frames, height, width]`.
    Array(PathBuf),
    /// A video file.
    Video(Video),
}

/// The frames of a clip as masks name them.
pub(super) enum FrameNames {
    /// By the names of their pictures, without endings.
    Pictures(Vec<String>),
    /// By their number from 0.
    Counted(usize),
}

impl FrameNames {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Pictures(names) => names.len(),
            Self::Counted(count) => *count,
        }
    }
}

impl ClipSource {
    /// The clip that a folder or a file is, if its name says that it is one.
    pub(super) fn of(path: PathBuf) -> Option<Self> {
        if path.file_name().and_then(OsStr::to_str).is_none_or(|name| name.starts_with('.')) {
            return None;
        }
        if path.is_dir() {
            return Some(Self::Pictures(path));
        }
        match ending(&path).as_str() {
            "npy" => Some(Self::Array(path)),
            ending if Video::has(ending) => Some(Self::Video(Video::new(path))),
            _ => None,
        }
    }

    /// The clip that a list names, by its name alone where it lies elsewhere: what has no ending of an array or a video is a folder of pictures.
    pub(super) fn named(path: &Path) -> Option<Self> {
        let hidden = path.file_name().and_then(OsStr::to_str).is_none_or(|name| name.starts_with('.'));
        Self::of(path.to_owned())
            .or_else(|| (!hidden && !path.exists()).then(|| Self::Pictures(path.to_owned())))
    }

    /// The clip that a split names: the file or folder itself, or, where its frames were taken out of a video, a folder or an array of its
    /// name without the ending.
    pub(super) fn find(path: &Path) -> Option<Self> {
        let there = |path: PathBuf| path.exists().then_some(path).and_then(Self::of);
        let found = there(path.to_owned());
        let stem = || Video::has(&ending(path)).then(|| path.with_extension(""));
        found.or_else(|| there(stem()?)).or_else(|| there(path.with_extension("npy")))
    }

    pub(super) fn path(&self) -> &PathBuf {
        match self {
            Self::Pictures(path) | Self::Array(path) => path,
            Self::Video(video) => video.path(),
        }
    }

    /// The path without the ending of a file. Folders have no endings.
    pub(super) fn stem(&self) -> PathBuf {
        match self {
            Self::Pictures(path) => path.clone(),
            Self::Array(path) => path.with_extension(""),
            Self::Video(video) => video.path().with_extension(""),
        }
    }

    /// Reads frames that are evenly spaced over the clip.
    pub(super) fn read(&self, frames: usize, limits: &DataLimits) -> Result<Image, DataError> {
        match self {
            Self::Pictures(folder) => read_pictures(folder, frames, limits),
            Self::Array(path) => ArrayClip::open(path, limits)?.read(frames, limits),
            Self::Video(video) => video.read(frames, limits),
        }
    }

    /// What the frames of the clip are called, all of them.
    pub(super) fn frame_names(&self, limits: &DataLimits) -> Result<FrameNames, DataError> {
        match self {
            Self::Pictures(folder) => {
                let stem = |path: &PathBuf| {
                    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
                };
                Ok(FrameNames::Pictures(pictures(folder)?.iter().map(stem).collect()))
            }
            Self::Array(path) => Ok(FrameNames::Counted(ArrayClip::open(path, limits)?.frames())),
            Self::Video(video) => Ok(FrameNames::Counted(video.frames(limits)?)),
        }
    }

    /// Adds every byte of the clip to a hash.
    pub(super) fn hash(&self, hash: &mut Sha256, limits: &DataLimits) -> Result<(), DataError> {
        match self {
            Self::Pictures(folder) => {
                for path in pictures(folder)? {
                    hash_text(hash, path.file_name().unwrap_or_default().as_encoded_bytes());
                    hash_text(hash, &file::read(&path, limits)?);
                }
                Ok(())
            }
            Self::Array(path) => file::hash(path, hash),
            Self::Video(video) => file::hash(video.path(), hash),
        }
    }
}

/// The ending of a file in small letters.
fn ending(path: &Path) -> String {
    path.extension().and_then(OsStr::to_str).unwrap_or_default().to_ascii_lowercase()
}

/// The pictures in a folder in natural order. Hidden files and files of other kinds are passed over.
fn pictures(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(DataError::io(folder))? {
        let path = entry.map_err(DataError::io(folder))?.path();
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if name.starts_with('.') || !PICTURE_ENDINGS.contains(&ending(&path).as_str()) {
            continue;
        }
        found.push((natural(name), path));
    }
    found.sort();
    match found.is_empty() {
        true => Err(DataError::Empty { path: folder.to_owned(), what: "frame" }),
        false => Ok(found.into_iter().map(|(_, path)| path).collect()),
    }
}

/// A piece of a name: what it says, and, if it is a number, how many digits the number has without zeros before them.
type NamePiece = (usize, String);

/// A name as pieces that sort in natural order: digits count as numbers, by length first and then digit by digit.
fn natural(name: &str) -> Vec<NamePiece> {
    let mut pieces: Vec<NamePiece> = Vec::new();
    let mut digits = false;
    for character in name.chars() {
        if pieces.is_empty() || digits != character.is_ascii_digit() {
            digits = character.is_ascii_digit();
            pieces.push((0, String::new()));
        }
        if let Some((_, text)) = pieces.last_mut() {
            text.push(character);
        }
    }
    for (length, text) in &mut pieces {
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            let number = text.trim_start_matches('0').to_owned();
            (*length, *text) = (number.len(), number);
        }
    }
    pieces
}

/// Reads the pictures of evenly spaced frames, which must all be of one size.
fn read_pictures(folder: &Path, frames: usize, limits: &DataLimits) -> Result<Image, DataError> {
    let paths = pictures(folder)?;
    let mut size: Option<Size> = None;
    let (mut values, mut turned) = (Vec::new(), false);
    let mut last: Option<(usize, usize)> = None;
    for number in evenly_spaced(paths.len(), frames) {
        // A frame that is shown several times is read once.
        if let Some((known, start)) = last
            && known == number
        {
            let again = values.len();
            values.extend_from_within(start..);
            last = Some((number, again));
            continue;
        }
        let path = &paths[number];
        let picture = read_picture(path, limits)?;
        let expected = *size.get_or_insert(picture.size());
        limits::clip(limits, expected, frames, folder)?;
        if picture.size() != expected {
            let problem = format!("a frame of {} in a clip of {expected}", picture.size());
            return Err(DataError::malformed(path, problem));
        }
        let Values::Bytes(bytes) = picture.values() else {
            return Err(DataError::malformed(path, "a frame that does not decode to bytes"));
        };
        last = Some((number, values.len()));
        values.extend_from_slice(bytes);
        turned |= picture.is_turned();
    }
    let empty = || DataError::Empty { path: folder.to_owned(), what: "frame" };
    let clip = Image::clip(size.ok_or_else(empty)?, CHANNELS, frames, &values);
    Ok(clip.ok_or_else(empty)?.noted_turned(turned))
}

#[cfg(test)]
mod tests {
    use super::natural;

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let mut names =
            ["frame10.png", "frame2.png", "frame1.png", "a.png", "frame002b.png", "7.png", "12.png"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(
            names,
            ["a.png", "frame1.png", "frame2.png", "frame002b.png", "frame10.png", "7.png", "12.png"]
        );
    }
}
