//! Counts what was right and what was wrong, pixel by pixel.

use dapple_data::{LabelMap, UNLABELLED, Whole};
use dapple_private::StepError;

use super::likeliest;
use crate::error::TrainError;
use crate::evaluation::confusion::Confusion;
use crate::evaluation::{Evaluation, Overlap};

/// What images add to an evaluation.
pub(super) struct PixelTally {
    images: u64,
    /// Images with at least one labelled pixel, and the sum of their mean losses.
    labelled: u64,
    loss: f64,
    confusion: Confusion,
}

impl PixelTally {
    pub(super) fn new(classes: usize) -> Self {
        Self { images: 0, labelled: 0, loss: 0.0, confusion: Confusion::new(classes) }
    }

    /// The tally of one image.
    pub(super) fn of(whole: &Whole, map: &LabelMap, scores: &[f32], classes: usize) -> Self {
        let mut tally = Self { images: 1, ..Self::new(classes) };
        let mut labels = map.labels().iter();
        let mut pixels = 0u64;
        whole.restore(scores, classes, |scores| {
            let label = labels.next().copied().unwrap_or(UNLABELLED);
            let class = usize::from(label);
            if label == UNLABELLED || class >= classes {
                return;
            }
            let said = likeliest(scores);
            let largest = scores[said];
            let sum: f64 = scores.iter().map(|&score| f64::from(score - largest).exp()).sum();
            tally.loss += sum.ln() + f64::from(largest - scores[class]);
            tally.confusion.count(class, said);
            pixels += 1;
        });
        if pixels > 0 {
            tally.labelled = 1;
            tally.loss /= pixels as f64;
        }
        tally
    }

    pub(super) fn add(&mut self, image: &Self) {
        self.images += image.images;
        self.labelled += image.labelled;
        self.loss += image.loss;
        self.confusion.add(&image.confusion);
    }

    pub(super) fn finish(self) -> Result<Evaluation, TrainError> {
        let classes = self.confusion.rows().len();
        let Some(accuracy) = self.confusion.accuracy() else {
            return Err(TrainError::setting(
                "data.test",
                "no pixel of the label maps has a class",
                "check the classes and the ignored values of the [data] section",
            ));
        };
        let loss = self.loss / self.labelled.max(1) as f64;
        if !loss.is_finite() {
            return Err(StepError::NotFinite { what: "a score of the model" }.into());
        }
        let per_class_iou: Vec<Option<f64>> =
            (0..classes).map(|class| self.confusion.intersection_over_union(class)).collect();
        let known: Vec<f64> = per_class_iou.iter().flatten().copied().collect();
        Ok(Evaluation {
            records: self.images,
            accuracy,
            top5: None,
            loss,
            per_class: (0..classes).map(|class| self.confusion.recall(class)).collect(),
            confusion: self.confusion.rows(),
            class_accuracy: self.confusion.mean_recall(),
            measure: None,
            overlap: Some(Overlap {
                // At least one pixel was counted, so at least one class is known.
                miou: known.iter().sum::<f64>() / known.len().max(1) as f64,
                pixel_accuracy: accuracy,
                pixels: self.confusion.total(),
                per_class_iou,
            }),
        })
    }
}
