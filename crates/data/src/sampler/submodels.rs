//! Which submodel each record of a step updates.

use std::collections::BTreeMap;

use chacha20::rand_core::Rng;
use dapple_plan::Plan;

use crate::StepKey;
use crate::uniform::{below, weighted};

/// The law by which a record draws its submodel: first one of several ways to split the model, then one of the submodels of that split.
#[derive(Debug, Clone, PartialEq)]
pub struct SubmodelLaw {
    /// The probability of each way to split the model, and its number of submodels.
    partitions: Vec<(f64, u64)>,
}

impl SubmodelLaw {
    /// The law of a plan without phases, or of one phase; `None` if records update the whole model, or if dropout splits it.
    #[must_use]
    pub fn of(part: &Plan) -> Option<Self> {
        let split = part.split().filter(|split| !split.by_dropout())?;
        let of = |index: usize| {
            let partition = split.partitions()[index];
            (partition.probability, partition.submodels)
        };
        Some(Self { partitions: (0..split.partitions().len()).map(of).collect() })
    }

    /// The number of submodels of each way to split the model, in order. Submodels are numbered through all of them.
    pub fn counts(&self) -> impl Iterator<Item = u64> {
        self.partitions.iter().map(|(_, submodels)| *submodels)
    }

    /// The probability of each submodel, for each way to split the model.
    pub fn probabilities(&self) -> impl Iterator<Item = f64> {
        self.partitions.iter().map(|(probability, submodels)| probability / *submodels as f64)
    }

    /// The submodel that a record draws in the step of this key, whether the step sees the record or not.
    ///
    /// # Guarantee
    /// A record's submodel is a function of (key, step, record) alone, whoever else was drawn, and one for all its views.
    #[must_use]
    pub fn submodel(&self, key: &StepKey, record: usize) -> usize {
        self.draw(&mut key.stream(record as u64)) as usize
    }

    /// Draws one of all submodels.
    ///
    /// # Guarantee
    /// Given uniform bits, a split is drawn in exact proportion to its probability, and of its submodels each is exactly equally likely.
    fn draw(&self, random: &mut impl Rng) -> u64 {
        let way = match &self.partitions[..] {
            // A single way needs no draw.
            [_] => 0,
            several => weighted(random, &several.iter().map(|(share, _)| *share).collect::<Vec<_>>()),
        };
        let first: u64 = self.counts().take(way).sum();
        first + below(random, self.partitions[way].1)
    }
}

/// Draws the submodel of each record of a step, and returns the records of each submodel that was drawn, in growing order.
///
/// # Guarantee
/// That of [`SubmodelLaw::submodel`]. The key is a secret from the operating system, and the draw is written nowhere.
pub(crate) fn by_submodel(
    key: &StepKey,
    records: &[usize],
    law: &SubmodelLaw,
) -> BTreeMap<usize, Vec<usize>> {
    let mut drawn: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &record in records {
        drawn.entry(law.submodel(key, record)).or_default().push(record);
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{MasterKey, Purpose};
    use crate::statistics::{ALPHA, chi_square_accepts};
    use dapple_plan::PlanSpec;

    fn law(partition: &str) -> SubmodelLaw {
        let text = format!(
            "[privacy]\ndelta = 1e-5\nnoise_multiplier = 1.0\n[sampling]\nbatch = 5\nrecords = 10\nsteps = 3\n\
             [partition]\n{partition}\n"
        );
        let plan = Plan::check(&PlanSpec::from_toml(&text).unwrap()).unwrap();
        SubmodelLaw::of(&plan).unwrap()
    }

    fn key(step: u64) -> StepKey {
        MasterKey::from_seed(4).purpose(Purpose::Submodels).step(step)
    }

    #[test]
    fn submodels_are_drawn_as_they_are_priced() {
        for (partition, law_of) in [
            ("submodels = 4", vec![0.25; 4]),
            ("mixture = [[2, 0.5], [3, 0.3], [1, 0.2]]", vec![0.25, 0.25, 0.1, 0.1, 0.1, 0.2]),
        ] {
            let law = law(partition);
            let records: Vec<usize> = (0..60_000).collect();
            let drawn = by_submodel(&key(0), &records, &law);
            let counts: Vec<u64> = drawn.values().map(|records| records.len() as u64).collect();
            let expected: Vec<f64> = law_of.iter().map(|p| p * 60_000.0).collect();
            assert!(chi_square_accepts(&counts, &expected, ALPHA), "{partition}: {counts:?}");
            assert_eq!(law.counts().sum::<u64>() as usize, law_of.len());
        }
    }

    #[test]
    fn a_draw_follows_from_the_step_and_the_record_alone() {
        let law = law("submodels = 3");
        let of = |step, records: &[usize]| by_submodel(&key(step), records, &law);
        let all: Vec<usize> = (0..300).collect();
        let some: Vec<usize> = all.iter().copied().filter(|record| record % 7 != 0).collect();
        let kept = |drawn: BTreeMap<usize, Vec<usize>>| -> BTreeMap<usize, Vec<usize>> {
            let few = |records: Vec<usize>| records.into_iter().filter(|record| record % 7 != 0).collect();
            drawn.into_iter().map(|(submodel, records)| (submodel, few(records))).collect()
        };
        assert_eq!(kept(of(0, &all)), of(0, &some));
        assert_ne!(of(0, &all), of(1, &all));
        assert!(of(0, &[]).is_empty());
    }

    #[test]
    fn a_model_that_dropout_splits_draws_elsewhere() {
        let text = "[privacy]\ndelta = 1e-5\nnoise_multiplier = 1.0\n[sampling]\nbatch = 5\nrecords = 10\nsteps = 3\n\
                    [partition]\ndropout = 0.5\n";
        let plan = Plan::check(&PlanSpec::from_toml(text).unwrap()).unwrap();
        assert_eq!(SubmodelLaw::of(&plan), None);
    }
}
