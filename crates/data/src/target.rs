//! What a model should say about a record: one class, or a class for each pixel.

use dapple_geometry::Size;

/// Marks a position without a class among the labels of a [`Microbatch`](crate::Microbatch). It does not count, in training or in
/// evaluation.
pub const IGNORED: u32 = u32::MAX;

/// Marks a pixel without a class in a [`LabelMap`].
pub const UNLABELLED: u8 = 255;

/// The most classes that a label map can tell apart.
pub const MAX_MAP_CLASSES: u32 = UNLABELLED as u32;

/// What the model should say about a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The class of the image.
    Class(u32),
    /// The class of each pixel.
    Map(LabelMap),
}

/// The class of each pixel of an image, or [`UNLABELLED`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelMap {
    size: Size,
    // [height, width]
    labels: Vec<u8>,
}

impl LabelMap {
    /// A map from its labels, `[height, width]`; `None` unless there is one for each pixel.
    #[must_use]
    pub fn new(size: Size, labels: Vec<u8>) -> Option<Self> {
        (labels.len() as u64 == size.pixels()).then_some(Self { size, labels })
    }

    /// Width and height, those of the image.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size
    }

    /// The labels, `[height, width]`: classes, or [`UNLABELLED`].
    #[must_use]
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }
}

/// A label of a map as a microbatch holds it.
pub(crate) fn widened(label: u8) -> u32 {
    if label == UNLABELLED { IGNORED } else { u32::from(label) }
}
