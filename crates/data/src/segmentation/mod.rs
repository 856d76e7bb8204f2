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
