//! What an executor does with the parameters on its card.

use super::error::CudaError;
use super::kernels::{ProjectFilters, StandardiseBackward};
use super::memory::{CardWork, WORKSPACE};
use super::run::CardRun;
use super::step::CardStep;
use super::{CudaExecutor, CudaGradientSum, MOST_SAMPLES};
use crate::batch::{self, Batch};
use crate::clipping::{ClippingRule, FRACTION};
use crate::cpu::Total;
use crate::error::EngineError;
use crate::stats::StepStats;

/// An executor with a set of parameters on the card.
#[derive(Debug)]
pub struct CudaLoaded<'e> {
    pub(super) executor: &'e mut CudaExecutor,
}

impl CudaLoaded<'_> {
    /// The outputs of all samples, one after the other in row-major order, with dropout off.
    ///
    /// All parts of a call have one size, which follows from how many samples there are, from the options and from the free memory; the last
    /// part is filled up with samples of an earlier one. So in calls of one size, with `CudaOptions::microbatch` set, what a sample's output
    /// is depends neither on the other samples nor on its place.
    ///
    /// # Errors
    /// If the inputs have a wrong length or a value that is not finite, or the card fails.
    pub fn forward(&mut self, inputs: &[f32]) -> Result<Vec<f32>, CudaError> {
        let executor = &mut *self.executor;
        let samples = batch::samples(&executor.graph, inputs, 1)?;
        let group = executor.group(&executor.inference, samples, MOST_SAMPLES);
        if executor.inference_work.as_ref().is_none_or(|work| work.samples < group) {
            executor.inference_work = None;
            // A data gradient, which a transposed convolution is, has no algorithm of cuDNN that works in no memory.
            let mut operations = executor.inference.steps.operations.iter().flatten();
            let workspace = if operations.any(|operation| operation.transposes()) { WORKSPACE } else { 0 };
            let work = CardWork::new(&executor.device, &executor.inference, group, workspace)?;
            executor.inference_work = Some(work);
            executor.count(0);
        }
        let CudaExecutor { graph, device, model, inference: program, inference_work, choices, .. } = executor;
        let work = inference_work.as_mut().expect("made above");
        let (size, len) = (program.steps.lens[0], program.steps.lens[program.steps.output]);
        let mut outputs = vec![0.0; samples * len];
        let parts = inputs.chunks(group * size).zip(outputs.chunks_mut((group * len).max(1)));
        for (inputs, outputs) in parts {
            device.upload(inputs, work.inputs(0))?;
            let inputs = work.inputs(0);
            let marks = &mut None;
            let mut run = CardRun {
                device,
                program,
                model,
                work,
                choices,
                marks,
                inputs,
                samples: group,
                dropout: false,
                masks: false,
                norms: false,
            };
            run.forward()?;
            device.download(run.value(program.steps.output), outputs)?;
        }
        debug_assert_eq!(len, graph.output_shape().iter().product::<usize>());
        Ok(outputs)
    }

    /// Adds every sample's clipped gradient to a sum.
    ///
    /// # Errors
    /// If the batch does not fit the graph or the sum, or the card fails. Then the sum must not be used.
    ///
    /// # Guarantee
    /// Each sample adds a vector that depends on no other sample and whose norm is at most [`ClippingRule::sensitivity`]: how the vector is
    /// computed follows from the options and not from the batch, and whole numbers are added without rounding, in any order. Norms are
    /// upper bounds, in double precision, on what is added; `ghost.rs` says what they assume of tensor cores. With clipping, a sample whose
    /// gradient is not finite adds nothing. One executor gives the same bits for the same batch every time; another may have measured
    /// another algorithm to be faster, and then differs by rounding.
    pub fn clipped_sum(
        &mut self,
        batch: &Batch<'_>,
        rule: &ClippingRule,
        sum: &mut CudaGradientSum,
    ) -> Result<StepStats, CudaError> {
        let executor = &mut *self.executor;
        let samples = batch.sizes(&executor.graph)?;
        if sum.len != executor.layout.len() || sum.finished {
            return Err(EngineError::Parameters.into());
        }
        sum.reserve(&executor.device, rule, samples)?;
        let mut stats = StepStats::default();
        if samples == 0 {
            return Ok(stats);
        }
        executor.plan(batch.views, batch.submodel)?;
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
        let (program, _) = training.chosen();
        let work = work.as_mut().expect("a planned step has its memory");
        let mut step = CardStep {
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
            rule,
        };
        step.run(samples, sum, &mut stats)?;
        executor.settle()?;
        Ok(stats)
    }

    /// The sum in the order of [`CudaExecutor::layout`], in whole numbers if it was clipped.
    ///
    /// # Errors
    /// If the sum belongs to another graph, or the card fails.
    pub fn total(&mut self, mut sum: CudaGradientSum) -> Result<Total, CudaError> {
        self.finish(&mut sum)?;
        sum.read(self.executor)
    }

    /// Like [`CudaLoaded::total`], but in single precision.
    ///
    /// # Errors
    /// Those of [`CudaLoaded::total`].
    pub fn gradient(&mut self, sum: CudaGradientSum) -> Result<Vec<f32>, CudaError> {
        // The card converts whole numbers to single precision, so that fewer bytes travel.
        let mut sum = sum;
        self.convert(&mut sum)?;
        self.total(sum).map(Total::into_gradient)
    }

    /// Turns the sum for standardised weights into that for the parameters themselves. A second call does nothing.
    ///
    /// # Guarantee
    /// Whole numbers are all carried over. If weights are standardised, clipped gradients already have their mean taken off and are divided
    /// by the deviation, so what is left is a projection, rounded to a fraction of a unit. Two results are no farther apart than their sums
    /// were, plus that fraction for each coordinate, plus what double precision rounds; a clipping rule makes room for both.
    pub(super) fn finish(&mut self, sum: &mut CudaGradientSum) -> Result<(), CudaError> {
        let CudaExecutor { device, model, layout, inference, .. } = &*self.executor;
        if sum.len != layout.len() {
            return Err(EngineError::Parameters.into());
        }
        if std::mem::replace(&mut sum.finished, true) {
            return Ok(());
        }
        sum.carry(device, if layout.standardised() { FRACTION } else { 0 })?;
        for operation in inference.steps.operations.iter().flatten() {
            let Some(conv) = operation.convolution() else { continue };
            let (Some((used, inverses)), Some(position)) = (conv.used, layout.position(conv.weight)) else {
                continue;
            };
            let (start, used) = (layout.entries()[position].range.start, model.used().after(used));
            let (filters, n) = (conv.geometry.out, conv.geometry.inner());
            match sum.wide() {
                Some(wide) => ProjectFilters { filters, d: wide.after(start), used, n }.launch(device)?,
                None => {
                    let (d, inverses) = (sum.values().after(start), model.inverses().after(inverses));
                    StandardiseBackward { filters, d, used, inverses, n }.launch(device)?;
                }
            }
        }
        Ok(())
    }
}
