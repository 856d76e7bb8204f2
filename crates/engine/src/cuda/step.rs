//! One step on the card: its microbatches, their targets and losses, and the way from norms to clipping factors.

use cudarc::driver::CudaEvent;
use cudarc::driver::sys::CUevent_flags;
use dapple_graph::{Graph, Loss};

use super::clip::SumTarget;
use super::convolution::ConvolutionChoices;
use super::device::Device;
use super::error::{CudaError, call};
use super::kernels::{AddLosses, CLASSES, CountLabels, LossOfParts, PROBABILITIES, VALUES};
use super::launch::LaunchGrid;
use super::memory::{CardModel, CardWork};
use super::program::CardProgram;
use super::run::{CardRun, Marks};
use super::staging::Staging;
use super::sum::CudaGradientSum;
use crate::batch::{Batch, Targets, UnitMasks};
use crate::clipping::ClippingRule;
use crate::layout::Layout;
use crate::stats::StepStats;

/// A batch on its way through the card.
pub(crate) struct CardStep<'s> {
    pub(crate) graph: &'s Graph,
    pub(crate) layout: &'s Layout,
    pub(crate) device: &'s Device,
    pub(crate) program: &'s CardProgram,
    pub(crate) model: &'s CardModel,
    pub(crate) work: &'s CardWork,
    pub(crate) choices: &'s mut ConvolutionChoices,
    pub(crate) marks: &'s mut Marks,
    pub(crate) staging: &'s mut [Staging; 2],
    pub(crate) targets: &'s mut Staging,
    pub(crate) batch: &'s Batch<'s>,
    pub(crate) rule: &'s ClippingRule,
}

impl CardStep<'_> {
    /// Adds the clipped gradients of all samples to a sum, microbatch by microbatch. All microbatches have the same size; what the last one
    /// lacks is filled up with whatever lies in memory, and does not count.
    pub(crate) fn run(
        &mut self,
        samples: usize,
        total: &mut CudaGradientSum,
        stats: &mut StepStats,
    ) -> Result<(), CudaError> {
        let each = self.work.samples;
        let norms = self.rule.unit().is_some();
        let mut idle = self.device.event()?;
        let mut ready = self.send(0, 0..each.min(samples), &idle)?;
        for (index, first) in (0..samples).step_by(each).enumerate() {
            let end = (first + each).min(samples);
            idle = self.device.event()?;
            call("waiting for a copy", self.device.stream.wait(&ready))?;
            let samples_here = end - first;
            let part = CardMicrobatch {
                graph: self.graph,
                layout: self.layout,
                batch: self.batch,
                rule: self.rule,
                first,
                samples: samples_here,
            };
            let (layout, device) = (self.layout, self.device);
            let (mut run, targets) = self.microbatch(index);
            run.mark("copies")?;
            part.keys(&run)?;
            part.masks(&run)?;
            run.forward()?;
            part.targets(&run, targets)?;
            run.mark("copies")?;
            part.loss(&mut run)?;
            run.backward(layout)?;
            if norms {
                run.norms()?;
            }
            // The next samples travel to the card while it works on these.
            if end < samples {
                ready = self.send(index + 1, end..(end + each).min(samples), &idle)?;
            }
            let (mut run, _) = self.microbatch(index);
            part.factors(&mut run, stats)?;
            let sum = total.hold(device, samples_here)?.cast();
            run.sum(layout, SumTarget { sum, whole: norms, samples: samples_here })?;
        }
        Ok(())
    }

    /// A microbatch on the card, by its number, and where its targets are staged.
    fn microbatch(&mut self, index: usize) -> (CardRun<'_>, &mut Staging) {
        let run = CardRun {
            device: self.device,
            program: self.program,
            model: self.model,
            work: self.work,
            choices: self.choices,
            marks: self.marks,
            inputs: self.work.inputs(index),
            samples: self.work.samples,
            dropout: self.batch.dropout.is_some(),
            masks: self.batch.masks.is_some(),
            norms: self.rule.unit().is_some(),
        };
        (run, self.targets)
    }

    /// Checks samples and sends their inputs on the stream for copies. The copy waits for `idle`, after which nothing reads the target any
    /// more. The event that is returned says when the inputs have arrived.
    fn send(
        &mut self,
        microbatch: usize,
        samples: std::ops::Range<usize>,
        idle: &CudaEvent,
    ) -> Result<CudaEvent, CudaError> {
        self.batch.check_classes(self.graph, samples.clone())?;
        let size = self.program.steps.lens[0] * self.batch.views;
        let inputs = &self.batch.inputs[samples.start * size..samples.end * size];
        let copies = &self.device.copies;
        call("waiting for the GPU", copies.wait(idle))?;
        // SAFETY: the last copy from this staging memory belongs to the microbatch before the last, whose norms have been waited for since.
        // An executor settles everything before its staging memory is freed.
        unsafe { self.staging[microbatch % 2].send(copies, inputs, self.work.inputs(microbatch))? };
        call("waiting for a copy", copies.record_event(Some(CUevent_flags::CU_EVENT_DISABLE_TIMING)))
    }
}

/// How many positions' losses one block of threads adds.
const LOSS_POSITIONS: usize = 2048;

/// A microbatch of a step.
struct CardMicrobatch<'s> {
    graph: &'s Graph,
    layout: &'s Layout,
    batch: &'s Batch<'s>,
    rule: &'s ClippingRule,
    /// Its first sample in the batch, and how many samples of the batch it has. The microbatch may be larger, if it is filled up.
    first: usize,
    samples: usize,
}

impl CardMicrobatch<'_> {
    /// Sends the dropout keys.
    fn keys(&self, run: &CardRun<'_>) -> Result<(), CudaError> {
        let (first, count) = (self.first * self.batch.views, self.samples * self.batch.views);
        let views = first..first + count;
        let keys: Vec<u64> = views.filter_map(|view| self.batch.dropout_key(view)).collect();
        run.device.upload(&keys, run.work.keys())
    }

    /// Sends the masks of dropout layers, a bit for each unit of each sample.
    fn masks(&self, run: &CardRun<'_>) -> Result<(), CudaError> {
        let Some(UnitMasks { units, kept }) = self.batch.masks.filter(|masks| !masks.units.is_empty()) else {
            return Ok(());
        };
        let own = kept.chunks_exact(units.len()).skip(self.first).take(self.samples);
        let word = |bits: &[bool]| bits.iter().rev().fold(0u32, |word, &kept| word << 1 | u32::from(kept));
        let words: Vec<u32> = own.flat_map(|mask| mask.chunks(u32::BITS as usize).map(word)).collect();
        run.device.upload(&words, run.work.masks())
    }

    /// Sends the targets, which travel while the forward pass runs. Whatever last read the targets' memory, and the last copy from the
    /// staging memory, belong to a microbatch whose norms have been waited for.
    fn targets(&self, run: &CardRun<'_>, staging: &mut Staging) -> Result<(), CudaError> {
        let shape = self.graph.output_shape();
        let (len, positions): (usize, usize) = (shape.iter().product(), shape[1..].iter().product());
        let (first, items) = (self.first * self.batch.views, self.samples * self.batch.views);
        let (device, to) = (run.device, run.work.targets().cast());
        // SAFETY: the last copy from this staging memory belongs to a microbatch whose norms have been waited for, and an executor settles
        // everything before its staging memory is freed.
        unsafe {
            match self.batch.targets {
                Targets::Classes(classes) => {
                    staging.send(&device.copies, &classes[first * positions..][..items * positions], to)?;
                }
                Targets::Probabilities(values) | Targets::Values(values) => {
                    staging.send(&device.copies, &values[first * len..][..items * len], to)?;
                }
            }
        }
        let sent = device.copies.record_event(Some(CUevent_flags::CU_EVENT_DISABLE_TIMING));
        call("waiting for a copy", device.stream.wait(&call("recording an event", sent)?))
    }

    /// Computes the losses, and the gradients of the outputs.
    fn loss(&self, run: &mut CardRun<'_>) -> Result<(), CudaError> {
        let shape = self.graph.output_shape();
        let (classes, positions) = (shape[0], shape[1..].iter().product::<usize>());
        let kind = match self.batch.targets {
            Targets::Classes(_) => CLASSES,
            Targets::Probabilities(_) => PROBABILITIES,
            Targets::Values(_) => VALUES,
        };
        let smoothing = match self.graph.loss() {
            Loss::CrossEntropy { label_smoothing } => label_smoothing,
            Loss::SquaredError => 0.0,
        };
        let scale = 1.0 / self.batch.views as f64;
        let threads = positions.next_multiple_of(32).clamp(32, 256);
        let (items, parts) = (run.items(), positions.div_ceil(LOSS_POSITIONS));
        let grid = LaunchGrid { blocks: [items, parts, 1], threads, shared: 0 };
        let (device, targets) = (run.device, run.work.targets());
        let sums = run.work.workspace().cast::<f64>();
        // The counts come after the parts' losses.
        let counts = sums.after(items * parts).cast();
        if let Targets::Classes(_) = self.batch.targets {
            CountLabels { grid, labels: targets, counts, positions }.launch(device)?;
        }
        for (index, &(output, weight)) in run.program.steps.outputs.iter().enumerate() {
            LossOfParts {
                grid,
                kind,
                output: run.value(output),
                targets,
                counts,
                gradient: run.gradient(output),
                sums,
                classes,
                positions,
                smoothing,
                weight: f64::from(weight),
                scale,
            }
            .launch(device)?;
            AddLosses { sums, losses: run.work.losses(), parts, items, accumulate: index > 0 }
                .launch(device)?;
        }
        run.mark("loss")
    }

    /// Reads losses and norms, and sends every sample's clipping factors, which are zero for a sample that is not finite or only fills the
    /// microbatch up.
    fn factors(&self, run: &mut CardRun<'_>, stats: &mut StepStats) -> Result<(), CudaError> {
        let (entries, views) = (self.layout.entries().len(), self.batch.views);
        let mut losses = vec![0.0f64; self.samples * views];
        let mut squared = vec![0.0f64; self.samples * entries];
        run.device.download(run.work.losses(), &mut losses)?;
        if run.norms {
            run.device.download(run.work.squared(), &mut squared)?;
        }
        let mut factors = vec![0.0f32; run.samples * entries];
        for sample in 0..self.samples {
            let loss = losses[sample * views..][..views].iter().sum::<f64>() / views as f64;
            let squared = &squared[sample * entries..][..entries];
            stats.losses.push(loss as f32);
            stats.norms.push(self.rule.norm(squared) as f32);
            let factors = &mut factors[sample * entries..][..entries];
            let finite = self.rule.factors(squared, factors);
            stats.not_finite += usize::from(!finite);
            stats.unclipped += usize::from(self.rule.leaves(factors));
        }
        run.device.upload(&factors, run.work.factors())?;
        run.mark("norms to factors")
    }
}
