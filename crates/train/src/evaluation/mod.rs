//! How good a model is on records it was not trained on.

mod classification;
mod confusion;
mod evaluator;
mod segmentation;

use serde::{Deserialize, Serialize};

pub(crate) use classification::{evaluate as classify, probabilities};
pub(crate) use evaluator::Evaluator;
pub(crate) use segmentation::Segmenter;

/// Accuracy and loss on a set of records. Where every pixel has a class, pixels are counted instead of records, those without a label left
/// out, each at the size of its image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Records.
    pub records: u64,
    /// Share of records (of labelled pixels) whose class is the most likely one.
    pub accuracy: f64,
    /// Share of records whose class is among the five most likely; none where there are no more than five classes, and for pixels.
    pub top5: Option<f64>,
    /// Mean cross-entropy; of label maps, the mean over images of the mean over their labelled pixels, as in training.
    pub loss: f64,
    /// Accuracy on each class; none for a class without records (pixels).
    pub per_class: Vec<Option<f64>>,
    /// `confusion[class][said]`: records (pixels) of a class that the model said to be of another, or of the same.
    pub confusion: Vec<Vec<u64>>,
    /// How well the pixels of each class were found; none where an image has one class.
    #[serde(flatten)]
    pub overlap: Option<Overlap>,
}

/// How well the pixels of each class were found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Overlap {
    /// Mean of the intersections over unions of all classes that are anywhere or are said to be anywhere.
    pub miou: f64,
    /// Share of the labelled pixels whose class is the most likely one.
    pub pixel_accuracy: f64,
    /// Labelled pixels.
    pub pixels: u64,
    /// `TP / (TP + FP + FN)` of each class over all images; none for a class that neither is anywhere nor is said.
    pub per_class_iou: Vec<Option<f64>>,
}

/// What a model is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// The share of images told right.
    Accuracy,
    /// The mean over classes of intersection over union, pixel by pixel.
    MeanIou,
}

impl Measure {
    /// The name in files: the field of [`Evaluation`] or [`Overlap`].
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::MeanIou => "miou",
        }
    }

    /// The name in sentences, tables and figures.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::MeanIou => "mIoU",
        }
    }
}

/// The number that a model is judged by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// What it is.
    pub measure: Measure,
    /// From 0 to 1.
    pub value: f64,
}

impl Evaluation {
    /// The number that the model is judged by: the mean intersection over union of label maps, else the accuracy.
    #[must_use]
    pub fn score(&self) -> Score {
        match &self.overlap {
            Some(overlap) => Score { measure: Measure::MeanIou, value: overlap.miou },
            None => Score { measure: Measure::Accuracy, value: self.accuracy },
        }
    }
}
