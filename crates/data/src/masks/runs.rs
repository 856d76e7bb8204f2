//! Run lengths as COCO stores masks: column by column, public pixels first.

use dapple_geometry::{Mask, Size};
use serde_json::Value;

/// How many characters of a text that is refused are shown, so that a message has room for the reason.
const SHOWN: usize = 40;

/// The mask of `{"size": [height, width], "counts": ..}`, in which the counts are a list of numbers or COCO's text of them.
///
/// # Errors
/// A size or counts that are not there or make no sense, and counts that are not those of all pixels.
pub(super) fn mask(size: Option<&Value>, counts: &Value, expected: Size) -> Result<Mask, String> {
    let sides =
        size.and_then(Value::as_array).map(|sides| sides.iter().map(Value::as_u64).collect::<Vec<_>>());
    let [Some(height), Some(width)] = sides.as_deref().unwrap_or_default() else {
        return Err("run lengths need \"size\": [height, width]".to_owned());
    };
    // Nothing is taken from the memory for a size that is not the image's.
    if (*width, *height) != (expected.width().into(), expected.height().into()) {
        return Err(format!("run lengths of {width}x{height} pixels, but the image is {expected}"));
    }
    let runs = match counts {
        Value::Array(runs) => {
            let run = |run: &Value| run.as_u64().ok_or_else(|| format!("{run} is no run length"));
            runs.iter().map(run).collect::<Result<Vec<_>, _>>()?
        }
        Value::String(text) => compressed(text)?,
        other => return Err(format!("{other} are no run lengths")),
    };
    let mut columns = Vec::with_capacity(expected.pixels() as usize);
    for (number, run) in runs.into_iter().enumerate() {
        if run > expected.pixels() - columns.len() as u64 {
            return Err(format!("more than the {} pixels of {expected}", expected.pixels()));
        }
        columns.resize(columns.len() + run as usize, (number % 2) as u8);
    }
    if columns.len() as u64 != expected.pixels() {
        return Err(format!("{} pixels, but {expected} has {}", columns.len(), expected.pixels()));
    }
    let (width, height) = (expected.width() as usize, expected.height() as usize);
    let pixels = (0..width * height).map(|at| columns[at % width * height + at / width]).collect();
    Mask::from_bytes(expected, pixels).map_err(|error| error.to_string())
}

/// The run lengths of COCO's text: groups of five bits from the lowest up, each a character from `0` on with a bit that says whether
/// another follows; from the third run on, what is written is the difference to the run before the last.
fn compressed(text: &str) -> Result<Vec<u64>, String> {
    let cut = || format!("{:?} are no run lengths", text.chars().take(SHOWN).collect::<String>());
    let mut runs: Vec<i64> = Vec::new();
    let mut bytes = text.bytes();
    while let Some(first) = bytes.next() {
        let (mut value, mut shift, mut byte) = (0i64, 0, first);
        loop {
            let bits = byte.checked_sub(b'0').filter(|bits| *bits < 64).ok_or_else(cut)?;
            value |= i64::from(bits & 31) << shift;
            shift += 5;
            if bits & 32 == 0 {
                // The highest bit of the last group is the sign.
                if bits & 16 != 0 {
                    value |= -1 << shift;
                }
                break;
            }
            byte = bytes.next().filter(|_| shift < 50).ok_or_else(cut)?;
        }
        if let Some(before) = runs.len().checked_sub(2).filter(|_| runs.len() > 2) {
            value = value.checked_add(runs[before]).ok_or_else(cut)?;
        }
        runs.push(value);
    }
    runs.into_iter().map(|run| u64::try_from(run).map_err(|_| cut())).collect()
}
