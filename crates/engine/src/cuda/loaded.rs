//! What an executor does with the parameters on its card.

use super::device::{Grid, address, arguments};
use super::error::CudaError;
use super::kind::Kind;
use super::memory::Work;
use super::run::Run;
use super::step::Step;
use super::{CudaExecutor, CudaGradientSum};
use crate::batch::{self, Batch};
use crate::clipping::Clipping;
use crate::error::EngineError;
use crate::stats::StepStats;

/// An executor with a set of parameters on the card.
#[derive(Debug)]
pub struct CudaLoaded<'e> {
    pub(super) executor: &'e mut CudaExecutor,
}

impl CudaLoaded<'_> {
    /// Outputs of all samples, one after the other in row-major order, dropout off.
    ///
    /// # Errors
    /// If the inputs have a wrong length or a value that is not finite, or the card fails.
    pub fn forward(&mut self, inputs: &[f32]) -> Result<Vec<f32>, CudaError> {
        let executor = &mut *self.executor;
        let samples = batch::samples(&executor.graph, inputs, 1)?;
        let group = executor.group(&executor.inference, samples);
        if executor.inference_work.as_ref().is_none_or(|work| work.samples < group) {
            executor.inference_work = None;
            executor.inference_work = Some(Work::new(&executor.device, &executor.inference, group, 0)?);
            executor.count(0);
        }
        let CudaExecutor { graph, device, model, inference: program, inference_work, choices, .. } = executor;
        let Some(work) = inference_work else { return Ok(Vec::new()) };
        let (size, len) = (program.steps.lens[0], program.steps.lens[program.steps.output]);
        let mut outputs = vec![0.0; samples * len];
        let parts = inputs.chunks(group * size).zip(outputs.chunks_mut((group * len).max(1)));
        for (inputs, outputs) in parts {
            device.upload(inputs, work.inputs[0])?;
            let samples = inputs.len() / size;
            let inputs = work.inputs[0];
            let marks = &mut None;
            let mut run =
                Run { device, program, model, work, choices, marks, inputs, samples, dropout: false };
            run.forward()?;
            device.download(run.value(program.steps.output), outputs)?;
        }
        debug_assert_eq!(len, graph.output_shape().iter().product::<usize>());
        Ok(outputs)
    }

    /// Adds every sample's clipped gradient to a sum.
    ///
    /// # Errors
    /// If the batch does not fit the graph, the rule does not fit the model, a gradient is not finite, or the card fails; then the sum
    /// must not be used.
    ///
    /// # Guarantee
    /// Each sample adds a vector of norm at most [`Clipping::sensitivity`] that depends on no other sample. Every sum is taken in a
    /// fixed order, so that an executor gives the same bits for the same batch; another may have measured another algorithm to be
    /// faster, and then differs by rounding.
    pub fn clipped_sum(
        &mut self,
        batch: &Batch<'_>,
        clipping: &Clipping,
        sum: &mut CudaGradientSum,
    ) -> Result<StepStats, CudaError> {
        let executor = &mut *self.executor;
        clipping.check(&executor.layout)?;
        let samples = batch.sizes(&executor.graph)?;
        if sum.len != executor.layout.len() || sum.finished {
            return Err(EngineError::Parameters.into());
        }
        let mut stats = StepStats::default();
        if samples == 0 {
            return Ok(stats);
        }
        executor.plan(batch.views, samples)?;
        if executor.options.measure {
            executor.marks = Some(Vec::new());
        }
        let CudaExecutor {
            graph,
            layout,
            device,
            model,
            training,
            work,
            choices,
            marks,
            inputs: staging,
            targets,
            ..
        } = executor;
        let (Some(program), Some(work)) = (training, work) else { return Ok(stats) };
        let sum = address(&sum.values, &device.stream);
        let mut step = Step {
            graph,
            layout,
            device,
            program,
            model,
            work,
            choices,
            marks,
            staging,
            targets,
            batch,
            clipping,
        };
        step.run(samples, sum, &mut stats)?;
        executor.settle()?;
        Ok(stats)
    }

    /// The sum as a flat gradient in the order of [`CudaExecutor::layout`].
    ///
    /// # Errors
    /// If the sum belongs to another graph, or the card fails.
    pub fn gradient(&mut self, mut sum: CudaGradientSum) -> Result<Vec<f32>, CudaError> {
        self.finish(&mut sum)?;
        let CudaExecutor { device, layout, whole, .. } = &mut *self.executor;
        let base = address(&sum.values, &device.stream);
        let mut gradient = sum.buffer;
        gradient.resize(layout.len(), 0.0);
        whole.fetch(device, base, &mut gradient)?;
        Ok(gradient)
    }

    /// Takes the sum back through the standardisation of weights, once.
    pub(super) fn finish(&mut self, sum: &mut CudaGradientSum) -> Result<(), CudaError> {
        let CudaExecutor { device, model, layout, inference, .. } = &*self.executor;
        if sum.len != layout.len() {
            return Err(EngineError::Parameters.into());
        }
        if std::mem::replace(&mut sum.finished, true) {
            return Ok(());
        }
        let base = address(&sum.values, &device.stream);
        for kind in inference.steps.kinds.iter().flatten() {
            let Kind::Conv(conv) = kind else { continue };
            let (Some((used, stats)), Some(position)) = (conv.used, layout.position(conv.weight)) else {
                continue;
            };
            let d = base.at(layout.entries()[position].range.start);
            let list = arguments![d, model.used.at(used), model.stats.at(stats), conv.geometry.inner()];
            device.launch("standardise_backward", Grid::blocks(conv.geometry.out, 128), list)?;
        }
        Ok(())
    }
}
