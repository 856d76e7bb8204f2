//! What a client computes: steps of gradient descent on its own records, without noise.

use std::path::Path;

use dapple_data::rand_core::Rng;
use dapple_data::{MasterKey, Purpose};
use dapple_engine::{Batch, Clipping, ClippingRule, CpuExecutor, CpuOptions, Layout, Targets};
use dapple_graph::{Graph, Parameters};
use dapple_plan::ModelPlan;
use dapple_plan::spec::ModelSpec;

use super::error::FederatedError;
use crate::error::TrainError;
use crate::model::{Blueprint, first_weights};

/// How a client trains in a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClientSteps {
    /// Steps of gradient descent.
    pub steps: usize,
    /// Records of a step.
    pub batch: usize,
    /// The learning rate.
    pub learning_rate: f64,
}

/// A model of the zoo on a client's machine. It knows nothing of privacy: the server clips and adds the noise.
#[derive(Debug)]
pub struct LocalTrainer {
    graph: Graph,
    executor: CpuExecutor,
    parameters: Parameters,
    rule: ClippingRule,
}

impl LocalTrainer {
    /// The model of a plan's section for inputs of this shape, `[channels, height, width]`, with the first weights that the section names.
    ///
    /// # Errors
    /// A model that does not exist or does not fit.
    pub fn new(
        model: &ModelSpec,
        base: &Path,
        (shape, classes): (&[usize], usize),
        threads: usize,
    ) -> Result<Self, TrainError> {
        let plan = ModelPlan::check(model)?;
        let graph = Blueprint::read(&plan, base)?.build(shape, classes, 0.0)?;
        let parameters = first_weights(&plan, &graph, base)?.parameters;
        let executor = CpuExecutor::new(&graph, CpuOptions { threads, ..CpuOptions::default() })?;
        let rule = ClippingRule::new(&Clipping::Off, executor.layout())?;
        Ok(Self { graph, executor, parameters, rule })
    }

    /// Name and shape of each array that trains, in the order of [`LocalTrainer::values`].
    #[must_use]
    pub fn arrays(&self) -> Vec<(String, Vec<usize>)> {
        let entries = self.executor.layout().entries().iter();
        entries.map(|entry| (entry.name.clone(), self.graph.parameter(entry.id).shape.clone())).collect()
    }

    /// The values that train: the first weights, or those that were set last.
    #[must_use]
    pub fn values(&self) -> Vec<f32> {
        let entries = self.executor.layout().entries().iter();
        entries.flat_map(|entry| self.parameters.get(entry.id).iter().copied()).collect()
    }

    /// Takes these values.
    ///
    /// # Errors
    /// More or fewer values than train.
    pub fn set(&mut self, values: &[f32]) -> Result<(), FederatedError> {
        let layout = self.executor.layout();
        if values.len() != layout.len() {
            return Err(FederatedError::Model { expected: layout.len(), found: values.len() });
        }
        for entry in layout.entries() {
            self.parameters.get_mut(entry.id).copy_from_slice(&values[entry.range.clone()]);
        }
        Ok(())
    }

    /// Takes steps on records that are drawn anew for each, with replacement. `inputs` holds the records one after the other.
    ///
    /// # Errors
    /// Inputs that are not of the model's shape, labels without a class, or no records.
    pub fn train(&mut self, inputs: &[f32], labels: &[u32], steps: ClientSteps) -> Result<(), TrainError> {
        let length: usize = self.graph.input_shape().iter().product();
        check(inputs, labels, length)?;
        if steps.batch == 0 {
            return Err(TrainError::setting("local_batch", "a step of no records", "take at least one"));
        }
        // Which records a client takes tells nobody anything that its update does not tell.
        let mut random = MasterKey::from_os()?.purpose(Purpose::Views).step(0).stream(0);
        let rate = (steps.learning_rate / steps.batch as f64) as f32;
        let (mut batch, mut classes) = (Vec::new(), Vec::new());
        for _ in 0..steps.steps {
            batch.clear();
            classes.clear();
            for _ in 0..steps.batch {
                let record = (random.next_u64() % labels.len() as u64) as usize;
                batch.extend_from_slice(&inputs[record * length..][..length]);
                classes.push(labels[record]);
            }
            let gradient = self.gradient(&batch, &classes)?;
            let layout: Layout = self.executor.layout().clone();
            for entry in layout.entries() {
                let own = self.parameters.get_mut(entry.id).iter_mut();
                own.zip(&gradient[entry.range.clone()]).for_each(|(value, slope)| *value -= rate * slope);
            }
        }
        Ok(())
    }

    /// The sum of the records' gradients.
    fn gradient(&mut self, inputs: &[f32], labels: &[u32]) -> Result<Vec<f32>, TrainError> {
        let mut sum = self.executor.gradient_sum();
        let mut loaded = self.executor.load(&self.parameters)?;
        loaded.clipped_sum(&Batch::new(inputs, Targets::Classes(labels)), &self.rule, &mut sum)?;
        Ok(loaded.gradient(sum)?)
    }

    /// The share of records whose likeliest class is their own.
    ///
    /// # Errors
    /// Those of [`LocalTrainer::train`].
    pub fn accuracy(&mut self, inputs: &[f32], labels: &[u32]) -> Result<f64, TrainError> {
        let length: usize = self.graph.input_shape().iter().product();
        check(inputs, labels, length)?;
        let outputs = self.executor.load(&self.parameters)?.forward(inputs)?;
        let scores = outputs.chunks_exact(outputs.len() / labels.len());
        let best = |scores: &[f32]| {
            (0..scores.len()).fold(0, |best, class| if scores[class] > scores[best] { class } else { best })
        };
        let right = scores.zip(labels).filter(|(scores, label)| best(scores) == **label as usize).count();
        Ok(right as f64 / labels.len() as f64)
    }
}

/// Checks that there are records, each with a label.
fn check(inputs: &[f32], labels: &[u32], length: usize) -> Result<(), FederatedError> {
    let expected = labels.len() * length;
    match !labels.is_empty() && inputs.len() == expected {
        true => Ok(()),
        false => Err(FederatedError::Records { expected, found: inputs.len() }),
    }
}
