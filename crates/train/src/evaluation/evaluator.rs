//! Evaluates a run as its plan says.

use std::sync::Arc;

use dapple_data::{Dataset, Views};
use dapple_graph::Parameters;
use dapple_plan::{EvaluationPlan, Look, MapEvaluation};

use super::{Evaluation, Segmenter, ShownImages, classify, classify_together};
use crate::device::Machine;
use crate::error::TrainError;
use crate::inference::Inference;
use crate::prepare::Prepared;
use crate::split::{BlockSplit, TrainedSplit};
use crate::step::Trainer;

/// Evaluates the model of a run as often as the run asks.
pub(crate) struct Evaluator {
    plan: EvaluationPlan,
    inference: Inference,
}

impl Evaluator {
    pub(crate) fn new(prepared: &Prepared, look: Look) -> Result<Self, TrainError> {
        let training = &prepared.training;
        let inference = Inference::new(training, &prepared.blueprint, prepared.data.train.classes() as usize);
        Ok(Self { plan: training.evaluation.with(look)?, inference })
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
            EvaluationPlan::Crops { grid } => {
                let (executor, parameters) = trainer.evaluator()?;
                classify(executor, parameters, images(prepared, dataset, grid))
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
            EvaluationPlan::Crops { grid } => {
                let graph = &prepared.graphs[prepared.graphs.len() - 1];
                let mut machine = Machine::for_inference(&prepared.training);
                let images = images(prepared, dataset, grid);
                if let Some(split) = ensemble(prepared) {
                    let submodels = split.submodels(graph)?;
                    let models = submodels.iter().map(|model| machine.executor(model, &[], &mut Vec::new()));
                    return classify_together(models, parameters, images);
                }
                let mut executor = machine.executor(graph, &[], &mut Vec::new())?;
                classify(&mut *executor, parameters, images)
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
