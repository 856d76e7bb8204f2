//! Everything that one clipped contribution averages (DP-Mix, Algorithm 1).

use super::mixtures::ViewMixture;
use super::{MAX_PIXELS, Views};
use crate::{DataError, Dataset, StepKey};

/// What the model is to say about each view of a contribution.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ContributionLabels {
    /// The classes of views and synthetic images.
    classes: Vec<u32>,
    mixtures: Vec<ViewMixture>,
}

impl Views {
    /// Whether a record, or the part of it that is shown, is always shown in the same way.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        let alone = self.views == 1 && self.synthetic.is_none() && self.mixtures == 0;
        let changed = self.flip || self.pixel_noise.is_some() || !self.augment.is_empty();
        alone && self.crop.is_none() && !changed
    }

    /// Views of a record, synthetic images and mixtures among them.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count_together(1)
    }

    /// Whether a record is seen at all, and not only synthetic images in its place.
    #[must_use]
    pub fn show_records(&self) -> bool {
        self.views > 0
    }

    /// How many views a contribution of this many records has: those of each record, synthetic images beside them, and mixtures, if there
    /// are two that can be mixed.
    pub(crate) fn count_together(&self, records: usize) -> usize {
        let set = records * self.of_one_record();
        set + if set < 2 { 0 } else { self.mixtures }
    }

    /// Views of one record, and synthetic images beside them.
    pub(super) fn of_one_record(&self) -> usize {
        self.views + self.synthetic_count()
    }

    /// Whether the views of a record are too many for memory.
    pub(super) fn exceed_memory(&self) -> bool {
        let values = (self.view_length() as u64).checked_mul(self.count() as u64);
        values.is_none_or(|values| values > MAX_PIXELS)
    }

    /// Whether mixtures may have two classes, if records are clipped together or one by one.
    pub(crate) fn mixes_classes(&self, together: bool) -> bool {
        self.mixtures > 0 && (together || self.synthetic_count() > 0)
    }

    /// Draws what the contribution of some records averages: of each record `K_base` views and `K_diff` synthetic images, which together
    /// are the set `S`, and then `K_self` mixtures of two of `S`.
    ///
    /// # Shapes
    /// `output` is `[count_together(records), channels, height, width]`, or for a part of each image `[count_together(records),
    /// input_length]`.
    ///
    /// # Guarantee
    /// What is drawn for a record follows from (key, step, record) alone, and the mixtures from that of the first record. Without views,
    /// no record is read.
    ///
    /// # Errors
    /// A record or synthetic image that cannot be read or shown.
    pub(crate) fn contribute(
        &self,
        dataset: &dyn Dataset,
        records: &[usize],
        key: &StepKey,
        output: &mut [f32],
    ) -> Result<ContributionLabels, DataError> {
        let length = self.input_length();
        let mut classes = Vec::with_capacity(records.len() * self.of_one_record());
        let mut first = None;
        for (&record, shown) in records.iter().zip(output.chunks_exact_mut(self.of_one_record() * length)) {
            let mut random = key.stream(record as u64);
            let (views, beside) = shown.split_at_mut(self.views * length);
            if let Some(shown) = self.part {
                self.draw_part(shown, (dataset, record), &mut random, views, &mut classes)?;
            } else if !views.is_empty() {
                let class = dataset.label(record)?;
                classes.extend(std::iter::repeat_n(class, self.views));
                let image = dataset.read(record)?;
                self.draw(&image, &mut random, views).map_err(|error| error.at(|| dataset.place(record)))?;
            }
            self.draw_synthetic(&mut random, beside, &mut classes)?;
            first.get_or_insert(random);
        }
        let mixtures = match first {
            Some(mut random) if self.mixtures > 0 => self.mix(classes.len(), &mut random, output),
            _ => Vec::new(),
        };
        Ok(ContributionLabels { classes, mixtures })
    }
}

impl ContributionLabels {
    /// Writes one class for each view. Mixtures must be of one class each.
    pub(crate) fn write_classes(&self, labels: &mut [u32]) {
        let mixed = self.mixtures.iter().map(|mixture| self.classes[mixture.first]);
        let all = self.classes.iter().copied().chain(mixed);
        labels.iter_mut().zip(all).for_each(|(label, class)| *label = class);
    }

    /// Writes the probabilities of all classes for each view: `s` for the class of a mixture's first image, and `1 - s` for that of its
    /// second (DP-Mix, equation 3).
    ///
    /// # Shapes
    /// `labels` is `[views, classes]` of zeros.
    pub(crate) fn write_probabilities(&self, classes: usize, labels: &mut [f32]) {
        let (whole, mixed) = labels.split_at_mut(self.classes.len() * classes);
        for (&class, label) in self.classes.iter().zip(whole.chunks_exact_mut(classes)) {
            label[class as usize] = 1.0;
        }
        for (mixture, label) in self.mixtures.iter().zip(mixed.chunks_exact_mut(classes)) {
            let [first, second] = [mixture.first, mixture.second].map(|number| self.classes[number] as usize);
            label[second] = 1.0 - mixture.share;
            label[first] = if first == second { 1.0 } else { mixture.share };
        }
    }
}
