//! A worker, which takes some samples of a step: its buffers, and the interpreter that runs a schedule in them.

use std::ops::Range;

use dapple_graph::{Graph, Parameters};
use rayon::prelude::*;

use super::arranged::ArrangedWeights;
use super::backward::{BackwardPass, GradientNorms};
use super::forward::ForwardPass;
use super::kernel::Lanes;
use super::program::GradientSource;
use super::schedule::{Action, ActionKind, Schedule, Stretch, Turn};
use super::step::CpuSteps;
use super::together::Together;
use super::values::StepValues;
use crate::batch::Batch;
use crate::layout::Layout;
use crate::loss::{self, LossStrides};

/// What all workers share.
pub(crate) struct Shared<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) steps: &'a CpuSteps,
    pub(crate) schedule: &'a Schedule,
    pub(crate) lanes: Lanes,
    pub(crate) parameters: &'a Parameters,
    pub(crate) weights: &'a ArrangedWeights,
    /// Where a parameter's gradient lies among a sample's written gradients; `None` if it is frozen or deferred.
    pub(crate) places: &'a [Option<Range<usize>>],
    /// How many numbers a sample's written gradients have.
    pub(crate) materialised: usize,
    /// Where the trainable parameters lie.
    pub(crate) layout: &'a Layout,
    /// How the gradient of each trainable parameter is made.
    pub(crate) sources: &'a [GradientSource],
    /// How many means of filters a sample has.
    pub(crate) means: usize,
}

impl Shared<'_> {
    /// Runs the whole schedule. Every worker does its own `work` with this much scratch, and calls `finish` at the end.
    pub(crate) fn run<'w>(
        &self,
        workers: &mut [CpuWorker],
        scratch: Scratch,
        work: impl Fn(usize) -> ItemWork<'w> + Sync,
        finish: impl Fn(&mut CpuWorker) + Sync,
        together: &mut Together,
    ) {
        let alone = |stretch: &Stretch| stretch.turn != Turn::Together;
        let stretches = &self.schedule.stretches;
        let mut done = 0;
        // Each part but the first starts with work that is done together.
        for part in stretches.chunk_by(|_, next| alone(next)) {
            let (begins, ends) = (done == 0, done + part.len() == stretches.len());
            done += part.len();
            let own = match part {
                [head, rest @ ..] if !alone(head) => {
                    let actions = &self.schedule.actions[head.actions.clone()];
                    actions.iter().for_each(|action| together.run(self, action, workers));
                    rest
                }
                _ => part,
            };
            workers.par_iter_mut().enumerate().for_each(|(index, worker)| {
                let work = work(index);
                if begins {
                    worker.begin(self, &work, scratch);
                }
                worker.run(self, &work, own);
                if ends {
                    finish(worker);
                }
            });
        }
    }
}

/// The buffers of one worker.
#[derive(Debug, Default)]
pub(crate) struct CpuWorker {
    pub(crate) buffers: Vec<Vec<f32>>,
    /// The written gradients, sample after sample.
    pub(crate) materialised: Vec<f32>,
    /// The loss of each item of the last run.
    pub(crate) losses: Vec<f64>,
    /// Upper bounds on the squared norms, `[sample, trainable parameter]`.
    pub(crate) squared: Vec<f64>,
    /// The clipping factors, `[sample, trainable parameter]`; all zero for a sample that must not be added.
    pub(crate) factors: Vec<f32>,
    /// The means that are taken off the gradients of standardised filters, sample after sample, and the factors that then multiply them.
    pub(crate) means: Vec<f32>,
    pub(crate) filter_factors: Vec<f32>,
    pub(crate) scratch: Vec<f32>,
    pub(crate) wide: Vec<f64>,
    taken: Vec<Vec<f32>>,
}

/// What a worker is to run: views `first .. first + items` of the inputs.
#[derive(Clone, Copy)]
pub(crate) struct ItemWork<'a> {
    pub(crate) inputs: &'a [f32],
    pub(crate) batch: Option<&'a Batch<'a>>,
    pub(crate) views: usize,
    pub(crate) first: usize,
    pub(crate) items: usize,
    pub(crate) parallel: usize,
    /// Whether the norms of gradients are wanted.
    pub(crate) norms: bool,
}

impl CpuWorker {
    /// Makes room for the items where there is too little, and clears the memory that gradients are added to.
    fn begin(&mut self, shared: &Shared<'_>, work: &ItemWork<'_>, scratch: Scratch) {
        let (samples, entries) = (work.items / work.views, shared.layout.entries().len());
        self.buffers.resize_with(shared.schedule.buffers.len(), Vec::new);
        for (buffer, planned) in self.buffers.iter_mut().zip(&shared.schedule.buffers) {
            grow(buffer, planned.numbers(work.items));
        }
        grow(&mut self.materialised, samples * shared.materialised);
        grow(&mut self.scratch, scratch.single);
        grow(&mut self.wide, scratch.double);
        grow(&mut self.factors, samples * entries);
        grow(&mut self.means, samples * shared.means);
        grow(&mut self.filter_factors, samples * shared.means);
        self.losses.resize(work.items, 0.0);
        self.squared.resize(samples * entries, 0.0);
        self.materialised[..samples * shared.materialised].fill(0.0);
        self.squared.fill(0.0);
    }

    /// Runs some stretches of the schedule.
    fn run(&mut self, shared: &Shared<'_>, work: &ItemWork<'_>, stretches: &[Stretch]) {
        for stretch in stretches {
            let actions = &shared.schedule.actions[stretch.actions.clone()];
            if stretch.turn == Turn::Item {
                for item in 0..work.items {
                    for action in actions {
                        self.action(shared, work, action, item..item + 1);
                    }
                }
            } else {
                for action in actions {
                    self.action(shared, work, action, 0..work.items);
                }
            }
        }
    }

    fn action(&mut self, shared: &Shared<'_>, work: &ItemWork<'_>, action: &Action, items: Range<usize>) {
        match action.kind {
            ActionKind::Forward => self.forward(shared, work, action, items),
            ActionKind::Loss => self.loss(shared, work, action, items),
            ActionKind::Backward => self.backward(shared, work, action, items),
            // All threads do this together.
            ActionKind::VastData => {}
        }
    }

    fn loss(&mut self, shared: &Shared<'_>, work: &ItemWork<'_>, action: &Action, items: Range<usize>) {
        let batch = work.batch.expect("only training has losses, and training is given a batch");
        let slot = action.gradient.expect("the scheduler gives every loss a gradient");
        let form = &shared.steps.steps[action.step].form;
        let classes = form.shape[0];
        let positions = form.len() / classes;
        let (class_stride, position_stride) = if form.channels_last { (1, classes) } else { (positions, 1) };
        let strides = LossStrides { classes, positions, class_stride, position_stride };
        let mut gradient = std::mem::take(&mut self.buffers[slot]);
        let main = action.step == shared.steps.output;
        let auxiliary = shared.steps.auxiliary.iter().find(|(step, _)| *step == action.step);
        let weight = auxiliary.map_or(1.0, |(_, weight)| f64::from(*weight));
        for item in items {
            let output =
                &self.buffers[action.output][item * shared.schedule.stride(action.output)..][..form.len()];
            let target = batch.target(shared.graph, work.first + item);
            let gradient = &mut gradient[item * shared.schedule.stride(slot)..][..form.len()];
            let scale = weight / work.views as f64;
            let loss = loss::evaluate(shared.graph.loss(), strides, output, target, scale, gradient);
            // The main output comes first, so its loss begins the sum.
            self.losses[item] = if main { loss } else { self.losses[item] + weight * loss };
        }
        self.buffers[slot] = gradient;
    }

    fn forward(&mut self, shared: &Shared<'_>, work: &ItemWork<'_>, action: &Action, items: Range<usize>) {
        let mut output = std::mem::take(&mut self.buffers[action.output]);
        let mut saved = action.saved.map(|slot| std::mem::take(&mut self.buffers[slot])).unwrap_or_default();
        let values = StepValues { shared, work, action, buffers: &self.buffers };
        values.step().kernel.forward(ForwardPass {
            values,
            items,
            output: &mut output,
            saved: &mut saved,
            scratch: &mut self.scratch,
        });
        self.buffers[action.output] = output;
        if let Some(slot) = action.saved {
            self.buffers[slot] = saved;
        }
    }

    fn backward(&mut self, shared: &Shared<'_>, work: &ItemWork<'_>, action: &Action, items: Range<usize>) {
        let slot = action.gradient.expect("the scheduler gives every backward pass a gradient");
        let mut gradient = std::mem::take(&mut self.buffers[slot]);
        let mut taken = std::mem::take(&mut self.taken);
        for wanted in &action.input_gradients {
            taken.push(wanted.map(|(slot, _)| std::mem::take(&mut self.buffers[slot])).unwrap_or_default());
        }
        let norms =
            GradientNorms { wide: &mut self.wide, squared: &mut self.squared, means: &mut self.means };
        let values = StepValues { shared, work, action, buffers: &self.buffers };
        values.step().kernel.backward(BackwardPass {
            values,
            items,
            gradient: &mut gradient,
            input_gradients: &mut taken,
            materialised: &mut self.materialised,
            norms,
            scratch: &mut self.scratch,
        });
        for (wanted, buffer) in action.input_gradients.iter().zip(taken.drain(..)) {
            if let Some((slot, _)) = wanted {
                self.buffers[*slot] = buffer;
            }
        }
        self.taken = taken;
        self.buffers[slot] = gradient;
    }
}

/// How many numbers of scratch a worker needs, in single and in double precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scratch {
    pub(crate) single: usize,
    pub(crate) double: usize,
}

/// Makes a buffer at least `len` long.
pub(crate) fn grow<T: Copy + Default>(buffer: &mut Vec<T>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, T::default());
    }
}
