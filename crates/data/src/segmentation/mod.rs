//! Images with label maps: pictures in pairs, and what the pixels of a label picture stand for.

mod a2d2;
mod cityscapes;
mod class_map;
pub(crate) mod id_picture;
mod pairs;

pub use a2d2::{A2D2_TEST_SESSIONS, A2D2_TRAIN_SESSIONS, A2D2_VALIDATION_SESSIONS, a2d2};
pub use cityscapes::{CityscapesPart, cityscapes};
pub use class_map::{ClassMap, Colour, parse_colour};
pub use pairs::Pairs;

use std::path::Path;

use dapple_geometry::Size;

use crate::{DataError, DataLimits, file};

/// Size and numbers of a label picture, row by row: its grey values, or the numbers of its palette's colours.
///
/// # Errors
/// A file that cannot be read, or that is no picture of plain numbers of at most 8 bits.
pub fn read_ids(path: &Path, limits: &DataLimits) -> Result<(Size, Vec<u8>), DataError> {
    id_picture::decode(&file::read(path, limits)?, path, limits)
}
