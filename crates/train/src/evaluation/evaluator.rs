//! Evaluates a run as its plan says.

use std::sync::Arc;

use dapple_data::{Dataset, Views};
use dapple_graph::Parameters;
use dapple_plan::{EvaluationPlan, Look, MapEvaluation};

use super::{Evaluation, Segmenter, classify};
use crate::device::Machine;
use crate::error::TrainError;
use crate::inference::Inference;
use crate::prepare::Prepared;
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
            EvaluationPlan::Crops { grid } => {
                let (executor, parameters) = trainer.evaluator()?;
                let (views, threads) = seen(prepared);
                classify(executor, parameters, dataset, views, grid, threads)
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
                let mut executor = machine.executor(graph, &mut Vec::new())?;
                let (views, threads) = seen(prepared);
                classify(&mut *executor, parameters, dataset, views, grid, threads)
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
        Segmenter { inference: &mut self.inference, parameters, views, method }.evaluate(dataset, threads)
    }
}

/// The views of the plan's last phase, and the number of threads.
fn seen(prepared: &Prepared) -> (&Views, usize) {
    let threads = prepared.training.performance.threads;
    (&prepared.views[prepared.views.len() - 1], threads)
}
