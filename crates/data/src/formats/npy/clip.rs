//! Clips that are stored as arrays.

use std::fs::File;
use std::path::{Path, PathBuf};

use dapple_geometry::Size;

use super::header::{Element, Header};
use super::images::read_at;
use crate::clips::evenly_spaced;
use crate::{DataError, DataLimits, Image, file, limits};

/// A clip in a `.npy` file: `uint8`, `[frames, height, width]` or `[frames, height, width, channels]` of one channel or three, in C order.
/// Only the frames that are shown are read.
pub(crate) struct ArrayClip {
    path: PathBuf,
    file: File,
    start: u64,
    frames: usize,
    size: Size,
    channels: usize,
}

impl ArrayClip {
    /// Opens a clip.
    ///
    /// # Errors
    /// A file that cannot be read, is no array of a clip, is cut short, or has larger frames than allowed.
    pub(crate) fn open(path: &Path, limits: &DataLimits) -> Result<Self, DataError> {
        let (mut file, length) = file::open(path)?;
        let header = Header::read(&mut file, path)?;
        let (frames, height, width, channels) = match header.shape[..] {
            [frames, height, width] => (frames, height, width, 1),
            [frames, height, width, channels @ (1 | 3)] => (frames, height, width, channels),
            _ => {
                let problem =
                    format!("shape {:?}, but a clip is [frames, height, width, 1 or 3]", header.shape);
                return Err(DataError::malformed(path, problem));
            }
        };
        if header.element != Element::UnsignedByte {
            return Err(DataError::malformed(path, "clips are uint8"));
        }
        let expected = header.file_length(path)?;
        if length != expected {
            return Err(DataError::Length { path: path.to_owned(), expected, found: length });
        }
        let side = |length: u64| u32::try_from(length).unwrap_or(u32::MAX);
        let size = limits::size(limits, side(width), side(height), path)?;
        let frames = usize::try_from(frames).ok().filter(|frames| *frames > 0);
        let frames = frames.ok_or_else(|| DataError::Empty { path: path.to_owned(), what: "frame" })?;
        Ok(Self {
            path: path.to_owned(),
            file,
            start: header.start,
            frames,
            size,
            channels: channels as usize,
        })
    }

    /// All frames of the clip.
    pub(crate) fn frames(&self) -> usize {
        self.frames
    }

    /// Reads frames that are evenly spaced over the clip, in red, green and blue.
    ///
    /// # Errors
    /// A file that cannot be read, more pixels than allowed.
    pub(crate) fn read(&self, frames: usize, limits: &DataLimits) -> Result<Image, DataError> {
        limits::clip(limits, self.size, frames, &self.path)?;
        let mut frame = vec![0; self.size.pixels() as usize * self.channels];
        let mut values = Vec::with_capacity(self.size.pixels() as usize * 3 * frames);
        for number in evenly_spaced(self.frames, frames) {
            let offset = self.start + number as u64 * frame.len() as u64;
            read_at(&self.file, &mut frame, offset).map_err(DataError::io(&self.path))?;
            match self.channels {
                1 => values.extend(frame.iter().flat_map(|value| [*value; 3])),
                _ => values.extend_from_slice(&frame),
            }
        }
        let empty = || DataError::Empty { path: self.path.clone(), what: "frame" };
        Image::clip(self.size, 3, frames, &values).ok_or_else(empty)
    }
}
