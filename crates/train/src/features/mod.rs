//! Features: what a frozen trunk makes of every record, computed once.
//!
//! If nothing before some layer trains and a record is always shown in the same way, that layer sees the same values in every step. These
//! are computed once and kept beside the other private files of a run, and the rest of the model trains on them.

mod records;
mod store;

use std::ops::ControlFlow;
use std::sync::Arc;

use dapple_data::{Dataset, Loader, LoaderOptions, TargetKind, Views};
use dapple_graph::{Graph, Halves, Parameters};
use dapple_plan::TrainingPlan;
use dapple_private::{Executor, Processor};

use crate::device::Machine;
use crate::digest;
use crate::error::TrainError;
use crate::folder::Folder;
use crate::ledger::Start;
use crate::prepare::Prepared;
use records::FeatureRecords;

/// The most values that are kept in memory: a gigabyte of them.
const MOST_VALUES: usize = 1 << 28;
/// Features are worth computing if every record is expected to be drawn this often.
const LEAST_EPOCHS: u64 = 2;

/// How many records are shown to a card at once, and how many values these have at the most unless it is a single record.
const TOGETHER: usize = 64;
const TOGETHER_VALUES: usize = 1 << 26;

/// What computes features.
pub(crate) struct FeatureMachine {
    executor: Box<dyn Executor>,
    /// The threads that read records.
    threads: usize,
    /// Whether it must be shown equally many records every time, because what it makes of a record may depend on their number.
    fills: bool,
}

impl FeatureMachine {
    /// The processor.
    pub(crate) fn processor(graph: &Graph, threads: usize) -> Result<Self, TrainError> {
        let executor = Box::new(Processor::new(graph, threads)?);
        Ok(Self { executor, threads, fills: false })
    }

    /// What computes the features of a plan's records: the processor, or one card, which computes the same bits every time.
    fn of(graph: &Graph, plan: &TrainingPlan, on_card: bool) -> Result<Self, TrainError> {
        let threads = plan.performance.threads;
        if !on_card {
            return Self::processor(graph, threads);
        }
        let executor = Machine::for_features(plan).executor(graph, &[], &mut Vec::new())?;
        Ok(Self { executor, threads, fills: true })
    }
}

/// Is told how many records are done, and says whether to go on.
type FeatureProgress<'t> = &'t mut dyn FnMut(usize) -> ControlFlow<()>;

/// The records of a run as its trainable part sees them.
pub(crate) struct FrozenFeatures {
    pub(crate) records: Arc<dyn Dataset>,
    /// Views that show the features as they are.
    pub(crate) views: Views,
    /// The part of the model that follows the features.
    pub(crate) rest: Graph,
}

impl FrozenFeatures {
    /// The halves of a run's model, if the first half makes the same of its records in every step and computing this once is worth it.
    /// Only the plan and the sizes of data and model decide, which are public.
    pub(crate) fn halves(prepared: &Prepared, from: u64) -> Option<Halves> {
        let [part] = prepared.parts() else { return None };
        // A trunk makes no part of an image. What one rank makes of all records would have to reach the others.
        if prepared.masked.is_some() || prepared.ranks.is_some() {
            return None;
        }
        let records = prepared.data.train.len();
        let draws = (part.steps().saturating_sub(from)).saturating_mul(part.batch());
        let fixed = prepared.views[0].is_fixed() && prepared.data.train.target_kind() == TargetKind::Class;
        if !fixed || draws < LEAST_EPOCHS.saturating_mul(records as u64) {
            return None;
        }
        let graph = &prepared.graphs[0];
        let halves = prepared.split.as_ref().map_or_else(|| graph.halves(), |split| split.halves(graph))?;
        let length = halves.trunk.node(halves.trunk.output()).len();
        let fits = records.checked_mul(length).is_some_and(|values| values <= MOST_VALUES);
        // Features that are larger than their images come from an early layer, which is quickly computed again.
        (fits && length <= prepared.views[0].view_length()).then_some(halves)
    }

    /// The features in a run's folder if they are those of its records and weights, or else new ones, which are kept there. `None` if the
    /// computation was asked to stop.
    ///
    /// # Errors
    /// A record that cannot be read, a disk that is full.
    pub(crate) fn open(
        halves: Halves,
        prepared: &Prepared,
        (folder, start): (&Folder, &Start),
        on_card: bool,
        told: FeatureProgress<'_>,
    ) -> Result<Option<Self>, TrainError> {
        let Halves { trunk, rest } = halves;

        let records = &prepared.data.train;
        let length = trunk.node(trunk.output()).len();
        let sizes = format!("{} {length} {}", trunk.node(trunk.output()).name, records.len());
        let mut parts = vec!["dapple features 1", &start.spec, &start.data, &start.weights, &sizes];
        // What cards make is told from what the processor makes, and one precision from another.
        let mark = format!("cards {}", prepared.training.performance.precision.name());
        parts.extend(on_card.then_some(mark.as_str()));
        let key = digest::of(&[parts.join("\n").as_bytes()]);
        let path = folder.features();
        let values = match store::read(&path, &key, records.len() * length) {
            Some(values) => values,
            None => {
                let mut machine = FeatureMachine::of(&trunk, &prepared.training, on_card)?;
                let views = &prepared.views[0];
                let Some(values) = outputs(&mut machine, &prepared.parameters, records, views, told)? else {
                    return Ok(None);
                };
                store::write(&path, &key, &values)?;
                values
            }
        };
        let views = Views::of_vectors(length)?;
        let records = Arc::new(FeatureRecords::new(Arc::clone(records), values, length));
        Ok(Some(Self { records, views, rest }))
    }
}

/// What a model says about each record as it is shown in evaluation, in order. `None` if the computation was asked to stop.
///
/// # Errors
/// A record that cannot be read, a model that cannot be run.
pub(crate) fn outputs(
    machine: &mut FeatureMachine,
    parameters: &Parameters,
    records: &Arc<dyn Dataset>,
    views: &Views,
    told: FeatureProgress<'_>,
) -> Result<Option<Vec<f32>>, TrainError> {
    let FeatureMachine { executor, threads, fills, .. } = machine;
    let length = views.view_length();
    let together = (TOGETHER_VALUES / length.max(1)).clamp(1, TOGETHER);
    let options = LoaderOptions {
        threads: *threads,
        microbatch: if *fills { together } else { 0 },
        ..Default::default()
    };
    let mut values = Vec::new();
    let mut loader = Loader::evaluate(Arc::clone(records), views.clone(), 1, options)?;
    let mut loaded = executor.load(parameters)?;
    let mut done = 0;
    while let Some(mut microbatch) = loader.next().transpose()? {
        let count = microbatch.records.len();
        if *fills {
            microbatch.inputs.resize(together * length, 0.0);
        }
        let shown = microbatch.inputs.len() / length.max(1);
        let outputs = loaded.forward(&microbatch.inputs)?;
        values.extend_from_slice(&outputs[..outputs.len() / shown.max(1) * count]);
        done += count;
        loader.recycle(microbatch);
        if told(done).is_break() {
            return Ok(None);
        }
    }
    Ok(Some(values))
}
