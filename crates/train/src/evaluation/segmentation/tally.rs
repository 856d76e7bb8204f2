//! Counts what was right and what was wrong, pixel by pixel.

use dapple_data::{LabelMap, UNLABELLED, Whole};
use dapple_private::StepError;

use super::likeliest;
use crate::error::TrainError;
use crate::evaluation::confusion::Confusion;
use crate::evaluation::shared::dealt;
use crate::evaluation::{Evaluation, Overlap};
use crate::ranks::RankGroup;

/// What images add to an evaluation.
pub(super) struct PixelTally {
    /// The mean loss of each image; `None` where no pixel is labelled.
    losses: Vec<Option<f64>>,
    confusion: Confusion,
}

impl PixelTally {
    pub(super) fn new(classes: usize) -> Self {
        Self { losses: Vec::new(), confusion: Confusion::new(classes) }
    }

    /// The tally of one image.
    pub(super) fn of(whole: &Whole, map: &LabelMap, scores: &[f32], classes: usize) -> Self {
        let mut confusion = Confusion::new(classes);
        let mut loss = 0.0;
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
            loss += sum.ln() + f64::from(largest - scores[class]);
            confusion.count(class, said);
            pixels += 1;
        });
        Self { losses: vec![(pixels > 0).then(|| loss / pixels as f64)], confusion }
    }

    pub(super) fn add(&mut self, images: &Self) {
        self.losses.extend(&images.losses);
        self.confusion.add(&images.confusion);
    }

    /// The tally of all images, of which each process that shares them has its own part.
    ///
    /// # Errors
    /// That of this process, or the failure of another.
    pub(super) fn together(
        own: Result<Self, TrainError>,
        ranks: Option<&RankGroup>,
    ) -> Result<Self, TrainError> {
        let Some(group) = ranks else { return own };
        let (losses, confusion) = own
            .map(|own| (own.losses, own.confusion))
            .map_or_else(|error| (Err(error), None), |(losses, confusion)| (Ok(losses), Some(confusion)));
        // A loss that is not there has bytes of its own, because any number may be one.
        let to_bytes = |loss: &Option<f64>| {
            let mut bytes = loss.unwrap_or_default().to_le_bytes().to_vec();
            bytes.push(u8::from(loss.is_some()));
            bytes
        };
        let from_bytes = |bytes: &[u8]| {
            let (loss, there) = bytes.split_first_chunk()?;
            Some(there.contains(&1).then(|| f64::from_le_bytes(*loss)))
        };
        let losses = dealt(ranks, losses, to_bytes, from_bytes)?;
        let own = confusion.expect("a process that failed has its error back");
        let mut confusion = Confusion::new(own.rows().len());
        let counts = own.rows().concat().into_iter().flat_map(u64::to_le_bytes).collect();
        for (rank, bytes) in group.exchange(Ok(counts))?.iter().enumerate() {
            let counts: Vec<u64> =
                bytes.as_chunks::<8>().0.iter().map(|count| u64::from_le_bytes(*count)).collect();
            let of_rank = Confusion::of_counts(own.rows().len(), &counts);
            let unknown = || StepError::Rank { rank, problem: "it counts other classes".to_owned() };
            confusion.add(&of_rank.ok_or_else(unknown)?);
        }
        Ok(Self { losses, confusion })
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
        let labelled = self.losses.iter().flatten();
        let loss = labelled.clone().sum::<f64>() / labelled.count().max(1) as f64;
        if !loss.is_finite() {
            return Err(StepError::NotFinite { what: "a score of the model" }.into());
        }
        let per_class_iou: Vec<Option<f64>> =
            (0..classes).map(|class| self.confusion.intersection_over_union(class)).collect();
        let known: Vec<f64> = per_class_iou.iter().flatten().copied().collect();
        Ok(Evaluation {
            records: self.losses.len() as u64,
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
