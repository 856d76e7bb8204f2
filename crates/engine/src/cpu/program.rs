//! A graph compiled for one purpose: its steps, its schedule, its arranged weights, and where its gradients go.

use std::ops::Range;

use dapple_graph::{Graph, Parameters};
use rayon::prelude::*;

use super::form::{Form, Transfer};
use super::gemm::Prepared;
use super::kernel::Lanes;
use super::pointwise;
use super::schedule::{self, ActionKind, Purpose, Schedule};
use super::step::{Kernel, Steps, lower};
use super::sum::GradientSum;
use super::worker::{Shared, Worker};
use crate::clipping::Clipping;
use crate::error::EngineError;
use crate::layout::Layout;
use crate::stats::StepStats;

/// A compiled graph.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) steps: Steps,
    schedule: Schedule,
    prepared: Vec<Prepared>,
    places: Vec<Option<Range<usize>>>,
    materialised: usize,
    /// For every trainable parameter, how its gradient is made.
    sources: Vec<Source>,
    /// Numbers of sums in the kernels' order.
    arranged: usize,
    output: (usize, Transfer),
}

/// How a parameter's gradient is made and stored.
#[derive(Debug, Clone)]
struct Source {
    /// The step whose stored order the gradient has; `None` where it is the parameter's own.
    step: Option<usize>,
    /// Where it lies in a sample's materialised gradient; `None` if it is deferred.
    place: Option<Range<usize>>,
    /// Where it is summed in the kernels' order; `None` if that is the parameter's own.
    arranged: Option<Range<usize>>,
    /// Buffers of the inputs and the gradients of a deferred step.
    deferred: Option<Deferred>,
}

#[derive(Debug, Clone, Copy)]
struct Deferred {
    input: usize,
    gradient: usize,
}

/// Floating-point operations of the matrix products of one sample: forward, data gradient and weight gradient.
pub(crate) fn operations(steps: &Steps) -> usize {
    let of = |step: &super::step::Step| match &step.kernel {
        Kernel::Gemm(gemm) => {
            let first = matches!(steps.steps[step.inputs[0]].kernel, Kernel::Input(_));
            gemm.multiplications() * if first { 4 } else { 6 }
        }
        _ => 0,
    };
    steps.steps.iter().map(of).sum()
}

impl Program {
    pub(crate) fn inference(graph: &Graph) -> Self {
        let mut steps = lower(graph, false);
        steps.steps.iter_mut().for_each(|step| step.needs_gradient = false);
        let deferred = vec![false; steps.steps.len()];
        let purpose = Purpose { training: false, checkpoints: false, deferred: &deferred };
        Self::new(graph, steps, &purpose, None)
    }

    pub(crate) fn training(graph: &Graph, layout: &Layout, views: usize, checkpoints: bool) -> Self {
        let steps = lower(graph, true);
        let deferred: Vec<bool> = steps
            .steps
            .iter()
            .map(|step| match &step.kernel {
                Kernel::Gemm(gemm) => {
                    let trains = layout.position(gemm.weight).is_some() && step.needs_gradient;
                    // With checkpoints memory comes first: a layer is deferred only if what it keeps is less than its gradient.
                    let kept = gemm.rows_in * gemm.channels + gemm.rows_out * gemm.out;
                    trains && gemm.prefers_ghost(views) && (!checkpoints || kept < gemm.weight_len())
                }
                _ => false,
            })
            .collect();
        let purpose = Purpose { training: true, checkpoints, deferred: &deferred };
        Self::new(graph, steps, &purpose, Some(layout))
    }

    fn new(graph: &Graph, steps: Steps, purpose: &Purpose<'_>, layout: Option<&Layout>) -> Self {
        let schedule = Schedule::new(&steps, purpose);
        let mut places = vec![None; graph.parameters().len()];
        let (mut materialised, mut arranged) = (0, 0);
        let mut sources = Vec::new();
        for entry in layout.map_or(&[][..], Layout::entries) {
            let step = steps.steps.iter().position(|step| match &step.kernel {
                Kernel::Gemm(gemm) => gemm.weight == entry.id,
                Kernel::Depthwise(depthwise) => depthwise.weight == entry.id,
                _ => false,
            });
            let deferred = step.filter(|&step| purpose.deferred[step]).and_then(|step| {
                let action =
                    schedule.actions.iter().find(|a| a.step == step && a.kind == ActionKind::Backward)?;
                Some(Deferred { input: action.inputs[0], gradient: action.gradient? })
            });
            let place = deferred.is_none().then(|| {
                let place = materialised..materialised + entry.range.len();
                materialised = place.end;
                places[entry.id.index()] = Some(place.clone());
                place
            });
            let moves = step.is_some_and(|step| match &steps.steps[step].kernel {
                Kernel::Gemm(gemm) => !gemm.natural(),
                _ => true,
            });
            let arranged = moves.then(|| {
                let place = arranged..arranged + entry.range.len();
                arranged = place.end;
                place
            });
            sources.push(Source { step, place, arranged, deferred });
        }
        let last = schedule.actions.iter().rfind(|a| a.step == steps.output && a.kind == ActionKind::Forward);
        let form = &steps.steps[steps.output].form;
        let logical = Form::row_major(&form.shape);
        let transfer = Transfer::new(&form.shape, (0, form.strides()), (0, logical.strides()));
        let output = (last.map_or(0, |action| action.output), transfer);
        let prepared = vec![Prepared::default(); steps.steps.len()];
        Self { steps, schedule, prepared, places, materialised, sources, arranged, output }
    }

    /// Bytes that one item needs.
    pub(crate) fn item_bytes(&self) -> usize {
        4 * (self.schedule.buffers.iter().sum::<usize>() + self.materialised)
    }

    /// Arranges the weights of every layer.
    pub(crate) fn prepare(&mut self, lanes: Lanes, parameters: &Parameters) {
        let steps = &self.steps.steps;
        steps.par_iter().zip(&mut self.prepared).for_each(|(step, prepared)| match &step.kernel {
            Kernel::Gemm(gemm) => {
                let gradient = steps[step.inputs[0]].needs_gradient;
                let bias = gemm.bias.map(|id| parameters.get(id));
                gemm.prepare(lanes, parameters.get(gemm.weight), bias, gradient, prepared);
            }
            Kernel::Depthwise(depthwise) => {
                depthwise.prepare(parameters.get(depthwise.weight), &mut prepared.forward);
                prepared.bias.clear();
                prepared.bias.extend_from_slice(depthwise.bias.map_or(&[], |id| parameters.get(id)));
            }
            _ => {}
        });
    }

    pub(crate) fn shared<'a>(
        &'a self,
        graph: &'a Graph,
        layout: &'a Layout,
        lanes: Lanes,
        parameters: &'a Parameters,
    ) -> Shared<'a> {
        Shared {
            graph,
            steps: &self.steps,
            schedule: &self.schedule,
            lanes,
            parameters,
            prepared: &self.prepared,
            places: &self.places,
            materialised: self.materialised,
            layout,
        }
    }

    /// Numbers of scratch a worker needs, with this many threads inside an item.
    pub(crate) fn scratch(&self, lanes: Lanes, views: usize, parallel: usize) -> usize {
        let ghost = self.sources.iter().filter_map(|source| match &self.steps.steps[source.step?].kernel {
            Kernel::Gemm(gemm) if source.deferred.is_some() => Some(gemm.ghost_scratch(lanes, views)),
            Kernel::Gemm(gemm) => Some(3 * gemm.out),
            _ => None,
        });
        let steps = self.steps.steps.iter().map(|step| schedule::scratch(&step.kernel, lanes, parallel));
        ghost.chain(steps).max().unwrap_or(0)
    }

    /// Copies a worker's outputs, in row-major order.
    pub(crate) fn collect(&self, worker: &Worker, outputs: &mut [f32]) {
        let (slot, transfer) = &self.output;
        let len = self.steps.steps[self.steps.output].form.len();
        let stride = self.schedule.buffers[*slot];
        for (item, output) in outputs.chunks_exact_mut(len).enumerate() {
            transfer.copy(&worker.buffers[*slot][item * stride..][..len], output);
        }
    }

    /// A part of a worker's buffer: one item of a value of `len` numbers.
    fn item<'w>(&self, worker: &'w Worker, slot: usize, item: usize, len: usize) -> &'w [f32] {
        &worker.buffers[slot][item * self.schedule.buffers[slot]..][..len]
    }

    /// Takes the norms that the layers have not taken yet, decides the samples' clipping factors, and applies them to deferred gradients.
    pub(crate) fn clip(
        &self,
        worker: &mut Worker,
        layout: &Layout,
        clipping: &Clipping,
        samples: usize,
        views: usize,
    ) {
        let entries = self.sources.len();
        let Worker { buffers, materialised, squared, factors, .. } = worker;
        for sample in 0..samples {
            let squared = &mut squared[sample * entries..][..entries];
            if *clipping != Clipping::Off {
                for (source, squared) in self.sources.iter().zip(&mut *squared) {
                    let layer = source.step.map(|step| &self.steps.steps[step].kernel);
                    if let (false, Some(place)) = (matches!(layer, Some(Kernel::Gemm(_))), &source.place) {
                        let gradient = &materialised[sample * self.materialised..][place.clone()];
                        *squared = pointwise::squared_norm(gradient);
                    }
                }
            }
            clipping.factors(layout, squared, &mut factors[sample * entries..][..entries]);
        }
        for (index, source) in self.sources.iter().enumerate() {
            let Some(Deferred { gradient, .. }) = source.deferred else { continue };
            let Some(step) = source.step else { continue };
            let len = self.steps.steps[step].form.len();
            let stride = self.schedule.buffers[gradient];
            for item in 0..samples * views {
                let factor = factors[item / views * entries + index];
                if factor != 1.0 {
                    pointwise::rescale(&mut buffers[gradient][item * stride..][..len], factor);
                }
            }
        }
    }

    /// Appends losses and norms to the statistics; refuses what is not finite.
    pub(crate) fn report(
        &self,
        workers: &[Worker],
        layout: &Layout,
        views: usize,
        clipping: &Clipping,
        first: usize,
        stats: &mut StepStats,
    ) -> Result<(), EngineError> {
        let entries = self.sources.len();
        let mut index = first;
        for worker in workers {
            for sample in 0..worker.losses.len() / views {
                let loss = worker.losses[sample * views..][..views].iter().sum::<f64>() / views as f64;
                if !loss.is_finite() {
                    return Err(EngineError::NotFinite { place: "loss".into(), sample: index });
                }
                let squared = &worker.squared[sample * entries..][..entries];
                if let Some(entry) = squared.iter().position(|square| !(square.sqrt() as f32).is_finite()) {
                    let place = format!("gradient of {}", layout.entries()[entry].name);
                    return Err(EngineError::NotFinite { place, sample: index });
                }
                stats.losses.push(loss as f32);
                let norm = if *clipping == Clipping::Off { 0.0 } else { squared.iter().sum::<f64>().sqrt() };
                stats.norms.push(norm as f32);
                index += 1;
            }
        }
        Ok(())
    }

    /// Adds the clipped gradients of all workers' samples to the sum, sample after sample.
    pub(crate) fn accumulate(
        &self,
        workers: &[Worker],
        layout: &Layout,
        views: usize,
        sum: &mut GradientSum,
    ) {
        let entries = layout.entries().len();
        for (index, (source, entry)) in self.sources.iter().zip(layout.entries()).enumerate() {
            let part = match &source.arranged {
                Some(range) => &mut sum.arranged[range.clone()],
                None => &mut sum.values[entry.range.clone()],
            };
            if let Some(place) = &source.place {
                part.par_chunks_mut(BLOCK).enumerate().for_each(|(block, part)| {
                    let start = place.start + block * BLOCK;
                    for worker in workers {
                        for sample in 0..worker.losses.len() / views {
                            let factor = worker.factors[sample * entries + index];
                            let gradient =
                                &worker.materialised[sample * self.materialised + start..][..part.len()];
                            pointwise::scale(gradient, factor, part, true);
                        }
                    }
                });
            }
            let (Some(deferred), Some(step)) = (source.deferred, source.step) else { continue };
            let Kernel::Gemm(gemm) = &self.steps.steps[step].kernel else { continue };
            let mut items = workers
                .iter()
                .flat_map(|worker| (0..worker.losses.len()).map(move |item| (worker, item)))
                .map(|(worker, item)| {
                    let x = self.item(worker, deferred.input, item, gemm.rows_in * gemm.channels);
                    (x, self.item(worker, deferred.gradient, item, gemm.rows_out * gemm.out))
                });
            let mut together: [(&[f32], &[f32]); TOGETHER] = [(&[], &[]); TOGETHER];
            loop {
                let count = together.iter_mut().zip(&mut items).map(|(place, item)| *place = item).count();
                if count == 0 {
                    break;
                }
                gemm.backward_weight(&together[..count], part, &mut [], rayon::current_num_threads());
            }
        }
    }

    /// Makes zeros of an empty sum, in the memory of an earlier one.
    pub(crate) fn reserve(
        &self,
        layout: &Layout,
        sum: &mut GradientSum,
        spare: &mut Vec<f32>,
    ) -> Result<(), EngineError> {
        if std::mem::replace(&mut sum.empty, false) {
            sum.arranged = std::mem::take(spare);
            sum.arranged.resize(self.arranged, 0.0);
            sum.arranged.par_chunks_mut(BLOCK).for_each(|block| block.fill(0.0));
            // What is summed in the kernels' order is written as a whole at the end.
            for (source, entry) in self.sources.iter().zip(layout.entries()) {
                if source.arranged.is_none() {
                    sum.values[entry.range.clone()].par_chunks_mut(BLOCK).for_each(|block| block.fill(0.0));
                }
            }
        }
        if sum.arranged.len() == self.arranged { Ok(()) } else { Err(EngineError::Parameters) }
    }

    /// Puts every parameter's sum into the parameter's own order.
    pub(crate) fn export(&self, layout: &Layout, arranged: &[f32], gradient: &mut [f32]) {
        for (source, entry) in self.sources.iter().zip(layout.entries()) {
            let (Some(range), Some(step)) = (&source.arranged, source.step) else { continue };
            let (sum, part) = (&arranged[range.clone()], &mut gradient[entry.range.clone()]);
            match &self.steps.steps[step].kernel {
                Kernel::Gemm(gemm) => gemm.export(&self.prepared[step], sum, part),
                Kernel::Depthwise(depthwise) => depthwise.export(sum, part),
                _ => {}
            }
        }
    }
}

/// Numbers that one thread adds up at a time.
const BLOCK: usize = 16 * 1024;
/// Items whose deferred gradients are summed in one product.
const TOGETHER: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_graph::zoo::{Norm, ResNet, psp_net, resnet};

    #[test]
    fn checkpoints_save_memory() {
        let classifier = resnet(ResNet::R50, &[3, 224, 224], 10, Norm::Group(32)).unwrap();
        // Values that skip parts of the network are kept.
        let pyramid = psp_net(ResNet::R50, &[3, 257, 257], 19, Norm::Group(32)).unwrap();
        for graph in [classifier, pyramid] {
            let layout = Layout::new(&graph);
            let len = |checkpoints| Program::training(&graph, &layout, 1, checkpoints).item_bytes();
            let (all, some) = (len(false), len(true));
            assert!(3 * some < 2 * all, "{some} of {all}");
        }
    }
}
