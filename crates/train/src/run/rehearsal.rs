//! A plan's steps on records and a model of the caller's, in memory: for experiments on the training itself.

use std::sync::Arc;

use dapple_data::{Dataset, Loader, Opened, Sampler, open};
use dapple_geometry::Mask;
use dapple_graph::{Graph, GraphError, Parameters};
use dapple_plan::spec::{DataSpec, ModelSpec, OptimiserSpec, PlanSpec, TrainSpec};
use dapple_plan::{Certificate, Plan, TrainingPlan};

use super::keys::Keys;
use super::loader_options;
use crate::error::TrainError;
use crate::prepare::{Prepared, Request, checked, read_from, solve, views};
use crate::step::{StepKeys, Trainer};

/// A request in which nothing is open any more, and what it costs.
#[derive(Debug, Clone)]
pub struct Completed {
    /// The plan as a file would say it: records counted, noise or steps solved for.
    pub spec: PlanSpec,
    /// The decoded picture that `region.mask` names.
    pub masks: Vec<Mask>,
    /// The plan.
    pub plan: Plan,
    /// Its price.
    pub certificate: Certificate,
}

/// Fills in what a request leaves open, as a run would. Only a request that names data has its data opened, to count and measure it.
///
/// # Errors
/// A plan that cannot be trained privately.
pub fn complete(request: &Request) -> Result<Completed, TrainError> {
    let Request { mut spec, base, masks } = request.clone().in_full();
    if spec.data.format.is_some() {
        let records = open(&spec, &base)?.train;
        read_from(&mut spec, &*records);
    }
    solve(&mut spec, &masks)?;
    let (plan, certificate) = checked(&spec, &masks)?;
    let certificate = certificate.ok_or_else(|| {
        TrainError::setting("train.private", "a run without privacy promises nothing", "leave it out")
    })?;
    Ok(Completed { spec, masks, plan, certificate })
}

/// The steps of a plan as [`start`](super::start) takes them (sampler, views, clipped sum, noise, gradient descent), without a folder, a
/// ledger or an evaluation. Nobody's records belong here: what is released is not counted.
pub struct Rehearsal {
    trainer: Trainer,
    loader: Loader,
    keys: StepKeys,
    step: u64,
    steps: u64,
}

impl Rehearsal {
    /// Before the first step. `model` makes a model, and its first weights, for views of a shape; plain gradient descent changes it at
    /// this learning rate. Views are mirrored and resized as the plan says, and not normalised.
    ///
    /// # Errors
    /// Records or a model that do not fit the plan, a device that cannot be used.
    pub fn new(
        completed: &Completed,
        records: Arc<dyn Dataset>,
        learning_rate: f64,
        model: impl Fn(&[usize]) -> Result<(Graph, Parameters), GraphError>,
    ) -> Result<Self, TrainError> {
        let Completed { spec, masks, plan, certificate } = completed.clone();
        let data = DataSpec { size: spec.data.size, flip: spec.data.flip, ..DataSpec::default() };
        let optimiser = OptimiserSpec { learning_rate: Some(learning_rate), ..OptimiserSpec::default() };
        let train =
            TrainSpec { clipping: spec.train.clipping, seed: spec.train.seed, ..TrainSpec::default() };
        let views = views(plan.parts(), &data, &*records)?;
        let (_, parameters) = model(&views[0].shape())?;
        let graphs = views
            .iter()
            .map(|views| model(&views.shape()).map(|(graph, _)| graph))
            .collect::<Result<Vec<_>, _>>()?;
        // The model is the caller's; its name stands in messages.
        let own = ModelSpec { name: Some("the model of a rehearsal".to_owned()), ..ModelSpec::default() };
        let spec = PlanSpec { data, model: own, optimiser, train, ..spec };
        let prepared = Prepared {
            training: TrainingPlan::new(plan, &spec)?,
            spec,
            masks,
            planned: Some(certificate),
            data: Opened { train: records, test: None },
            views,
            graphs,
            parameters,
        };
        let trainer = Trainer::new(&prepared, &mut Vec::new())?;
        let keys = Keys::fresh(&prepared)?;
        let steps = prepared.plan().steps();
        let loader = Loader::train(
            Arc::clone(&prepared.data.train),
            Sampler::new(prepared.plan(), prepared.data.train.len(), keys.sampling)?,
            prepared.views.clone(),
            keys.views,
            0..steps,
            loader_options(&prepared, trainer.cards()),
        )?;
        Ok(Self { trainer, loader, keys: keys.step, step: 0, steps })
    }

    /// Takes the next step and gives the weights behind it; `None` once all are taken.
    ///
    /// # Errors
    /// A step that fails.
    pub fn step(&mut self) -> Result<Option<&Parameters>, TrainError> {
        if self.step == self.steps {
            return Ok(None);
        }
        self.trainer
            .step(&mut self.loader, &self.keys, self.step)
            .map_err(|source| TrainError::Step { step: self.step + 1, source: Box::new(source) })?;
        self.step += 1;
        self.trainer.weights().map(Some)
    }

    /// The machine in words.
    #[must_use]
    pub fn machine(&self) -> &str {
        self.trainer.machine()
    }
}
