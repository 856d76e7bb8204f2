//! A model that answers about views of any size.

use dapple_graph::{Graph, Parameters};
use dapple_plan::TrainingPlan;
use dapple_private::Executor;

use crate::device::Machine;
use crate::error::TrainError;
use crate::model::Blueprint;
use crate::split::BlockSplit;

/// How many executors are kept, one for each size. Photographs come in few sizes, and a folder with many must not fill the memory.
const KEPT: usize = 4;

/// Runs a model forward, with one executor for each shape of views. If the submodels of a split model answer together, each has executors of
/// its own.
pub(crate) struct Inference {
    blueprint: Blueprint,
    classes: usize,
    machine: Machine,
    /// The split of a model whose submodels answer together.
    ensemble: Option<BlockSplit>,
    /// Executors by the shape of their views and the submodel they run. The one used last comes last.
    executors: Vec<(ExecutorKind, Box<dyn Executor>)>,
}

/// The shape of the views that an executor takes, and the submodel that it runs.
type ExecutorKind = (Vec<usize>, Option<usize>);

impl Inference {
    /// A model on the machine of its plan. Of several cards it uses one.
    pub(crate) fn new(plan: &TrainingPlan, blueprint: &Blueprint, classes: usize) -> Self {
        let machine = Machine::for_inference(plan);
        let ensemble = BlockSplit::of(plan).filter(BlockSplit::is_ensemble);
        Self { blueprint: blueprint.clone(), classes, machine, ensemble, executors: Vec::new() }
    }

    pub(crate) fn classes(&self) -> usize {
        self.classes
    }

    /// Whether submodels answer together.
    pub(crate) fn is_ensemble(&self) -> bool {
        self.ensemble.is_some()
    }

    /// The whole model for views of a shape.
    ///
    /// # Errors
    /// Views that are too small for the model.
    pub(crate) fn whole(&self, shape: &[usize]) -> Result<Graph, TrainError> {
        self.blueprint.build(shape, self.classes, 0.0)
    }

    /// Outputs of all views, one after the other; of an ensemble, those of all views by the first submodel, then by the next. The mean of
    /// all probabilities is then that over views and submodels.
    ///
    /// # Errors
    /// Views that are too small for the model, or of a size for which the model has other parameters.
    pub(crate) fn forward(
        &mut self,
        shape: &[usize],
        parameters: &Parameters,
        inputs: &[f32],
    ) -> Result<Vec<f32>, TrainError> {
        let Some(models) = self.ensemble.as_ref().map(BlockSplit::len) else {
            return self.run(shape, None, parameters, inputs);
        };
        let outputs = (0..models).map(|model| self.run(shape, Some(model), parameters, inputs));
        Ok(outputs.collect::<Result<Vec<_>, _>>()?.concat())
    }

    fn run(
        &mut self,
        shape: &[usize],
        submodel: Option<usize>,
        parameters: &Parameters,
        inputs: &[f32],
    ) -> Result<Vec<f32>, TrainError> {
        let kind = (shape.to_vec(), submodel);
        let known = self.executors.iter().position(|(known, _)| *known == kind);
        let mut executor = match known {
            Some(index) => self.executors.remove(index).1,
            // Why no GPU is used was told when the run began.
            None => self.machine.executor(&self.graph(shape, submodel)?, &[], &mut Vec::new())?,
        };
        let outputs = executor.load(parameters)?.forward(inputs);
        if self.executors.len() >= self.ensemble.as_ref().map_or(KEPT, |split| split.len().max(KEPT)) {
            self.executors.remove(0);
        }
        self.executors.push((kind, executor));
        Ok(outputs?)
    }

    /// The model for views of a shape, or one of its submodels.
    fn graph(&self, shape: &[usize], submodel: Option<usize>) -> Result<Graph, TrainError> {
        let graph = self.whole(shape)?;
        match (&self.ensemble, submodel) {
            (Some(split), Some(submodel)) => Ok(split.submodels(&graph)?.swap_remove(submodel)),
            _ => Ok(graph),
        }
    }
}
