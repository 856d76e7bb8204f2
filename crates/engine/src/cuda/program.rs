//! A graph planned for one purpose: where every value, gradient and partial sum lies, and how each parameter's gradient is made.

use std::collections::BTreeSet;

use dapple_graph::{Graph, ParameterId};

use super::Precision;
use super::halved::HalvedGradient;
use super::kernels::{GradientBlock, GradientPart, HalvedBlock};
use super::lower::CardSteps;
use super::operation::CudaKernel;
use super::sharing::Contribution;
use super::sources::CardGradientSource;
use crate::layout::Layout;

/// Rough speeds of a large card, for choosing between two ways to a norm: how many operations it does in a second for inner products in
/// double precision, for the sum of a linear layer's gradients that are not written down, and for cuBLAS's products; and how many bytes it
/// moves.
pub(crate) const PRODUCTS: f64 = 20e12;
pub(crate) const OUTER_PRODUCTS: f64 = 15e12;
pub(crate) const LIBRARY_PRODUCTS: f64 = 100e12;
const BYTES: f64 = 3e12;
/// The buffers of a node; `None` if there is nothing to hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Buffers {
    pub(crate) value: Option<usize>,
    pub(crate) gradient: Option<usize>,
    pub(crate) kept: Option<usize>,
    pub(crate) scratch: Option<usize>,
}

/// A planned graph.
#[derive(Debug)]
pub(crate) struct CardProgram {
    pub(crate) steps: CardSteps,
    /// Which nodes a pass visits, which are those on which one of its outputs depends.
    pub(crate) runs: Vec<bool>,
    pub(crate) views: usize,
    pub(crate) buffers: Vec<Buffers>,
    /// For every input of every node, how its gradient meets those of other readers; `None` if it needs no gradient.
    pub(crate) contributions: Vec<Vec<Option<Contribution>>>,
    /// Where each buffer starts in an item's memory, how many numbers it has, and how many the whole memory of an item has.
    pub(crate) offsets: Vec<usize>,
    pub(crate) sizes: Vec<usize>,
    pub(crate) item_len: usize,
    pub(crate) sources: Vec<CardGradientSource>,
    /// For each node, whether its weight gradients are deferred, which means that they are never written down for each sample.
    pub(crate) deferred: Vec<bool>,
    /// For each node whose weight gradient is written in half precision, where it lies among a sample's; and how many pairs of halves a
    /// sample has in all.
    pub(crate) halved: Vec<Option<HalvedGradient>>,
    pub(crate) halved_len: usize,
    /// The blocks of the sum of those gradients.
    pub(crate) halved_blocks: Vec<HalvedBlock>,
    /// How many numbers a sample's written gradient has.
    pub(crate) written: usize,
    /// How many partial sums a sample has, and the parts of written gradients to which the first of them belong.
    pub(crate) partials: usize,
    pub(crate) parts: Vec<GradientPart>,
    /// The blocks of the sum of written gradients.
    pub(crate) blocks: Vec<GradientBlock>,
    /// The number of filters of all trainable standardised layers, each of which has a mean.
    pub(crate) means: usize,
    /// How many numbers of workspace a sample needs.
    pub(crate) workspace: usize,
    /// How many bytes it takes to unfold a few samples of the largest convolution.
    pub(crate) unfolding: usize,
}

impl CardProgram {
    /// The plan of a forward pass.
    pub(crate) fn inference(graph: &Graph, precision: Precision) -> Self {
        let mut steps = CardSteps::new(graph, precision);
        steps.needs_gradient.fill(false);
        steps.outputs.truncate(1);
        Self::new(steps, graph.reached(false), 1, None)
    }

    /// The plan of a forward and a backward pass over samples with this many views.
    pub(crate) fn training(graph: &Graph, layout: &Layout, views: usize, precision: Precision) -> Self {
        Self::of_submodel((graph, graph), layout, views, precision)
    }

    /// The same for a submodel of a graph.
    pub(crate) fn of_submodel(
        (graph, whole): (&Graph, &Graph),
        layout: &Layout,
        views: usize,
        precision: Precision,
    ) -> Self {
        let steps = CardSteps::of_submodel(graph, whole, precision);
        let needs = graph.nodes().iter().zip(graph.needs_gradient());
        let trained = needs.filter(|(_, needs)| *needs).flat_map(|(node, _)| node.op.parameters()).collect();
        Self::new(steps, graph.reached(true), views, Some((layout, &trained)))
    }

    /// The plan of some passes. For a backward pass it needs the layout, and the parameters that some node reads through which a gradient
    /// passes.
    fn new(
        steps: CardSteps,
        runs: Vec<bool>,
        views: usize,
        training: Option<(&Layout, &BTreeSet<ParameterId>)>,
    ) -> Self {
        let layout = training.map(|(layout, _)| layout);
        let count = steps.operations.len();
        let trains = |operation: &dyn CudaKernel| {
            operation.weight().is_some_and(|id| layout.is_some_and(|l| l.position(id).is_some()))
        };
        let weighs = |node: usize| {
            let operation = steps.operations[node].as_deref();
            operation.filter(|&operation| steps.needs_gradient[node] && trains(operation))
        };
        let ghost = |operation: &dyn CudaKernel| !operation.halves() && operation.prefers_ghost(views);
        let deferred = (0..count).map(|node| weighs(node).is_some_and(ghost)).collect();
        let (mut halved_len, mut halved_count) = (0, 0);
        let halved = (0..count).map(|node| {
            let weight = weighs(node).filter(|operation| operation.halves())?.weight()?;
            let place = HalvedGradient { start: halved_len, number: halved_count };
            let position = layout.and_then(|layout| layout.position(weight))?;
            halved_len += layout?.entries()[position].range.len() / 2;
            halved_count += 1;
            Some(place)
        });
        let halved = halved.collect();
        let mut program = Self {
            steps,
            runs,
            views,
            buffers: vec![Buffers::default(); count],
            contributions: Vec::new(),
            offsets: Vec::new(),
            sizes: Vec::new(),
            item_len: 0,
            sources: Vec::new(),
            deferred,
            halved,
            halved_len,
            halved_blocks: Vec::new(),
            written: 0,
            partials: 0,
            parts: Vec::new(),
            blocks: Vec::new(),
            means: 0,
            workspace: 0,
            unfolding: 0,
        };
        program.place(trains, layout.is_some());
        if let Some((layout, trained)) = training {
            program.source(layout, trained);
        }
        program
    }

    /// The number of weights whose gradient is written in halves.
    pub(crate) fn halved_count(&self) -> usize {
        self.halved.iter().flatten().count()
    }
}

/// How many seconds a sample's written weight gradients take, which are written, read for the norm, and read for the sum.
pub(crate) fn written(weights: f64) -> f64 {
    12.0 * weights / BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    use dapple_graph::zoo;

    #[test]
    fn small_positions_and_many_weights_are_deferred() {
        let graph = zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 32, 32], 10).unwrap();
        let layout = Layout::new(&graph);
        let program = CardProgram::training(&graph, &layout, 1, Precision::F32);
        let written = |name: &str| {
            let entry = layout.entries().iter().position(|entry| entry.name == name).unwrap();
            program.sources[entry].written.is_some()
        };
        assert!(written("block1.0.conv2.weight") && written("norm.weight"));
        assert!(!written("block3.1.conv2.weight") && !written("fc.weight"));
        assert_eq!(program.sources.len(), layout.entries().len());
    }

    /// Blocks and parts cover what is written exactly once, none reaches from one filter into the next, and every filter has a mean of its
    /// own.
    #[test]
    fn blocks_and_parts_keep_to_their_filters() {
        let graph = zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 32, 32], 10).unwrap();
        let layout = Layout::new(&graph);
        let program = CardProgram::training(&graph, &layout, 1, Precision::F32);
        let (mut written, mut summed) = (vec![0; program.written], vec![0; layout.len()]);
        let mut means = vec![0; program.means];
        for part in &program.parts {
            written[part.start as usize..][..part.len as usize].iter_mut().for_each(|count| *count += 1);
            if part.mean >= 0 {
                means[part.mean as usize] += 1;
            }
        }
        for block in &program.blocks {
            let [from, len, to, entry] =
                [block.start, block.len, block.target, block.entry].map(|value| value as usize);
            summed[to..to + len].iter_mut().for_each(|count| *count += 1);
            let (entry, source) = (&layout.entries()[entry], &program.sources[entry]);
            assert_eq!(source.written.map(|start| start + to - entry.range.start), Some(from));
            if let Some(first) = source.means {
                let filter = program
                    .parts
                    .iter()
                    .find(|part| part.mean == block.mean)
                    .map(|part| (part.start as usize, (part.start + part.len) as usize));
                assert!(filter.is_some_and(|(start, end)| start <= from && from + len <= end));
                assert!(block.mean as usize >= first && block.inverse >= 0);
            } else {
                assert_eq!((block.mean, block.inverse), (-1, -1));
            }
        }
        for (entry, source) in layout.entries().iter().zip(&program.sources) {
            let wanted = i32::from(source.written.is_some());
            assert!(summed[entry.range.clone()].iter().all(|&count| count == wanted), "{}", entry.name);
            if let Some(start) = source.written {
                assert!(written[start..][..entry.range.len()].iter().all(|&count| count == 1));
            }
        }
        // The means of deferred layers are computed elsewhere, so parts do not cover them.
        assert!(means.iter().all(|&count| count <= 1) && means.contains(&1) && means.contains(&0));
    }

    /// If factors may be rounded, the gradients of layers over tokens are written in halves, each at a place of its own.
    #[test]
    fn layers_over_tokens_are_written_down_in_halves() {
        let model = zoo::VisionTransformer::named("vit-ti-16").unwrap();
        let graph = zoo::vision_transformer(model, &[3, 128, 128], 10).unwrap();
        let layout = Layout::new(&graph);
        let count = |precision: Precision| {
            let program = CardProgram::training(&graph, &layout, 1, precision);
            let places: Vec<_> = program.halved.iter().flatten().collect();
            assert!(
                places.iter().zip(&places[1.min(places.len())..]).all(|(one, next)| one.start < next.start)
            );
            assert!(places.iter().enumerate().all(|(number, place)| place.number == number));
            assert_eq!(
                program.sources.iter().map(|source| source.partials.len()).sum::<usize>(),
                program.partials
            );
            let written = |name: &str| {
                let entry = layout.entries().iter().position(|entry| entry.name == name).unwrap();
                program.sources[entry].written.is_some()
            };
            assert_eq!(written("blocks.0.mlp.fc1.weight"), places.is_empty());
            assert!(written("blocks.0.mlp.fc1.bias"));
            let mut summed = vec![0; layout.len()];
            for block in &program.halved_blocks {
                let [target, len, entry] = [block.target, block.len, block.entry].map(|value| value as usize);
                summed[target..target + len].iter_mut().for_each(|count| *count += 1);
                let range = &layout.entries()[entry].range;
                assert_eq!(block.first as usize, target - range.start);
                assert_eq!(block.stride as usize, range.len() / 2);
                assert_eq!(places[block.number as usize].start, block.start as usize);
            }
            for (entry, source) in layout.entries().iter().zip(&program.sources) {
                let halved = entry.name.starts_with("blocks.") && source.written.is_none();
                let wanted = i32::from(halved && !places.is_empty());
                assert!(summed[entry.range.clone()].iter().all(|&count| count == wanted), "{}", entry.name);
            }
            (places.len(), program.halved_len)
        };
        // Each of twelve blocks has four layers, of 12 x 192^2 weights together.
        let all = (48, 12 * 12 * 192 * 192 / 2);
        assert_eq!([Precision::F32, Precision::Tf32, Precision::Bf16].map(count), [(0, 0), all, all]);
    }

    #[test]
    fn partial_sums_cover_every_parameter_once() {
        for views in [1, 2] {
            let graph = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
            let layout = Layout::new(&graph);
            let program = CardProgram::training(&graph, &layout, views, Precision::F32);
            let mut ranges: Vec<Range<usize>> = program.sources.iter().map(|s| s.partials.clone()).collect();
            ranges.sort_by_key(|range| range.start);
            let mut next = 0;
            for range in ranges {
                assert_eq!(range.start, next);
                next = range.end;
            }
            assert_eq!(next, program.partials);
        }
    }
}
