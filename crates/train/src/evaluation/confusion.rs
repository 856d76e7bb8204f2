//! How often each class was taken for each other.

/// Counts of records or pixels by their class and by what the model said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Confusion {
    classes: usize,
    // [class, said]
    counts: Vec<u64>,
}

impl Confusion {
    pub(super) fn new(classes: usize) -> Self {
        Self { classes, counts: vec![0; classes * classes] }
    }

    /// Counts that were taken before, row by row; `None` if they are not as many as these classes have.
    pub(super) fn of_counts(classes: usize, counts: &[u64]) -> Option<Self> {
        (counts.len() == classes * classes).then(|| Self { classes, counts: counts.to_vec() })
    }

    /// Counts one record or pixel. Both classes must be below the number of classes.
    pub(super) fn count(&mut self, class: usize, said: usize) {
        self.counts[class * self.classes + said] += 1;
    }

    /// Adds counts of other records over the same classes.
    pub(super) fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, other)| *count += other);
    }

    /// How many records or pixels were counted.
    pub(super) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The share for which the model was right; `None` if nothing was counted.
    pub(super) fn accuracy(&self) -> Option<f64> {
        let right = (0..self.classes).map(|class| self.at(class, class)).sum();
        share(right, self.total())
    }

    /// The share of a class that the model found; `None` for a class that was never counted.
    pub(super) fn recall(&self, class: usize) -> Option<f64> {
        let all = (0..self.classes).map(|said| self.at(class, said)).sum();
        share(self.at(class, class), all)
    }

    /// The mean of [`Confusion::recall`] over the classes that were counted; `None` if nothing was.
    pub(super) fn mean_recall(&self) -> Option<f64> {
        let recalls: Vec<f64> = (0..self.classes).filter_map(|class| self.recall(class)).collect();
        (!recalls.is_empty()).then(|| recalls.iter().sum::<f64>() / recalls.len() as f64)
    }

    /// Intersection over union of where a class is and where the model says it is, `TP / (TP + FP + FN)`; `None` for a class that neither
    /// occurs nor is ever said.
    pub(super) fn intersection_over_union(&self, class: usize) -> Option<f64> {
        let is: u64 = (0..self.classes).map(|said| self.at(class, said)).sum();
        let said: u64 = (0..self.classes).map(|other| self.at(other, class)).sum();
        let both = self.at(class, class);
        share(both, is + said - both)
    }

    /// The counts as `rows()[class][said]`.
    pub(super) fn rows(&self) -> Vec<Vec<u64>> {
        self.counts.chunks_exact(self.classes.max(1)).map(<[u64]>::to_vec).collect()
    }

    fn at(&self, class: usize, said: usize) -> u64 {
        self.counts[class * self.classes + said]
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with sets of pixels, by which the intersection over union is defined.
        #[test]
        fn counts_are_those_of_sets(pixels in prop::collection::vec((0usize..4, 0usize..4), 0..60)) {
            // The last class neither occurs nor is ever said.
            let mut confusion = Confusion::new(5);
            let mut halves = [Confusion::new(5), Confusion::new(5)];
            for (index, &(class, said)) in pixels.iter().enumerate() {
                confusion.count(class, said);
                halves[index % 2].count(class, said);
            }
            let [mut first, second] = halves;
            first.add(&second);
            prop_assert_eq!(&first, &confusion);
            prop_assert_eq!(Confusion::of_counts(5, &confusion.rows().concat()), Some(confusion.clone()));
            prop_assert_eq!(Confusion::of_counts(4, &confusion.rows().concat()), None);
            prop_assert_eq!(confusion.total(), pixels.len() as u64);
            for class in 0..5 {
                let both = pixels.iter().filter(|&&pixel| pixel == (class, class)).count();
                let either = pixels.iter().filter(|&&(is, said)| is == class || said == class).count();
                let is = pixels.iter().filter(|&&(is, _)| is == class).count();
                let of = |all: usize| (all > 0).then(|| both as f64 / all as f64);
                prop_assert_eq!(confusion.intersection_over_union(class), of(either));
                prop_assert_eq!(confusion.recall(class), of(is));
            }
            let right = pixels.iter().filter(|(class, said)| class == said).count();
            let accuracy = (!pixels.is_empty()).then(|| right as f64 / pixels.len() as f64);
            prop_assert_eq!(confusion.accuracy(), accuracy);
        }
    }
}
