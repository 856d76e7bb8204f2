//! Features: what a frozen trunk makes of every record, computed once.
//!
//! If nothing before some layer trains and a record is always shown in the same way, that layer sees the same values in every step. These
//! are computed once and kept beside the other private files of a run, and the rest of the model trains on them. Where records have a private and a
//! public part, each part has features of its own, and nothing of one is in those of the other.

mod parts;
mod records;
mod shelf;
mod store;

use std::ops::ControlFlow;
use std::sync::Arc;

use dapple_data::{Dataset, FixedParts, Loader, LoaderOptions, RecordPart, TargetKind, Views};
use dapple_graph::{Graph, Halves, Parameters};
use dapple_plan::TrainingPlan;
use dapple_private::{Executor, Processor};

use crate::device::Machine;
use crate::digest;
use crate::error::TrainError;
use crate::folder::Folder;
use crate::ledger::Start;
use crate::masked::MaskedPasses;
use crate::prepare::Prepared;
use records::FeatureRecords;

pub use shelf::FeatureShelf;

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

/// The records of a run, or one part of each, as the trainable part of the model sees them.
pub(crate) struct FrozenFeatures {
    pub(crate) records: Arc<dyn Dataset>,
    /// Views that show the features as they are.
    pub(crate) views: Views,
}

impl FrozenFeatures {
    /// The halves of a run's model, if the first half makes the same of its records in every step and computing this once is worth it.
    /// Only the plan and the sizes of data and model decide, which are public.
    pub(crate) fn halves(prepared: &Prepared, from: u64) -> Option<Halves> {
        let [part] = prepared.parts() else { return None };
        // What one rank makes of all records would have to reach the others.
        if prepared.ranks.is_some() {
            return None;
        }
        let (records, units) = (prepared.data.train.len(), prepared.data.train.units());
        let draws = (part.steps().saturating_sub(from)).saturating_mul(part.batch());
        let fixed = prepared.views[0].is_fixed() && prepared.data.train.target_kind() == TargetKind::Class;
        if !fixed || draws < LEAST_EPOCHS.saturating_mul(units as u64) {
            return None;
        }
        let subsets = prepared.masked.as_ref().and_then(MaskedPasses::graphs);
        let graph = subsets.map_or(&prepared.graphs[0], |graphs| &graphs[0]);
        let sets = 1 + usize::from(prepared.masked.is_some());
        let halves = prepared.split.as_ref().map_or_else(|| graph.halves(), |split| split.halves(graph))?;
        let length = halves.trunk.node(halves.trunk.output()).len();
        let fits = (sets * records).checked_mul(length).is_some_and(|values| values <= MOST_VALUES);
        // Features that are larger than their images come from an early layer, which is quickly computed again.
        (fits && length <= prepared.views[0].view_length()).then_some(halves)
    }

    /// The features in a run's folder if they are those of its records (or of this part of each) and weights, or else new ones, which are kept there.
    /// `None` if the computation was asked to stop. On the processor another run may have put them on the shelf.
    ///
    /// # Guarantee
    /// Features of a part depend on nothing of the other part ([`Views::of_part`]). Those of a record of which nothing is to be seen are zeros.
    ///
    /// # Errors
    /// A record that cannot be read, a disk that is full.
    pub(crate) fn open(
        (trunk, part): (&Graph, Option<RecordPart>),
        prepared: &Prepared,
        (folder, start): (&Folder, &Start),
        (shelf, on_card): (&FeatureShelf, bool),
        told: FeatureProgress<'_>,
    ) -> Result<Option<Self>, TrainError> {
        let records = &prepared.data.train;
        let length = trunk.node(trunk.output()).len();
        let sizes = format!("{} {length} {}", trunk.node(trunk.output()).name, records.len());
        let mut parts = vec!["dapple features 1", &start.spec, &start.data, &start.weights, &sizes];
        // What cards make is told from what the processor makes, and one precision from another.
        let mark = format!("cards {}", prepared.training.performance.precision.name());
        parts.extend(on_card.then_some(mark.as_str()));
        parts.extend(part.map(|part| match part {
            RecordPart::Private => "private parts",
            RecordPart::Public => "public parts",
        }));
        let key = digest::of(&[parts.join("\n").as_bytes()]);
        let path = folder.features(part);
        let views = match part {
            Some(part) => part_views(prepared, part)?,
            None => prepared.views[0].clone(),
        };
        // Behind the features of a part stands whether there is anything of it to be seen.
        let row = length + usize::from(part.is_some());
        let values = match store::read(&path, &key, records.len() * row) {
            Some(values) => Arc::new(values),
            None => {
                let parameters = &prepared.parameters;
                let mut make = || {
                    let mut machine = FeatureMachine::of(trunk, &prepared.training, on_card)?;
                    match FixedParts::new(Arc::clone(records), views.clone()) {
                        Some(parts) => parts::outputs(&mut machine, parameters, &parts, length, told),
                        None => outputs(&mut machine, parameters, records, &views, told),
                    }
                };
                let values = match on_card {
                    true => make()?.map(Arc::new),
                    false => shelf.take(shelf::key(trunk, parameters, &**records, &views)?, make)?,
                };
                let Some(values) = values else { return Ok(None) };
                store::write(&path, &key, &values)?;
                values
            }
        };
        let views = Views::of_vectors(length)?;
        let records = Arc::new(FeatureRecords::new(Arc::clone(records), values, length, part.is_some()));
        Ok(Some(Self { records, views }))
    }

    /// What the trunk makes of the records that a run is evaluated on, on the processor; `None` if these are too many, or not always shown in the
    /// same way.
    ///
    /// # Errors
    /// A record that cannot be read.
    pub(crate) fn of_tests(
        trunk: &Graph,
        prepared: &Prepared,
        tests: &Arc<dyn Dataset>,
        shelf: &FeatureShelf,
    ) -> Result<Option<Self>, TrainError> {
        let (length, views) = (trunk.node(trunk.output()).len(), &prepared.views[0]);
        let fits = tests.len().checked_mul(length).is_some_and(|values| values <= MOST_VALUES);
        if !fits || !views.is_fixed() || tests.target_kind() != TargetKind::Class {
            return Ok(None);
        }
        let parameters = &prepared.parameters;
        let make = || {
            let mut machine = FeatureMachine::of(trunk, &prepared.training, false)?;
            outputs(&mut machine, parameters, tests, views, &mut |_| ControlFlow::Continue(()))
        };
        let values = shelf.take(shelf::key(trunk, parameters, &**tests, views)?, make)?;
        let Some(values) = values else { return Ok(None) };
        let records = Arc::new(FeatureRecords::new(Arc::clone(tests), values, length, false));
        Ok(Some(Self { records, views: Views::of_vectors(length)? }))
    }
}

/// How a part of every record is shown.
fn part_views(prepared: &Prepared, part: RecordPart) -> Result<Views, TrainError> {
    let passes = prepared.masked.as_ref().expect("a part is asked for where records have parts");
    let mut views = passes.views(&prepared.views[..1], part)?;
    Ok(views.pop().expect("one phase has one kind of views"))
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
