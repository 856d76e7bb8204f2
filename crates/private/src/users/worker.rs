//! The training of one user after the other, by one thread.

use dapple_engine::{Clipping, ClippingRule, CpuExecutor, CpuOptions, EngineError, Layout};
use dapple_graph::{Graph, Parameters};

use super::batch::{LocalBatch, UserBatch};
use super::{LocalSteps, LocalTraining};
use crate::error::StepError;

/// What a thread needs to train users.
#[derive(Debug)]
pub(super) struct UserWorker {
    executor: CpuExecutor,
    /// Bounds nothing: what is bounded is the update as a whole.
    rule: ClippingRule,
    /// Values of a record's view.
    input: usize,
    /// The weights of the user under way, once there was one.
    weights: Option<Parameters>,
    /// The user that is trained next.
    pub(super) batch: UserBatch,
    local: LocalBatch,
    /// The last step's gradient, and at the end the update.
    gradient: Vec<f32>,
}

impl UserWorker {
    /// Makes a worker for a graph and submodels of it. It computes on one thread, so that a user's update has the same bits on any number.
    pub(super) fn new(graph: &Graph, submodels: &[Graph]) -> Result<Self, EngineError> {
        let options = CpuOptions { threads: 1, ..CpuOptions::default() };
        let executor = CpuExecutor::with_submodels(graph, submodels.to_vec(), options)?;
        let rule = ClippingRule::new(&Clipping::Off, executor.layout())?;
        Ok(Self {
            executor,
            rule,
            input: graph.input_shape().iter().product(),
            weights: None,
            batch: UserBatch::default(),
            local: LocalBatch::default(),
            gradient: Vec::new(),
        })
    }

    /// The update of the user that was trained last.
    pub(super) fn update(&self) -> &[f32] {
        &self.gradient
    }

    /// Trains the user in `batch` from these weights, and returns the mean loss of the records that its first step sees.
    pub(super) fn train(&mut self, start: &Parameters, local: &LocalTraining) -> Result<f32, StepError> {
        let records = self.batch.len(self.input);
        let batch = local.batch.map_or(records, |batch| batch.min(records));
        let Some(LocalSteps { count, learning_rate }) = local.steps else {
            return self.gradient(start, 0, batch, records);
        };
        let mut weights = match self.weights.take() {
            Some(mut weights) => {
                weights.values_mut().copy_from_slice(start.values());
                weights
            }
            None => start.clone(),
        };
        let mut first = 0.0;
        for step in 0..count {
            let loss = self.gradient(&weights, step, batch, records)?;
            if step == 0 {
                first = loss;
            }
            let layout = self.executor.layout();
            over_entries(layout, |id, range| {
                let values = weights.get_mut(id).iter_mut().zip(&self.gradient[range]);
                values.for_each(|(value, gradient)| *value -= learning_rate * gradient);
            });
        }
        let gradient = &mut self.gradient;
        over_entries(self.executor.layout(), |id, range| {
            let ends = start.get(id).iter().zip(weights.get(id));
            gradient[range].iter_mut().zip(ends).for_each(|(update, (start, end))| *update = start - end);
        });
        self.weights = Some(weights);
        Ok(first)
    }

    /// Puts the mean gradient of what a step sees at these weights in the place of the last one, and returns the mean loss.
    fn gradient(
        &mut self,
        weights: &Parameters,
        step: u64,
        batch: usize,
        records: usize,
    ) -> Result<f32, StepError> {
        let Self { executor, rule, batch: user, local, gradient, .. } = self;
        let mut sum = executor.gradient_sum_in(std::mem::take(gradient));
        let mut loaded = executor.load(weights)?;
        let stats = loaded.clipped_sum(&local.of(user, step, batch, records), rule, &mut sum)?;
        *gradient = loaded.gradient(sum)?;
        let share = 1.0 / batch as f32;
        gradient.iter_mut().for_each(|value| *value *= share);
        let loss: f64 = stats.losses.iter().map(|&loss| f64::from(loss)).sum();
        Ok((loss / batch as f64) as f32)
    }
}

/// Visits every trained parameter with its place in a gradient.
fn over_entries(layout: &Layout, mut visit: impl FnMut(dapple_graph::ParameterId, std::ops::Range<usize>)) {
    layout.entries().iter().for_each(|entry| visit(entry.id, entry.range.clone()));
}
