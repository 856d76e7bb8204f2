//! The records of a step on their way from the loader to the executor.

use dapple_data::{DataError, Labels, Loader, Microbatch, StepKey};
use dapple_engine::{Batch, DropoutSource, Targets, UnitMasks};
use dapple_graph::DropoutUnits;
use dapple_private::{Microbatches, StepError, draw_unit_masks};

// The loader and the engine must mean the same by an ignored label.
const _: () = assert!(dapple_data::IGNORED == dapple_graph::IGNORED);

/// The next microbatch of a loader that has not come to its end.
pub(super) fn next(loader: &mut Loader) -> Result<Microbatch, DataError> {
    let ended = || DataError::Threads { problem: "the loader ended before its last step".to_owned() };
    loader.next().ok_or_else(ended)?
}

/// What dropout draws in a step.
pub(super) struct DropoutDraws<'l> {
    /// The seed of layers on whose draws no guarantee rests.
    pub(super) seed: u64,
    /// The secret key of the step's masks, and the units that they are for, where dropout splits the model.
    pub(super) masks: Option<(StepKey, &'l DropoutUnits)>,
}

/// The records of a step as the loader delivers them: some records, or those of one user, at a time.
pub(super) struct DrawnBatch<'l> {
    loader: &'l mut Loader,
    /// The microbatch that is shown next, or was shown last.
    microbatch: Option<Microbatch>,
    shown: bool,
    dropout: DropoutDraws<'l>,
    /// The first record of each sample, by which dropout knows it.
    first_records: Vec<usize>,
    /// Which units each sample keeps; empty unless dropout splits the model.
    kept: Vec<bool>,
}

impl<'l> DrawnBatch<'l> {
    /// The step that begins with this microbatch of the loader.
    pub(super) fn new(loader: &'l mut Loader, first: Microbatch, dropout: DropoutDraws<'l>) -> Self {
        let (first_records, kept) = (Vec::new(), Vec::new());
        Self { loader, microbatch: Some(first), shown: false, dropout, first_records, kept }
    }
}

impl Microbatches for DrawnBatch<'_> {
    fn next(&mut self) -> Result<Option<Batch<'_>>, StepError> {
        if self.shown {
            let last = self.microbatch.take().is_none_or(|microbatch| {
                let last = microbatch.is_last();
                self.loader.recycle(microbatch);
                last
            });
            if last {
                return Ok(None);
            }
            self.microbatch = Some(next(self.loader)?);
        }
        self.shown = true;
        let Some(microbatch) = &self.microbatch else { return Ok(None) };
        self.first_records.clear();
        self.first_records.extend(microbatch.records.iter().step_by(microbatch.together));
        let DropoutDraws { seed, masks } = &self.dropout;
        if let Some((key, units)) = masks {
            self.kept = match microbatch.user {
                // A user has one mask for all its records.
                Some(user) => draw_unit_masks(key, &[user], units).repeat(self.first_records.len()),
                None => draw_unit_masks(key, &self.first_records, units),
            };
        }
        Ok(Some(Batch {
            inputs: &microbatch.inputs,
            targets: match &microbatch.labels {
                Labels::Classes(classes) => Targets::Classes(classes),
                Labels::Probabilities(probabilities) => Targets::Probabilities(probabilities),
            },
            views: microbatch.views,
            submodel: microbatch.submodel,
            dropout: Some(DropoutSource { seed: *seed, records: &self.first_records }),
            masks: masks.as_ref().map(|(_, units)| UnitMasks { units, kept: &self.kept }),
        }))
    }
}
