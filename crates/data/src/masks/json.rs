//! Boxes and run lengths in JSON, as detectors and annotation tools write them.

use dapple_geometry::{Mask, Size};
use serde_json::{Map, Value};

use super::boxes::{self, PixelBox};
use super::runs;
use super::unique::UniqueKeys;

/// Keys under which tools list objects.
pub(super) const LISTS: [&str; 5] = ["annotations", "predictions", "detections", "objects", "results"];

/// Keys by which an object says where it is.
const MARKS: [&str; 5] = ["counts", "segmentation", "boxes", "bbox", "box"];

/// Whether an object says where it is.
pub(super) fn marks(object: &Map<String, Value>) -> bool {
    MARKS.iter().any(|key| object.contains_key(*key))
}

/// Whether an object says where it is somewhere within a value. Counts without a size may count anything.
fn marks_within(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().any(marks_within),
        Value::Object(object) => {
            let says =
                |key: &str| object.contains_key(key) && (key != "counts" || object.contains_key("size"));
            MARKS.iter().any(|key| says(key)) || object.values().any(marks_within)
        }
        _ => false,
    }
}

/// Refuses an object with something that marks pixels under a key that is not read, nor one of `others`.
pub(super) fn nothing_unread(object: &Map<String, Value>, others: &[&str]) -> Result<(), String> {
    let read = |key: &str| LISTS.iter().chain(&MARKS).chain(others).any(|known| *known == key);
    match object.iter().find(|(key, value)| !read(key) && marks_within(value)) {
        None => Ok(()),
        Some((key, _)) => {
            Err(format!("{key:?} marks pixels, and is none of the lists that are read: {}", LISTS.join(", ")))
        }
    }
}

/// The private pixels of an image: all that lie in a box or a run of any object in the file, in whichever lists the objects are. A list
/// without objects leaves everything public.
///
/// # Errors
/// Text that is no JSON or says something twice, an object without a box and without runs, what is wrong with either, and objects in a list
/// of another name.
pub(super) fn mask(bytes: &[u8], size: Size) -> Result<Mask, String> {
    let UniqueKeys(value) = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    mask_of(&value, size)
}

/// The same of text that was parsed.
///
/// # Errors
/// As [`mask`], but for the text.
pub(super) fn mask_of(value: &Value, size: Size) -> Result<Mask, String> {
    let mut found = Objects { boxes: Vec::new(), masks: Vec::new() };
    found.collect(value, size)?;
    let mut marked = boxes::mask(&found.boxes, size)?.bytes().to_vec();
    for mask in &found.masks {
        marked.iter_mut().zip(mask.bytes()).for_each(|(pixel, other)| *pixel |= other);
    }
    Mask::from_bytes(size, marked).map_err(|error| error.to_string())
}

/// What objects mark.
struct Objects {
    boxes: Vec<PixelBox>,
    masks: Vec<Mask>,
}

impl Objects {
    /// Takes a list of objects, or an object that stands for itself, for the lists in it, or for both.
    fn collect(&mut self, value: &Value, size: Size) -> Result<(), String> {
        match value {
            Value::Array(objects) => objects.iter().try_for_each(|object| match object {
                Value::Object(object) => self.object_and_lists(object, size),
                other => Err(format!("{} where an object with a box or runs is expected", kind(other))),
            }),
            Value::Object(object) => self.object_and_lists(object, size),
            other => Err(format!("{} where a list of objects is expected", kind(other))),
        }
    }

    /// Takes what an object says, and the lists in it, which may hold its parts.
    fn object_and_lists(&mut self, object: &Map<String, Value>, size: Size) -> Result<(), String> {
        nothing_unread(object, &[])?;
        let lists = LISTS.iter().filter_map(|key| object.get(*key)).filter(|list| !list.is_null());
        if marks(object) || lists.clone().next().is_none() {
            self.object(object, size)?;
        }
        lists.into_iter().try_for_each(|list| self.collect(list, size))
    }

    /// Takes what one object says. One with runs is where its runs are, and a box beside them says nothing more; else it is in all its boxes.
    fn object(&mut self, object: &Map<String, Value>, size: Size) -> Result<(), String> {
        let own = object.get("counts").map(|counts| (object.get("size"), counts));
        let segmented = match object.get("segmentation") {
            Some(Value::Object(runs)) => {
                Some((runs.get("size"), runs.get("counts").ok_or("a segmentation without counts")?))
            }
            _ => None,
        };
        if own.is_some() || segmented.is_some() {
            for (sides, counts) in own.into_iter().chain(segmented) {
                self.masks.push(runs::mask(sides, counts, size)?);
            }
            return Ok(());
        }
        let mut boxes = Vec::new();
        if let Some(list) = object.get("boxes") {
            let list = list.as_array().ok_or("boxes that are no list")?;
            for corners in list {
                boxes.push(PixelBox::between(four(corners)?)?);
            }
        }
        if let Some(corner_and_size) = object.get("bbox") {
            boxes.push(PixelBox::from_corner(four(corner_and_size)?)?);
        }
        if let Some(named) = object.get("box") {
            let corners =
                ["xmin", "ymin", "xmax", "ymax"].map(|name| named.get(name).and_then(Value::as_f64));
            let [Some(left), Some(top), Some(right), Some(bottom)] = corners else {
                return Err("a box without xmin, ymin, xmax and ymax".to_owned());
            };
            boxes.push(PixelBox::between([left, top, right, bottom])?);
        }
        if boxes.is_empty() && !object.contains_key("boxes") {
            return Err("an object without bbox, box, boxes, segmentation or counts".to_owned());
        }
        self.boxes.extend(boxes);
        Ok(())
    }
}

/// Four numbers.
fn four(value: &Value) -> Result<[f64; 4], String> {
    let numbers: Option<Vec<f64>> =
        value.as_array().and_then(|values| values.iter().map(Value::as_f64).collect());
    let four = numbers.and_then(|numbers| <[f64; 4]>::try_from(numbers).ok());
    four.ok_or_else(|| "a box that is not four numbers".to_owned())
}

/// What a value is, in words.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
