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
use dapple_private::{Executor, Processor};

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
        // What follows the trunk is no sequence of blocks, so that it has no submodels.
        if prepared.split.is_some() {
            return None;
        }
        let records = prepared.data.train.len();
        let draws = (part.steps().saturating_sub(from)).saturating_mul(part.batch());
        let fixed = prepared.views[0].is_fixed() && prepared.data.train.target_kind() == TargetKind::Class;
        if !fixed || draws < LEAST_EPOCHS.saturating_mul(records as u64) {
            return None;
        }
        let halves = prepared.graphs[0].halves()?;
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
        folder: &Folder,
        start: &Start,
        told: FeatureProgress<'_>,
    ) -> Result<Option<Self>, TrainError> {
        let Halves { trunk, rest } = halves;
        let records = &prepared.data.train;
        let length = trunk.node(trunk.output()).len();
        let sizes = format!("{} {length} {}", trunk.node(trunk.output()).name, records.len());
        let parts = ["dapple features 1", &start.spec, &start.data, &start.weights, &sizes];
        let key = digest::of(&[parts.join("\n").as_bytes()]);
        let path = folder.features();
        let values = match store::read(&path, &key, records.len() * length) {
            Some(values) => values,
            None => match compute(&trunk, prepared, told)? {
                Some(values) => {
                    store::write(&path, &key, &values)?;
                    values
                }
                None => return Ok(None),
            },
        };
        let views = Views::of_vectors(length)?;
        let records = Arc::new(FeatureRecords::new(Arc::clone(records), values, length));
        Ok(Some(Self { records, views, rest }))
    }
}

/// The trunk's outputs for all records of a run, in order.
fn compute(
    trunk: &Graph,
    prepared: &Prepared,
    told: FeatureProgress<'_>,
) -> Result<Option<Vec<f32>>, TrainError> {
    let threads = prepared.training.performance.threads;
    let records = Arc::clone(&prepared.data.train);
    outputs(trunk, &prepared.parameters, records, &prepared.views[0], threads, told)
}

/// What a model says about each record as it is shown in evaluation, in order. `None` if the computation was asked to stop.
///
/// # Errors
/// A record that cannot be read, a model that cannot be run.
pub(crate) fn outputs(
    graph: &Graph,
    parameters: &Parameters,
    records: Arc<dyn Dataset>,
    views: &Views,
    threads: usize,
    told: FeatureProgress<'_>,
) -> Result<Option<Vec<f32>>, TrainError> {
    let options = LoaderOptions { threads, ..LoaderOptions::default() };
    let mut values = Vec::with_capacity(records.len() * graph.node(graph.output()).len());
    let mut loader = Loader::evaluate(records, views.clone(), 1, options)?;
    let mut processor = Processor::new(graph, threads)?;
    let mut loaded = processor.load(parameters)?;
    let mut done = 0;
    while let Some(microbatch) = loader.next().transpose()? {
        values.extend_from_slice(&loaded.forward(&microbatch.inputs)?);
        done += microbatch.records.len();
        loader.recycle(microbatch);
        if told(done).is_break() {
            return Ok(None);
        }
    }
    Ok(Some(values))
}
