//! A graph compiled for one purpose: its steps, its schedule, and where its gradients go.

use std::collections::BTreeSet;
use std::ops::Range;

use dapple_graph::{Graph, ParameterId, Parameters};
use rayon::prelude::*;

use super::CpuOptions;
use super::arranged::ArrangedWeights;
use super::form::{Form, Transfer};
use super::kernel::Lanes;
use super::operation::WeightedKernel;
use super::plan::SchedulePlan;
use super::pointwise;
use super::schedule::{ActionKind, Schedule};
use super::share::{Bytes, SampleSharing, TOTAL_BYTES};
use super::step::{CpuStep, CpuSteps, lower};
use super::sum::BLOCK;
use super::summand::Summand;
use super::worker::{CpuWorker, Scratch, Shared};
use crate::clipping::ClippingRule;
use crate::layout::Layout;
use crate::stats::StepStats;

/// A compiled graph.
#[derive(Debug)]
pub(crate) struct CpuProgram {
    pub(crate) steps: CpuSteps,
    pub(crate) schedule: Schedule,
    bytes: Bytes,
    /// For every parameter, the step that multiplies by it as its weight, if there is one.
    multiplying: Vec<Option<usize>>,
    places: Vec<Option<Range<usize>>>,
    pub(crate) materialised: usize,
    /// For every trainable parameter, how its gradient is made.
    pub(crate) sources: Vec<GradientSource>,
    /// How many means of filters a sample has.
    pub(crate) means: usize,
    output: (usize, Transfer),
}

/// How a parameter's gradient is made and stored.
#[derive(Debug, Clone)]
pub(crate) struct GradientSource {
    /// The step that multiplies by the parameter as its weight, if there is one.
    pub(crate) step: Option<usize>,
    /// Where the gradient lies among a sample's written gradients; `None` if it is deferred, or zero because no output depends on the
    /// parameter.
    pub(crate) place: Option<Range<usize>>,
    /// Whether the gradient is summed in the kernel's order, which is not the parameter's own.
    arranged: bool,
    /// The buffers of the inputs and the gradients of a deferred step.
    pub(crate) deferred: Option<Deferred>,
    /// Where the means of its filters lie among a sample's means; `None` if the parameter is not standardised.
    pub(crate) means: Option<Range<usize>>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Deferred {
    pub(crate) input: usize,
    pub(crate) gradient: usize,
}

/// The number of floating-point operations in the matrix products of one sample: forward, data gradient and weight gradient.
pub(crate) fn operations(steps: &CpuSteps) -> usize {
    let of = |step: &CpuStep| {
        let gemm = step.kernel.product()?;
        // No gradient of the sample itself is computed.
        let passes = if Some(step.inputs[0]) == steps.input { 4 } else { 6 };
        Some(gemm.multiplications() * passes)
    };
    steps.steps.iter().filter_map(of).sum()
}

impl CpuProgram {
    pub(crate) fn inference(graph: &Graph, options: &CpuOptions) -> Self {
        let mut steps = lower(graph, false);
        steps.steps.iter_mut().for_each(|step| step.needs_gradient = false);
        let plan = SchedulePlan::inference(&steps, options);
        Self::new(graph, steps, plan, None)
    }

    /// The program of a training step. What it has in common with the program `like` of another graph with the same parameters, both share.
    pub(crate) fn training(
        graph: &Graph,
        layout: &Layout,
        views: usize,
        options: &CpuOptions,
        like: Option<&Self>,
    ) -> Self {
        let mut steps = lower(graph, true);
        if let Some(like) = like {
            steps.share(&like.steps);
        }
        let read = trained(graph);
        let own = layout.entries().iter().filter(|entry| read.contains(&entry.id));
        let trained = own.map(|entry| entry.range.len()).sum();
        let plan = SchedulePlan::training(&steps, (layout, trained), views, options, TOTAL_BYTES);
        Self::new(graph, steps, plan, Some(layout))
    }

    fn new(graph: &Graph, steps: CpuSteps, plan: SchedulePlan, layout: Option<&Layout>) -> Self {
        let SchedulePlan { schedule, bytes, deferred } = plan;
        let mut places = vec![None; graph.parameters().len()];
        let mut multiplying = vec![None; graph.parameters().len()];
        for (index, step) in steps.steps.iter().enumerate() {
            if let Some(kernel) = step.kernel.weighted() {
                multiplying[kernel.weight().index()] = Some(index);
            }
        }
        let read = trained(graph);
        let (mut materialised, mut means) = (0, 0);
        let mut sources = Vec::new();
        for entry in layout.map_or(&[][..], Layout::entries) {
            let step = multiplying[entry.id.index()];
            let deferred = step.filter(|&step| deferred[step]).and_then(|step| {
                let action =
                    schedule.actions.iter().find(|a| a.step == step && a.kind == ActionKind::Backward)?;
                Some(Deferred { input: action.inputs[0], gradient: action.gradient? })
            });
            let place = (deferred.is_none() && read.contains(&entry.id)).then(|| {
                let place = materialised..materialised + entry.range.len();
                materialised = place.end;
                places[entry.id.index()] = Some(place.clone());
                place
            });
            let kernel = step.map(|step| &steps.steps[step].kernel);
            let arranged =
                kernel.and_then(|kernel| kernel.weighted()).is_some_and(|kernel| kernel.arranged());
            let filters = kernel
                .and_then(|kernel| kernel.product())
                .and_then(|gemm| gemm.standardise.map(|_| gemm.out));
            let own = filters.map(|filters| means..means + filters);
            means += filters.unwrap_or(0);
            sources.push(GradientSource { step, place, arranged, deferred, means: own });
        }
        let last = schedule.actions.iter().rfind(|a| a.step == steps.output && a.kind == ActionKind::Forward);
        let form = &steps.steps[steps.output].form;
        let logical = Form::row_major(&form.shape);
        let transfer = Transfer::whole(form, &logical);
        let output = (last.map_or(0, |action| action.output), transfer);
        Self { steps, schedule, bytes, multiplying, places, materialised, sources, means, output }
    }

    /// How many bytes one sample takes in one worker.
    pub(crate) fn sample_bytes(&self) -> u64 {
        self.bytes.worker as u64 + self.bytes.sample as u64
    }

    /// How samples are shared among threads.
    pub(crate) fn sharing(&self, options: &CpuOptions) -> SampleSharing {
        SampleSharing::new(options, self.bytes)
    }

    /// How many bytes the workers take.
    pub(crate) fn worker_bytes(&self, options: &CpuOptions) -> usize {
        self.sharing(options).bytes(self.bytes)
    }

    /// The kernel that multiplies by a parameter as its weight, if there is one.
    pub(crate) fn multiplying(&self, parameter: usize) -> Option<&dyn WeightedKernel> {
        self.steps.steps[self.multiplying[parameter]?].kernel.weighted()
    }

    pub(crate) fn shared<'a>(
        &'a self,
        graph: &'a Graph,
        layout: &'a Layout,
        lanes: Lanes,
        parameters: &'a Parameters,
        weights: &'a ArrangedWeights,
    ) -> Shared<'a> {
        Shared {
            graph,
            steps: &self.steps,
            schedule: &self.schedule,
            lanes,
            parameters,
            weights,
            places: &self.places,
            materialised: self.materialised,
            layout,
            sources: &self.sources,
            means: self.means,
        }
    }

    /// How many numbers of scratch a worker needs, with this many threads inside an item.
    pub(crate) fn scratch(&self, lanes: Lanes, views: usize, parallel: usize) -> Scratch {
        let norms = self.sources.iter().filter_map(|source| {
            let gemm = self.steps.steps[source.step?].kernel.product()?;
            Some(if source.deferred.is_some() { gemm.ghost_scratch(views) } else { 2 * gemm.out })
        });
        let steps = self.steps.steps.iter().map(|step| step.kernel.scratch(lanes, parallel));
        Scratch { single: steps.max().unwrap_or(0), double: norms.max().unwrap_or(0) }
    }

    /// Copies a worker's outputs into row-major order.
    pub(crate) fn collect(&self, worker: &CpuWorker, outputs: &mut [f32]) {
        let (slot, transfer) = &self.output;
        let len = self.steps.steps[self.steps.output].form.len();
        let stride = self.schedule.stride(*slot);
        for (item, output) in outputs.chunks_exact_mut(len).enumerate() {
            transfer.copy(&worker.buffers[*slot][item * stride..][..len], output);
        }
    }

    /// Takes the norms that the layers have not taken yet, and decides the samples' clipping factors.
    pub(crate) fn clip(
        &self,
        worker: &mut CpuWorker,
        (rule, layout): (&ClippingRule, &Layout),
        weights: &ArrangedWeights,
        views: usize,
    ) {
        let entries = self.sources.len();
        let CpuWorker { materialised, losses, squared, factors, filter_factors, .. } = worker;
        for sample in 0..losses.len() / views {
            let squared = &mut squared[sample * entries..][..entries];
            if rule.unit().is_some() {
                for (source, squared) in self.sources.iter().zip(&mut *squared) {
                    // Matrix products have already taken their norms.
                    let taken =
                        source.step.is_some_and(|step| self.steps.steps[step].kernel.product().is_some());
                    if let (false, Some(place)) = (taken, &source.place) {
                        let gradient = &materialised[sample * self.materialised..][place.clone()];
                        let computed = pointwise::squared_norm(gradient);
                        *squared = pointwise::squared_norm_rounding(gradient.len(), computed);
                    }
                }
            }
            let factors = &mut factors[sample * entries..][..entries];
            rule.factors(squared, factors);
            for ((source, entry), &factor) in self.sources.iter().zip(layout.entries()).zip(&*factors) {
                if let Some(means) = &source.means {
                    let own = &mut filter_factors[sample * self.means..][means.clone()];
                    for (own, inverse) in own.iter_mut().zip(&weights.get(entry.id.index()).inverses) {
                        *own = factor * inverse;
                    }
                }
            }
        }
    }

    /// Appends the losses and norms of the workers' samples to the statistics.
    pub(crate) fn report(
        &self,
        workers: &[CpuWorker],
        rule: &ClippingRule,
        views: usize,
        stats: &mut StepStats,
    ) {
        let entries = self.sources.len();
        for worker in workers {
            for sample in 0..worker.losses.len() / views {
                let loss = worker.losses[sample * views..][..views].iter().sum::<f64>() / views as f64;
                let squared = &worker.squared[sample * entries..][..entries];
                let norm = if rule.unit().is_none() { 0.0 } else { rule.norm(squared) };
                stats.losses.push(loss as f32);
                stats.norms.push(norm as f32);
                let factors = &worker.factors[sample * entries..][..entries];
                stats.not_finite += usize::from(factors.iter().all(|&factor| factor == 0.0));
                stats.unclipped += usize::from(rule.leaves(factors));
            }
        }
    }

    /// The kernel in whose order the gradient of a trainable parameter is summed, if that is not the parameter's own.
    fn arranging(&self, entry: usize) -> Option<&dyn WeightedKernel> {
        let source = self.sources.get(entry).filter(|source| source.arranged)?;
        self.steps.steps[source.step?].kernel.weighted()
    }
}

/// The parameters that some node reads through which a gradient passes. The gradients of all others are zero.
fn trained(graph: &Graph) -> BTreeSet<ParameterId> {
    let nodes = graph.nodes().iter().zip(graph.needs_gradient()).filter(|(_, needs)| *needs);
    nodes.flat_map(|(node, _)| node.op.parameters()).collect()
}

/// How many numbers of spare memory [`export`] needs.
pub(crate) fn spare<'p>(programs: impl Iterator<Item = &'p CpuProgram> + Clone, layout: &Layout) -> usize {
    let entries = layout.entries().iter().enumerate();
    let arranged =
        entries.filter(|(index, _)| programs.clone().any(|program| program.arranging(*index).is_some()));
    arranged.map(|(_, entry)| entry.range.len()).max().unwrap_or(0)
}

/// Puts every parameter's sum into the parameter's own order, by way of the spare memory. The programs are those that added to the sum; a
/// parameter by which none of them multiplied has a sum of zero, in any order.
pub(crate) fn export<'p, T: Summand>(
    programs: impl Iterator<Item = &'p CpuProgram> + Clone,
    layout: &Layout,
    weights: &ArrangedWeights,
    gradient: &mut [T],
    spare: &mut [T],
) {
    for (index, entry) in layout.entries().iter().enumerate() {
        let Some(kernel) = programs.clone().find_map(|program| program.arranging(index)) else { continue };
        if !weights.was_arranged(entry.id.index()) {
            continue;
        }
        let part = &mut gradient[entry.range.clone()];
        let sum = &mut spare[..part.len()];
        sum.par_chunks_mut(BLOCK).zip(part.par_chunks(BLOCK)).for_each(|(to, from)| to.copy_from_slice(from));
        kernel.export(weights.get(entry.id.index()), T::exported(sum, part));
    }
}
