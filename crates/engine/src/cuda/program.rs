//! A graph planned for one purpose: where every value, gradient and partial sum lies, and how each parameter's gradient is made.

use std::ops::Range;

use dapple_graph::Graph;
use dapple_graph::plan::Lifetime;

use super::geometry::Geometry;
use super::kind::{Conv, Kind, Tiled};
use super::lower::Steps;
use super::sharing::{Contribution, Sharing, backward};
use super::tile::{STEP, one_run};
use crate::layout::Layout;

/// Rough speeds of a large card, for choosing between two ways to a norm: operations in a second of inner products in double precision, of
/// the sum of a linear layer's gradients that are not written down, and of products by the library; and bytes moved.
const PRODUCTS: f64 = 20e12;
const OUTER_PRODUCTS: f64 = 15e12;
const LIBRARY_PRODUCTS: f64 = 100e12;
const BYTES: f64 = 3e12;
/// Positions of a deferred convolution, before and behind it, whose sums fit a block's shared memory.
const MOST_POSITIONS: usize = 4096;
/// Numbers of a written-down gradient that one block of threads squares, or adds up.
const PART: usize = 4096;
const BLOCK: usize = 1024;
/// Samples that should unfold together, and bytes that may be used for it.
const UNFOLDED_SAMPLES: usize = 8;
const MOST_UNFOLDED: usize = 2 << 30;

/// Buffers of a node; `None` where there is nothing to hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Buffers {
    pub(crate) value: Option<usize>,
    pub(crate) gradient: Option<usize>,
    pub(crate) kept: Option<usize>,
    pub(crate) scratch: Option<usize>,
}

/// How a trainable parameter's gradient is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// Where it lies in a sample's written-down gradient; `None` where only its norm is ever made.
    pub(crate) written: Option<usize>,
    /// Partial sums of its squared norm.
    pub(crate) partials: Range<usize>,
    /// Where what is taken off its filters lies among a sample's, if they are standardised.
    pub(crate) means: Option<usize>,
}

/// A planned graph.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) steps: Steps,
    /// Which nodes a pass visits: those that lead to an output it makes.
    pub(crate) runs: Vec<bool>,
    pub(crate) views: usize,
    pub(crate) buffers: Vec<Buffers>,
    /// For every node and input, whether its gradient is added to one that is there; `None` where it needs none.
    pub(crate) contributions: Vec<Vec<Option<Contribution>>>,
    /// Where each buffer starts in an item's memory, and the numbers in all of it.
    pub(crate) offsets: Vec<usize>,
    pub(crate) item_len: usize,
    pub(crate) sources: Vec<Source>,
    /// Whether a node's weight gradient is never written down per sample.
    pub(crate) deferred: Vec<bool>,
    /// Numbers in a sample's written-down gradient.
    pub(crate) written: usize,
    /// Partial sums per sample, and the table of those that are of written-down gradients.
    pub(crate) partials: usize,
    pub(crate) parts: Vec<i32>,
    /// Blocks of the sum of written-down gradients.
    pub(crate) blocks: Vec<i32>,
    /// Filters of all trainable standardised layers.
    pub(crate) means: usize,
    /// Numbers of workspace per sample.
    pub(crate) workspace: usize,
    /// Bytes in which a few samples of the largest written-down layer unfold.
    pub(crate) unfolding: usize,
    /// Whether a trainable parameter is on no path to the output: its gradient is zero.
    pub(crate) unreached: bool,
}

impl Program {
    /// The plan of a forward pass.
    pub(crate) fn inference(graph: &Graph) -> Self {
        let mut steps = Steps::new(graph);
        steps.needs_gradient.fill(false);
        steps.outputs.truncate(1);
        Self::new(steps, graph.reached(false), 1, None)
    }

    /// The plan of a forward and a backward pass over samples of this many views.
    pub(crate) fn training(graph: &Graph, layout: &Layout, views: usize) -> Self {
        let mut program = Self::new(Steps::new(graph), graph.reached(true), views, Some(layout));
        let needs = graph.needs_gradient();
        let reached: Vec<_> = graph
            .nodes()
            .iter()
            .zip(needs)
            .filter(|(_, needs)| *needs)
            .flat_map(|(node, _)| node.op.parameters())
            .collect();
        program.unreached = layout.entries().iter().any(|entry| !reached.contains(&entry.id));
        program
    }

    fn new(steps: Steps, runs: Vec<bool>, views: usize, layout: Option<&Layout>) -> Self {
        let count = steps.kinds.len();
        let trains =
            |kind: &Kind| kind.weight().is_some_and(|id| layout.is_some_and(|l| l.position(id).is_some()));
        let deferred: Vec<bool> = (0..count)
            .map(|node| match &steps.kinds[node] {
                Some(kind) => steps.needs_gradient[node] && trains(kind) && prefers_ghost(kind, views),
                None => false,
            })
            .collect();
        let mut program = Self {
            steps,
            runs,
            views,
            buffers: vec![Buffers::default(); count],
            contributions: Vec::new(),
            offsets: Vec::new(),
            item_len: 0,
            sources: Vec::new(),
            deferred,
            written: 0,
            partials: 0,
            parts: Vec::new(),
            blocks: Vec::new(),
            means: 0,
            workspace: 0,
            unfolding: 0,
            unreached: false,
        };
        program.place(trains, layout.is_some());
        if let Some(layout) = layout {
            program.source(layout);
        }
        program
    }

    /// Decides how gradients meet, when everything is alive, and which buffer it lies in.
    fn place(&mut self, trains: impl Fn(&Kind) -> bool, training: bool) {
        let Steps { inputs, lens, needs_gradient: needs, outputs, .. } = &self.steps;
        let kinds: Vec<Option<&Kind>> = self
            .steps
            .kinds
            .iter()
            .zip(&self.runs)
            .map(|(kind, runs)| kind.as_ref().filter(|_| *runs))
            .collect();
        let count = kinds.len();
        let is_output = |node: usize| outputs.iter().any(|(output, _)| *output == node);
        let backward = |node: usize| backward(node, count);
        let end = 2 * count + 1;

        let read_until = |node: usize| if self.deferred[node] { end } else { backward(node) };

        let Sharing { contributions, owner, started } =
            Sharing::new(&self.steps, &kinds, &(0..count).map(read_until).collect::<Vec<_>>());

        let mut lives: Vec<Lifetime> = Vec::new();
        let mut add = |len: usize, first: usize, last: usize| {
            lives.push(Lifetime { len, first, last });
            Some(lives.len() - 1)
        };
        for node in 0..count {
            let Some(kind) = kinds[node] else { continue };
            let mut last = if is_output(node) { count } else { node };
            for reader in (node..count).filter(|&reader| inputs[reader].contains(&node)) {
                let Some(kind) = kinds[reader] else { continue };
                last = last.max(reader);
                let mut slots = (0..inputs[reader].len()).filter(|&slot| inputs[reader][slot] == node);
                if needs[reader] && slots.any(|slot| kind.reads_input(slot, trains(kind))) {
                    last = last.max(read_until(reader));
                }
            }
            if needs[node] && kind.reads_output() {
                last = last.max(backward(node));
            }
            let buffers = &mut self.buffers[node];
            // The samples themselves have buffers of their own.
            if !matches!(kind, Kind::Input) {
                buffers.value = add(lens[node], node, last);
            }
            if training && needs[node] {
                if kind.kept(lens[node]) > 0 {
                    buffers.kept = add(kind.kept(lens[node]), node, backward(node));
                }
                if kind.scratch() > 0 {
                    buffers.scratch = add(kind.scratch(), backward(node), backward(node));
                }
            } else if matches!(kind, Kind::Attention { .. }) {
                buffers.kept = add(kind.kept(lens[node]), node, node);
            }
        }
        if training {
            // The loss writes the output's gradient whether anything trains or not.
            for node in (0..count).rev() {
                let Some(first) = started[node].filter(|_| kinds[node].is_some() && owner[node] == node)
                else {
                    continue;
                };
                let shared = (0..=node).filter(|&other| owner[other] == node);
                let last = shared.map(read_until).max();
                self.buffers[node].gradient = add(lens[node], first, last.unwrap_or(end).max(first));
            }
            for node in (0..count).rev() {
                if owner[node] != node {
                    self.buffers[node].gradient = self.buffers[owner[node]].gradient;
                }
            }
        }
        (self.offsets, self.item_len) = pack(&lives);
        self.contributions = contributions;
    }

    /// Decides how each parameter's gradient is made, and where its norm is added up.
    fn source(&mut self, layout: &Layout) {
        let multiplying =
            |id| self.steps.kinds.iter().position(|kind| kind.as_ref().and_then(Kind::weight) == Some(id));
        let nodes: Vec<Option<usize>> = layout.entries().iter().map(|entry| multiplying(entry.id)).collect();
        // Filters of a standardised layer: weights of each, where one over their deviations lies, and where their means do.
        let mut filters = Vec::new();
        for node in &nodes {
            filters.push(match node.and_then(|node| self.steps.kinds[node].as_ref()) {
                Some(Kind::Conv(conv)) => conv.used.map(|(_, inverses)| {
                    self.means += conv.geometry.out;
                    (conv.geometry.inner(), inverses, self.means - conv.geometry.out)
                }),
                _ => None,
            });
        }
        for (index, (entry, node)) in layout.entries().iter().zip(&nodes).enumerate() {
            if node.is_some_and(|node| self.deferred[node]) {
                continue;
            }
            let start = self.written.next_multiple_of(4);
            self.written = start + entry.range.len();
            let first = self.parts.len() / 4;
            // A part and a block lie within one filter, where filters are standardised.
            let (filter, own) = match filters[index] {
                Some((inner, inverses, means)) => (inner, Some((inverses, means))),
                None => (entry.range.len().max(1), None),
            };
            let place = |offset: usize| {
                own.map_or([-1; 2], |(inverses, means)| {
                    [means + offset / filter, inverses + offset / filter].map(|place| place as i32)
                })
            };
            let pieces = |size: usize| {
                let within = move |from: usize| {
                    (0..filter).step_by(size).map(move |piece| (from + piece, size.min(filter - piece)))
                };
                (0..entry.range.len()).step_by(filter).flat_map(within)
            };
            for (offset, len) in pieces(if own.is_some() { filter } else { PART }) {
                self.parts.extend([(start + offset) as i32, len as i32]);
                self.parts.extend(place(offset));
            }
            for (offset, len) in pieces(BLOCK) {
                let target = entry.range.start + offset;
                self.blocks.extend([start + offset, len, target, index].map(|value| value as i32));
                self.blocks.extend(place(offset));
            }
            self.sources.push(Source {
                written: Some(start),
                partials: first..self.parts.len() / 4,
                means: own.map(|(_, means)| means),
            });
        }
        // Samples start where four numbers can be written at once.
        self.written = self.written.next_multiple_of(4);
        self.partials = self.parts.len() / 4;
        let unfolded = self.steps.kinds.iter().flatten().filter_map(|kind| match kind {
            Kind::Conv(conv) => Some(4 * UNFOLDED_SAMPLES * conv.geometry.unfolded_len()),
            _ => None,
        });
        self.unfolding = unfolded.max().unwrap_or(0).min(MOST_UNFOLDED);
        for (index, node) in nodes.iter().enumerate() {
            let Some(kind) =
                node.filter(|&node| self.deferred[node]).and_then(|node| self.steps.kinds[node].as_ref())
            else {
                continue;
            };
            // Inner products in double precision, which takes two numbers each.
            let workspace = match kind {
                Kind::Conv(conv) => {
                    let (geometry, _) = conv.deferred();
                    // Those of all samples begin where a double may lie.
                    let read = (conv.read_len() + 1).next_multiple_of(2);
                    read + 2 * (geometry.positions_in().pow(2) + geometry.positions().pow(2))
                }
                Kind::Linear { rows, .. } => 4 * (rows * self.views).pow(2),
                _ => 0,
            };
            let partials = self.partials..self.partials + 1;
            self.partials = partials.end;
            self.workspace = self.workspace.max(workspace);
            let means = filters[index].map(|(_, _, means)| means);
            self.sources.insert(index, Source { written: None, partials, means });
        }
    }
}

/// Numbers to which buffers of an item are aligned.
const ALIGNMENT: usize = 64;

/// Gives every value a place in one stretch of memory: the largest first, each in the lowest gap among those alive with it. Unlike a
/// plan of whole buffers this can cut a large dead value into several small ones.
fn pack(lives: &[Lifetime]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..lives.len()).collect();
    order.sort_by_key(|&value| (std::cmp::Reverse(lives[value].len), lives[value].first));
    let size = |value: usize| lives[value].len.next_multiple_of(ALIGNMENT);
    let mut offsets = vec![0; lives.len()];
    let mut placed: Vec<usize> = Vec::new();
    for value in order {
        let together =
            |other: usize| lives[other].first <= lives[value].last && lives[value].first <= lives[other].last;
        let mut busy: Vec<(usize, usize)> = placed
            .iter()
            .filter(|&&other| together(other))
            .map(|&other| (offsets[other], offsets[other] + size(other)))
            .collect();
        busy.sort_unstable();
        let mut start = 0;
        for (from, to) in busy {
            if start + size(value) <= from {
                break;
            }
            start = start.max(to);
        }
        offsets[value] = start;
        placed.push(value);
    }
    let len = (0..lives.len()).map(|value| offsets[value] + size(value)).max().unwrap_or(0);
    (offsets, len)
}

/// Whether a layer's norm is cheaper by inner products than by writing down one gradient per sample.
///
/// Both ways multiply once over all positions for the sum itself, so the inner products stand against what is written and read.
fn prefers_ghost(kind: &Kind, views: usize) -> bool {
    match kind {
        Kind::Conv(conv) => conv.prefers_ghost(views),
        Kind::Linear { rows, features, out, .. } => {
            let (rows, weights) = ((rows * views) as f64, (features * out) as f64);
            let products = 2.0 * rows * rows * (features + out) as f64;
            let longer = 2.0 * rows * weights * (1.0 / OUTER_PRODUCTS - 1.0 / LIBRARY_PRODUCTS);
            rows == 1.0 || products / PRODUCTS + longer < written(weights)
        }
        _ => false,
    }
}

impl Conv {
    /// What a norm by inner products, and the sum of gradients that are never written down, are made of.
    pub(crate) fn deferred(&self) -> (&Geometry, Option<&Tiled>) {
        (self.read.as_ref().unwrap_or(&self.geometry), self.sum_tile.as_ref())
    }

    /// Numbers of a sample's input that are read apart from others, which are passed by.
    pub(crate) fn read_len(&self) -> usize {
        self.read.as_ref().map_or(0, |geometry| geometry.channels * geometry.positions())
    }

    /// As above. The sum of a deferred layer needs a tiling, and positions so few that the tensor cores add them up at once.
    pub(crate) fn prefers_ghost(&self, views: usize) -> bool {
        let (geometry, tile) = self.deferred();
        let (inside, outside) = (geometry.positions_in(), geometry.positions());
        let sums = tile.is_some() && one_run(outside.div_ceil(STEP), STEP);
        if views != 1 || geometry.groups != 1 || !sums || inside + outside > MOST_POSITIONS {
            return false;
        }
        let (inside, outside) = (inside as f64, outside as f64);
        let (channels, out) = (geometry.channels as f64, geometry.out as f64);
        // A tap's read costs about as much as forty products.
        let spread = 40.0 * geometry.taps() as f64 * outside * outside;
        let products = 2.0 * inside * inside * channels + 2.0 * outside * outside * out + spread;
        products / PRODUCTS < written(geometry.weight_len() as f64)
    }
}

/// Seconds that a sample's written-down weights take: they are written, read for the norm, and read for the sum.
fn written(weights: f64) -> f64 {
    12.0 * weights / BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_graph::zoo;
    use proptest::prelude::*;

    #[test]
    fn small_positions_and_many_weights_are_deferred() {
        let graph = zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 32, 32], 10).unwrap();
        let layout = Layout::new(&graph);
        let program = Program::training(&graph, &layout, 1);
        let written = |name: &str| {
            let entry = layout.entries().iter().position(|entry| entry.name == name).unwrap();
            program.sources[entry].written.is_some()
        };
        assert!(written("block1.0.conv2.weight") && written("norm.weight"));
        assert!(!written("block3.1.conv2.weight") && !written("fc.weight"));
        assert_eq!(program.sources.len(), layout.entries().len());
    }

    proptest! {
        #[test]
        fn values_alive_together_never_overlap(
            spans in prop::collection::vec((1usize..500, 0usize..20, 0usize..6), 1..30),
        ) {
            let lives: Vec<Lifetime> =
                spans.iter().map(|&(len, first, more)| Lifetime { len, first, last: first + more }).collect();
            let (offsets, len) = pack(&lives);
            for (i, a) in lives.iter().enumerate() {
                prop_assert!(offsets[i] + a.len <= len && offsets[i].is_multiple_of(ALIGNMENT));
                for (j, b) in lives.iter().enumerate().skip(i + 1) {
                    let together = a.first <= b.last && b.first <= a.last;
                    let apart = offsets[i] + a.len <= offsets[j] || offsets[j] + b.len <= offsets[i];
                    prop_assert!(!together || apart);
                }
            }
        }
    }

    /// Blocks and parts cover what is written once, none reaches from one filter into the next, and every filter has a mean of its own.
    #[test]
    fn blocks_and_parts_keep_to_their_filters() {
        let graph = zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 32, 32], 10).unwrap();
        let layout = Layout::new(&graph);
        let program = Program::training(&graph, &layout, 1);
        let (mut written, mut summed) = (vec![0; program.written], vec![0; layout.len()]);
        let mut means = vec![0; program.means];
        for part in program.parts.chunks_exact(4) {
            written[part[0] as usize..][..part[1] as usize].iter_mut().for_each(|count| *count += 1);
            if part[2] >= 0 {
                means[part[2] as usize] += 1;
            }
        }
        for block in program.blocks.chunks_exact(6) {
            let [from, len, to, entry] = [block[0], block[1], block[2], block[3]].map(|value| value as usize);
            summed[to..to + len].iter_mut().for_each(|count| *count += 1);
            let (entry, source) = (&layout.entries()[entry], &program.sources[entry]);
            assert_eq!(source.written.map(|start| start + to - entry.range.start), Some(from));
            if let Some(first) = source.means {
                let filter = program
                    .parts
                    .chunks_exact(4)
                    .find(|part| part[2] == block[4])
                    .map(|part| (part[0] as usize, (part[0] + part[1]) as usize));
                assert!(filter.is_some_and(|(start, end)| start <= from && from + len <= end));
                assert!(block[4] as usize >= first && block[5] >= 0);
            } else {
                assert_eq!((block[4], block[5]), (-1, -1));
            }
        }
        for (entry, source) in layout.entries().iter().zip(&program.sources) {
            let wanted = i32::from(source.written.is_some());
            assert!(summed[entry.range.clone()].iter().all(|&count| count == wanted), "{}", entry.name);
            if let Some(start) = source.written {
                assert!(written[start..][..entry.range.len()].iter().all(|&count| count == 1));
            }
        }
        // A deferred layer decides its means elsewhere.
        assert!(means.iter().all(|&count| count <= 1) && means.contains(&1) && means.contains(&0));
    }

    #[test]
    fn partial_sums_cover_every_parameter_once() {
        for views in [1, 2] {
            let graph = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
            let layout = Layout::new(&graph);
            let program = Program::training(&graph, &layout, views);
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
