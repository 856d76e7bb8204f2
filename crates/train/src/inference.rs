//! A model that answers about views of any size.

use dapple_graph::Parameters;
use dapple_plan::TrainingPlan;
use dapple_private::Executor;

use crate::device::Machine;
use crate::error::TrainError;
use crate::model::Blueprint;

/// How many executors are kept, one for each size. Photographs come in few sizes, and a folder with many must not fill the memory.
const KEPT: usize = 4;

/// Runs a model forward, with one executor for each shape of views.
pub(crate) struct Inference {
    blueprint: Blueprint,
    classes: usize,
    machine: Machine,
    /// Executors by the shape of their views. The one used last comes last.
    executors: Vec<(Vec<usize>, Box<dyn Executor>)>,
}

impl Inference {
    /// A model on the machine of its plan. Of several cards it uses one.
    pub(crate) fn new(plan: &TrainingPlan, blueprint: &Blueprint, classes: usize) -> Self {
        let machine = Machine::for_inference(plan);
        Self { blueprint: blueprint.clone(), classes, machine, executors: Vec::new() }
    }

    pub(crate) fn classes(&self) -> usize {
        self.classes
    }

    /// Outputs of all views, one after the other.
    ///
    /// # Errors
    /// Views that are too small for the model, or of a size for which the model has other parameters.
    pub(crate) fn forward(
        &mut self,
        shape: &[usize],
        parameters: &Parameters,
        inputs: &[f32],
    ) -> Result<Vec<f32>, TrainError> {
        let known = self.executors.iter().position(|(known, _)| known == shape);
        let (shape, mut executor) = match known {
            Some(index) => self.executors.remove(index),
            None => {
                let graph = self.blueprint.build(shape, self.classes, 0.0)?;
                // Why no GPU is used was told when the run began.
                (shape.to_vec(), self.machine.executor(&graph, &mut Vec::new())?)
            }
        };
        let outputs = executor.load(parameters)?.forward(inputs);
        if self.executors.len() == KEPT {
            self.executors.remove(0);
        }
        self.executors.push((shape, executor));
        Ok(outputs?)
    }
}
