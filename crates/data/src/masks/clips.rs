//! One file of masks for all frames of a clip.

use std::ffi::OsStr;
use std::path::Path;

use dapple_geometry::{Mask, Size};
use serde_json::Value;

use super::boxes::{self, PixelBox};
use super::json::{self, LISTS};
use super::read_bytes;
use super::unique::UniqueKeys;
use crate::formats::array_masks;
use crate::{DataError, DataLimits};

/// A clip as its masks must know it.
#[derive(Debug, Clone, Copy)]
pub struct ClipFrames<'a> {
    /// All frames of the clip.
    pub total: usize,
    /// The frames that are shown, each below the number of all.
    pub shown: &'a [usize],
    /// The size of a frame.
    pub size: Size,
}

/// The private pixels of the frames that are shown, or one mask for all frames.
///
/// - An array of `[frames, height, width]` has a mask for each frame of the clip; one of `[height, width]`, like a picture, one for all.
/// - JSON has a list of objects for each frame, or objects that name their `frame`, from 0; a CSV table has a column `frame`. Objects
///   without a frame are private in all frames.
///
/// # Guarantee
/// That of [`decode_image_mask`](super::decode_image_mask), for each frame. A file with masks of another number of frames is refused, and so is
/// one that marks something both in a frame and outside of it, or in two frames at once.
///
/// # Errors
/// As there, and masks of frames that the clip does not have.
pub fn clip_masks(
    bytes: &[u8],
    path: &Path,
    clip: ClipFrames<'_>,
    limits: &DataLimits,
) -> Result<Vec<Mask>, DataError> {
    let wrong = |problem: String| DataError::ImageMask {
        path: path.to_owned(),
        problem: crate::formats::one_line(&problem),
    };
    let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default().to_ascii_lowercase();
    if let Some(frame) = clip.shown.iter().find(|frame| **frame >= clip.total) {
        return Err(wrong(format!("frame {frame} is shown, but the clip has {}", clip.total)));
    }
    let masks = match ending.as_str() {
        "npy" => array_masks(bytes, path, (clip.total, clip.shown), limits)?,
        "json" => of_json(bytes, clip).map_err(wrong)?,
        "csv" => of_csv(&String::from_utf8_lossy(bytes), clip).map_err(wrong)?,
        _ => vec![read_bytes(bytes, path, clip.size, limits)?],
    };
    match masks.iter().find(|mask| mask.size() != clip.size) {
        None => Ok(masks),
        Some(mask) => {
            Err(DataError::MaskSize { path: path.to_owned(), found: mask.size(), expected: clip.size })
        }
    }
}

fn of_json(bytes: &[u8], clip: ClipFrames<'_>) -> Result<Vec<Mask>, String> {
    let UniqueKeys(value) = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if let Value::Object(object) = &value {
        json::nothing_unread(object, &["frames"])?;
    }
    let lists = match &value {
        Value::Array(lists) if !lists.is_empty() && lists.iter().all(Value::is_array) => Some(lists),
        Value::Object(object) => object.get("frames").and_then(Value::as_array),
        _ => None,
    };
    if let Some(lists) = lists {
        if lists.len() != clip.total {
            return Err(format!("lists of {} frames, but the clip has {}", lists.len(), clip.total));
        }
        if marks_beside(&value) || (value.is_object() && !objects(&value).is_empty()) {
            return Err("objects beside the lists of frames".to_owned());
        }
        lists.iter().enumerate().try_for_each(|(frame, list)| only_of(frame, list))?;
        return clip.shown.iter().map(|&frame| json::mask_of(&lists[frame], clip.size)).collect();
    }
    let objects = objects(&value);
    let frames: Vec<Option<&Value>> = objects.iter().map(|object| object.get("frame")).collect();
    if frames.iter().all(Option::is_none) {
        return Ok(vec![json::mask_of(&value, clip.size)?]);
    }
    let number = |frame: &Option<&Value>| {
        let number = frame.and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
        let number = number.ok_or_else(|| "an object without the number of its frame".to_owned())?;
        below(number, clip.total)
    };
    let frames: Vec<usize> = frames.iter().map(number).collect::<Result<_, _>>()?;
    if marks_beside(&value) {
        return Err("objects of no frame beside those of frames".to_owned());
    }
    objects.iter().zip(&frames).try_for_each(|(object, &frame)| only_of(frame, object))?;
    let of_frame = |shown: &usize| {
        let own = objects.iter().zip(&frames).filter(|(_, frame)| *frame == shown);
        json::mask_of(&own.map(|(object, _)| (*object).clone()).collect(), clip.size)
    };
    // What no frame shows must make sense as well.
    json::mask_of(&objects.iter().map(|object| (*object).clone()).collect(), clip.size)?;
    clip.shown.iter().map(of_frame).collect()
}

/// Whether a file says something that is in none of its lists.
fn marks_beside(value: &Value) -> bool {
    let Some(object) = value.as_object() else { return false };
    json::marks(object) || LISTS.iter().any(|key| object.get(*key).is_some_and(Value::is_object))
}

/// Refuses objects of one frame in which another frame is named.
fn only_of(frame: usize, value: &Value) -> Result<(), String> {
    match value {
        Value::Array(values) => values.iter().try_for_each(|value| only_of(frame, value)),
        Value::Object(object) => match object.get("frame") {
            Some(other) if other.as_u64() != Some(frame as u64) => {
                Err(format!("an object of frame {other} among those of frame {frame}"))
            }
            _ => object.values().try_for_each(|value| only_of(frame, value)),
        },
        _ => Ok(()),
    }
}

/// The objects of a file, in whichever lists they are.
fn objects(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(objects) => objects.iter().collect(),
        Value::Object(object) => {
            let lists = LISTS.iter().filter_map(|key| object.get(*key)).filter_map(Value::as_array);
            lists.flatten().collect()
        }
        _ => Vec::new(),
    }
}

fn of_csv(text: &str, clip: ClipFrames<'_>) -> Result<Vec<Mask>, String> {
    let (boxes, frames) = boxes::of_csv_frames(text)?;
    let Some(frames) = frames else { return Ok(vec![boxes::mask(&boxes, clip.size)?]) };
    frames.iter().try_for_each(|&frame| below(frame, clip.total).map(|_| ()))?;
    boxes::mask(&boxes, clip.size)?;
    let of_frame = |shown: &usize| {
        let own: Vec<PixelBox> =
            boxes.iter().zip(&frames).filter(|(_, frame)| *frame == shown).map(|(one, _)| *one).collect();
        boxes::mask(&own, clip.size)
    };
    clip.shown.iter().map(of_frame).collect()
}

/// The number of a frame of the clip.
fn below(frame: usize, total: usize) -> Result<usize, String> {
    match frame < total {
        true => Ok(frame),
        false => Err(format!("frame {frame}, but the clip has {total}, and frames count from 0")),
    }
}
