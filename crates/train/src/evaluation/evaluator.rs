//! Evaluates a run as its plan says.

use std::sync::Arc;

use dapple_data::{Dataset, Views};
use dapple_graph::{Graph, Parameters};
use dapple_plan::{EvaluationPlan, Look, MapEvaluation};

use super::{Evaluation, Segmenter, ShownImages, classify, classify_together};
use crate::device::Machine;
use crate::error::TrainError;
use crate::features::{FeatureShelf, FrozenFeatures};
use crate::inference::Inference;
use crate::prepare::Prepared;
use crate::split::{BlockSplit, TrainedSplit};
use crate::step::Trainer;

/// Evaluates the model of a run as often as the run asks.
pub(crate) struct Evaluator {
    plan: EvaluationPlan,
    inference: Inference,
    /// What the model is while only its last part trains.
    trunk: Option<FrozenTrunk>,
}

/// The frozen part of a model, which makes the same of the records to evaluate on every time.
struct FrozenTrunk {
    graph: Graph,
    shelf: FeatureShelf,
    /// What it makes of them, once it was asked, and `None` if it is not to be asked.
    features: Option<Option<FrozenFeatures>>,
}

impl Evaluator {
    pub(crate) fn new(prepared: &Prepared, look: Look) -> Result<Self, TrainError> {
        let training = &prepared.training;
        let inference = Inference::new(training, &prepared.blueprint, prepared.data.train.classes() as usize);
        Ok(Self { plan: training.evaluation.with(look)?, inference, trunk: None })
    }

    /// Evaluates from here on what the executor that trains makes of the features of a frozen trunk.
    pub(crate) fn keep_trunk(&mut self, graph: Graph, shelf: FeatureShelf) {
        self.trunk = Some(FrozenTrunk { graph, shelf, features: None });
    }

    /// Evaluates the model of a run in progress, with the executor that trains it where that will do.
    pub(crate) fn evaluate(
        &mut self,
        prepared: &Prepared,
        trainer: &mut Trainer,
        dataset: &Arc<dyn Dataset>,
    ) -> Result<Evaluation, TrainError> {
        match self.plan {
            EvaluationPlan::Crops { .. } if ensemble(prepared).is_some() => {
                self.evaluate_weights(prepared, trainer.weights()?, dataset)
            }
            EvaluationPlan::Crops { grid, measure } => {
                if let Some(trunk) = &mut self.trunk
                    && let Some(FrozenFeatures { records, views }) = trunk.features(prepared, dataset)?
                {
                    let (executor, parameters) = trainer.behind_trunk()?;
                    let (_, threads) = seen(prepared);
                    let images = ShownImages {
                        dataset: records,
                        views,
                        grid: 1,
                        threads,
                        ranks: prepared.ranks.as_deref(),
                    };
                    return Ok(classify(executor, parameters, images)?.judged_by(measure));
                }
                let (executor, parameters) = trainer.evaluator()?;
                let evaluation = classify(executor, parameters, images(prepared, dataset, grid))?;
                Ok(evaluation.judged_by(measure))
            }
            EvaluationPlan::Maps(method) => self.segment(prepared, trainer.weights()?, dataset, method),
        }
    }

    /// Evaluates given weights of the model. Of several cards it uses one.
    pub(crate) fn evaluate_weights(
        &mut self,
        prepared: &Prepared,
        parameters: &Parameters,
        dataset: &Arc<dyn Dataset>,
    ) -> Result<Evaluation, TrainError> {
        match self.plan {
            EvaluationPlan::Crops { grid, measure } => {
                let graph = &prepared.graphs[prepared.graphs.len() - 1];
                let mut machine = Machine::for_inference(&prepared.training);
                let images = images(prepared, dataset, grid);
                if let Some(split) = ensemble(prepared) {
                    let submodels = split.submodels(graph)?;
                    let models = submodels.iter().map(|model| machine.executor(model, &[], &mut Vec::new()));
                    return Ok(classify_together(models, parameters, images)?.judged_by(measure));
                }
                let mut executor = machine.executor(graph, &[], &mut Vec::new())?;
                Ok(classify(&mut *executor, parameters, images)?.judged_by(measure))
            }
            EvaluationPlan::Maps(method) => self.segment(prepared, parameters, dataset, method),
        }
    }

    fn segment(
        &mut self,
        prepared: &Prepared,
        parameters: &Parameters,
        dataset: &Arc<dyn Dataset>,
        method: MapEvaluation,
    ) -> Result<Evaluation, TrainError> {
        let (views, threads) = seen(prepared);
        let mut segmenter = Segmenter { inference: &mut self.inference, parameters, views, method };
        segmenter.evaluate(dataset, threads, prepared.ranks.as_deref())
    }
}

impl FrozenTrunk {
    /// The features of the records to evaluate on; `None` if they are shown to the whole model.
    fn features(
        &mut self,
        prepared: &Prepared,
        dataset: &Arc<dyn Dataset>,
    ) -> Result<Option<&FrozenFeatures>, TrainError> {
        let features = match self.features.take() {
            Some(features) => features,
            None => FrozenFeatures::of_tests(&self.graph, prepared, dataset, &self.shelf)?,
        };
        Ok(self.features.insert(features).as_ref())
    }
}

/// The split of a model whose submodels answer together.
fn ensemble(prepared: &Prepared) -> Option<&BlockSplit> {
    prepared.split.as_ref().and_then(TrainedSplit::ensemble)
}

/// The images of a data set as the plan's last phase shows them.
fn images<'s>(prepared: &'s Prepared, dataset: &'s Arc<dyn Dataset>, grid: u32) -> ShownImages<'s> {
    let (views, threads) = seen(prepared);
    ShownImages { dataset, views, grid, threads, ranks: prepared.ranks.as_deref() }
}

/// The views of the plan's last phase, and the number of threads.
fn seen(prepared: &Prepared) -> (&Views, usize) {
    let threads = prepared.training.performance.threads;
    (&prepared.views[prepared.views.len() - 1], threads)
}
