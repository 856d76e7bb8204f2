//! The records of one user, and the part of them that a local step sees.

use dapple_engine::{Batch, DropoutSource, Targets, UnitMasks};
use dapple_graph::DropoutUnits;

/// A copy of what is shown of a user's records, so that users can be trained side by side.
#[derive(Debug, Default)]
pub(super) struct UserBatch {
    /// `[records, views, input..]`.
    inputs: Vec<f32>,
    targets: UserTargets,
    views: usize,
    submodel: Option<usize>,
    /// The seed of dropout in the user's first step, if there is any.
    seed: Option<u64>,
    /// The records, by which dropout knows them.
    records: Vec<usize>,
    /// The units that dropout splits the model by, and the mask of each record.
    masks: Option<(DropoutUnits, Vec<bool>)>,
}

/// What the model is to say about each view.
#[derive(Debug)]
enum UserTargets {
    Classes(Vec<u32>),
    Probabilities(Vec<f32>),
    Values(Vec<f32>),
}

impl Default for UserTargets {
    fn default() -> Self {
        Self::Classes(Vec::new())
    }
}

/// Makes the batches of local steps, and holds what they are made of.
#[derive(Debug, Default)]
pub(super) struct LocalBatch {
    part: UserBatch,
}

impl UserBatch {
    /// Takes over what is shown of a user.
    pub(super) fn copy(&mut self, shown: &Batch<'_>) {
        let Batch { inputs, targets, views, dropout, submodel, masks } = *shown;
        self.inputs.clear();
        self.inputs.extend_from_slice(inputs);
        self.targets = match targets {
            Targets::Classes(classes) => UserTargets::Classes(classes.to_vec()),
            Targets::Probabilities(values) => UserTargets::Probabilities(values.to_vec()),
            Targets::Values(values) => UserTargets::Values(values.to_vec()),
        };
        (self.views, self.submodel) = (views, submodel);
        self.seed = dropout.map(|source| source.seed);
        self.records = dropout.map_or_else(Vec::new, |source| source.records.to_vec());
        self.masks = masks.map(|UnitMasks { units, kept }| (units.clone(), kept.to_vec()));
    }

    /// How many records there are, of inputs of this size.
    pub(super) fn len(&self, input: usize) -> usize {
        self.inputs.len() / (input * self.views).max(1)
    }

    /// The whole batch, in the user's step of this number.
    fn view(&self, step: u64) -> Batch<'_> {
        // A step of its own drops other activations. No guarantee rests on this seed.
        let seed = |seed: u64| seed.wrapping_add(step.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Batch {
            inputs: &self.inputs,
            targets: match &self.targets {
                UserTargets::Classes(classes) => Targets::Classes(classes),
                UserTargets::Probabilities(values) => Targets::Probabilities(values),
                UserTargets::Values(values) => Targets::Values(values),
            },
            views: self.views,
            dropout: self.seed.map(|own| DropoutSource { seed: seed(own), records: &self.records }),
            submodel: self.submodel,
            masks: self.masks.as_ref().map(|(units, kept)| UnitMasks { units, kept }),
        }
    }
}

impl LocalBatch {
    /// What a user's step sees: all records, or the next `batch` of them in turn, beginning anew behind the last one.
    pub(super) fn of<'b>(
        &'b mut self,
        user: &'b UserBatch,
        step: u64,
        batch: usize,
        records: usize,
    ) -> Batch<'b> {
        if batch >= records {
            return user.view(step);
        }
        let first = (step % records as u64) as usize * (batch % records) % records;
        let places = (0..batch).map(|place| (first + place) % records);
        let Self { part } = self;
        gather(&user.inputs, places.clone(), records, &mut part.inputs);
        part.targets = match &user.targets {
            UserTargets::Classes(classes) => UserTargets::Classes(gathered(classes, places.clone(), records)),
            UserTargets::Probabilities(values) => {
                UserTargets::Probabilities(gathered(values, places.clone(), records))
            }
            UserTargets::Values(values) => UserTargets::Values(gathered(values, places.clone(), records)),
        };
        (part.views, part.submodel, part.seed) = (user.views, user.submodel, user.seed);
        part.records = if user.records.is_empty() {
            Vec::new()
        } else {
            gathered(&user.records, places.clone(), records)
        };
        let masks = user.masks.as_ref();
        part.masks = masks.map(|(units, kept)| (units.clone(), gathered(kept, places, records)));
        part.view(step)
    }
}

/// The values of some of the records, one after the other.
fn gathered<T: Copy>(values: &[T], places: impl Iterator<Item = usize>, records: usize) -> Vec<T> {
    let mut to = Vec::new();
    gather(values, places, records, &mut to);
    to
}

fn gather<T: Copy>(values: &[T], places: impl Iterator<Item = usize>, records: usize, to: &mut Vec<T>) {
    let each = values.len() / records;
    to.clear();
    places.for_each(|place| to.extend_from_slice(&values[place * each..][..each]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_go_through_the_records_in_turn() {
        let inputs: Vec<f32> = (0..10).map(|value| value as f32).collect();
        let classes = [0, 1, 2, 3, 4];
        let records = [50, 51, 52, 53, 54];
        let mut user = UserBatch::default();
        let dropout = Some(DropoutSource { seed: 9, records: &records });
        user.copy(&Batch { dropout, submodel: Some(2), ..Batch::new(&inputs, Targets::Classes(&classes)) });
        assert_eq!(user.len(2), 5);
        let mut local = LocalBatch::default();
        let mut seen = Vec::new();
        for step in 0..5 {
            let batch = local.of(&user, step, 2, 5);
            let Targets::Classes(classes) = batch.targets else { panic!("classes") };
            let dropout = batch.dropout.unwrap();
            assert_eq!((batch.submodel, dropout.seed == 9), (Some(2), step == 0));
            assert_eq!(batch.inputs[0], 2.0 * classes[0] as f32);
            assert_eq!(dropout.records[1], 50 + classes[1] as usize);
            seen.extend_from_slice(classes);
        }
        assert_eq!(seen, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
        // All records are shown as they are, in every step.
        assert_eq!(local.of(&user, 3, 7, 5).inputs, inputs);
    }
}
