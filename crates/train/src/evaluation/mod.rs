//! How good a model is on records it was not trained on.

mod classification;
mod confusion;
mod evaluator;
mod segmentation;
mod shared;

use dapple_plan::spec::ClassMeasure;
use serde::{Deserialize, Serialize};

pub(crate) use classification::{
    ShownImages, evaluate as classify, evaluate_together as classify_together, probabilities,
};
pub(crate) use evaluator::Evaluator;
pub(crate) use segmentation::Segmenter;

/// Accuracy and loss on a set of records. If every pixel has a class, pixels are counted instead of records, at the size of the image and
/// without those that have no label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Number of records.
    pub records: u64,
    /// Share of records (or labelled pixels) whose class the model finds the likeliest.
    pub accuracy: f64,
    /// The mean over classes of the accuracy on each, so that rare ones count as much as frequent ones; `None` in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_accuracy: Option<f64>,
    /// What the plan has the model judged by, if that is not the usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure: Option<Measure>,
    /// Share of records whose class is among the five likeliest; `None` for pixels, and if there are no more than five classes.
    pub top5: Option<f64>,
    /// Mean cross-entropy. For label maps it is the mean over images of the mean over their labelled pixels, as in training.
    pub loss: f64,
    /// Accuracy on each class; `None` for a class without records (or pixels).
    pub per_class: Vec<Option<f64>>,
    /// `confusion[class][said]`: how many records (or pixels) of a class the model said to be of which class.
    pub confusion: Vec<Vec<u64>>,
    /// How well the pixels of each class were found; `None` if an image has one class.
    #[serde(flatten)]
    pub overlap: Option<Overlap>,
}

/// How well the pixels of each class were found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Overlap {
    /// Mean intersection over union of all classes that occur or are said to occur.
    pub miou: f64,
    /// Share of the labelled pixels whose class is the most likely one.
    pub pixel_accuracy: f64,
    /// Labelled pixels.
    pub pixels: u64,
    /// `TP / (TP + FP + FN)` of each class over all images; `None` for a class that neither occurs nor is ever said.
    pub per_class_iou: Vec<Option<f64>>,
}

/// What a model is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// The share of images whose class is right.
    Accuracy,
    /// The same for the images of each class, averaged over classes.
    ClassAccuracy,
    /// The intersection over union of pixels, averaged over classes.
    MeanIou,
}

impl Measure {
    /// The name in files, which is that of the field of [`Evaluation`] or [`Overlap`].
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::ClassAccuracy => "class_accuracy",
            Self::MeanIou => "miou",
        }
    }

    /// The name in sentences, tables and figures.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::ClassAccuracy => "mean per-class accuracy",
            Self::MeanIou => "mIoU",
        }
    }
}

/// The number that a model is judged by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// What the number measures.
    pub measure: Measure,
    /// The value, from 0 to 1.
    pub value: f64,
}

impl Evaluation {
    /// The number that the model is judged by: the mean intersection over union for label maps, and otherwise the accuracy, or its mean over
    /// classes where the plan says so.
    #[must_use]
    pub fn score(&self) -> Score {
        match (&self.overlap, self.measure, self.class_accuracy) {
            (Some(overlap), ..) => Score { measure: Measure::MeanIou, value: overlap.miou },
            (None, Some(Measure::ClassAccuracy), Some(value)) => {
                Score { measure: Measure::ClassAccuracy, value }
            }
            _ => Score { measure: Measure::Accuracy, value: self.accuracy },
        }
    }

    /// The same evaluation of a model that is judged by this.
    pub(crate) fn judged_by(mut self, measure: ClassMeasure) -> Self {
        self.measure = match measure {
            ClassMeasure::Accuracy => None,
            ClassMeasure::ClassAccuracy => Some(Measure::ClassAccuracy),
        };
        self
    }
}
