//! Decides how each trainable parameter's gradient is made, and where its norm is added up.

use std::collections::BTreeSet;
use std::ops::Range;

use dapple_graph::ParameterId;

use super::halved::HalvedGradient;
use super::kernels::{GradientBlock, GradientPart, HALVED_BLOCK, HalvedBlock};
use super::program::CardProgram;
use crate::layout::{Layout, LayoutEntry};

/// How many numbers of a written gradient one warp squares, and how many one block of threads adds.
const PART: usize = 4096;
const BLOCK: usize = 1024;
/// How many samples should be unfolded together, and how many bytes that may take at most.
const UNFOLDED_SAMPLES: usize = 8;
const MOST_UNFOLDED: usize = 2 << 30;

/// How a trainable parameter's gradient is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CardGradientSource {
    /// Where it lies in a sample's written gradient; `None` if it is deferred, written in half precision, or zero because no output depends on
    /// the parameter.
    pub(crate) written: Option<usize>,
    /// The partial sums of its squared norm.
    pub(crate) partials: Range<usize>,
    /// Where the means of its filters lie among a sample's means, if they are standardised.
    pub(crate) means: Option<usize>,
}

/// The filters of a standardised layer: how many weights each has, where one over their deviations lie, and where their means lie.
#[derive(Debug, Clone, Copy)]
struct StandardisedFilters {
    inner: usize,
    inverses: usize,
    means: usize,
}

/// Cuts a row of `len` numbers into pieces of at most `size`, none of which reaches from one filter into the next. Returns where each piece
/// begins, and its length.
fn pieces(len: usize, filter: usize, size: usize) -> impl Iterator<Item = (usize, usize)> {
    let within = move |from: usize| {
        (0..filter).step_by(size).map(move |piece| (from + piece, size.min(filter - piece)))
    };
    (0..len).step_by(filter).flat_map(within)
}

impl CardProgram {
    /// Decides how each parameter's gradient is made, and where its norm is added up. The gradients of parameters that are not trained are
    /// zero, and take neither memory nor time.
    pub(super) fn source(&mut self, layout: &Layout, trained: &BTreeSet<ParameterId>) {
        let multiplying = |id| {
            let mut operations = self.steps.operations.iter();
            operations.position(|operation| operation.as_ref().and_then(|own| own.weight()) == Some(id))
        };
        let trains = |entry: &LayoutEntry| trained.contains(&entry.id);
        let nodes: Vec<Option<usize>> =
            layout.entries().iter().map(|entry| multiplying(entry.id).filter(|_| trains(entry))).collect();
        let filters: Vec<Option<StandardisedFilters>> =
            nodes.iter().map(|node| self.filters(*node)).collect();
        for (index, (entry, node)) in layout.entries().iter().zip(&nodes).enumerate() {
            let apart = node.is_some_and(|node| self.deferred[node] || self.halved[node].is_some());
            if trains(entry) && !apart {
                self.write_down(index, entry, filters[index]);
            }
        }
        // Every sample starts at a place where four numbers can be written at once.
        self.written = self.written.next_multiple_of(4);
        self.partials = self.parts.len();
        let operations = self.steps.operations.iter().flatten();
        let unfolded = operations
            .filter_map(|operation| operation.convolution())
            .map(|conv| 4 * UNFOLDED_SAMPLES * conv.geometry.unfolded_len());
        self.unfolding = unfolded.max().unwrap_or(0).min(MOST_UNFOLDED);
        for (index, (entry, node)) in layout.entries().iter().zip(&nodes).enumerate() {
            if !trains(entry) {
                let partials = self.partials..self.partials;
                self.sources.insert(index, CardGradientSource { written: None, partials, means: None });
            }
            let Some(node) = *node else { continue };
            if let Some(place) = self.halved[node] {
                self.add_halved(place, index, entry);
            }
            let parts = match self.steps.operations[node].as_deref() {
                Some(operation) if self.deferred[node] => {
                    self.workspace = self.workspace.max(operation.ghost_workspace(self.views));
                    1
                }
                Some(operation) if self.halved[node].is_some() => operation.norm_parts(),
                _ => continue,
            };
            let partials = self.partials..self.partials + parts;
            self.partials = partials.end;
            let means = filters[index].map(|filters| filters.means);
            self.sources.insert(index, CardGradientSource { written: None, partials, means });
        }
    }

    /// The blocks that cover a weight whose gradient is written in halves.
    fn add_halved(&mut self, place: HalvedGradient, index: usize, entry: &LayoutEntry) {
        let blocks = (0..entry.range.len()).step_by(HALVED_BLOCK).map(|first| {
            let (len, target) = (HALVED_BLOCK.min(entry.range.len() - first), entry.range.start + first);
            let [start, stride, first, len, target, entry, number] =
                [place.start, entry.range.len() / 2, first, len, target, index, place.number]
                    .map(|value| value as i32);
            HalvedBlock { start, stride, first, len, target, entry, number }
        });
        self.halved_blocks.extend(blocks);
    }

    /// The filters by which a node multiplies, if they are standardised. This also makes room for their means.
    fn filters(&mut self, node: Option<usize>) -> Option<StandardisedFilters> {
        let conv = self.steps.operations[node?].as_ref()?.convolution()?;
        let (_, inverses) = conv.used?;
        let means = self.means;
        self.means += conv.geometry.out;
        Some(StandardisedFilters { inner: conv.geometry.inner(), inverses, means })
    }

    /// Gives a parameter a place in every sample's written gradient, and parts and blocks that cover it.
    fn write_down(&mut self, index: usize, entry: &LayoutEntry, filters: Option<StandardisedFilters>) {
        let start = self.written.next_multiple_of(4);
        let len = entry.range.len();
        self.written = start + len;
        let first = self.parts.len();
        // If filters are standardised, every part and every block lies within one filter.
        let filter = filters.map_or(len.max(1), |filters| filters.inner);
        let place = |offset: usize| {
            let of = |own: StandardisedFilters| {
                [own.means, own.inverses].map(|first| (first + offset / filter) as i32)
            };
            filters.map_or([-1; 2], of)
        };
        for (offset, len) in pieces(len, filter, if filters.is_some() { filter } else { PART }) {
            let [mean, inverse] = place(offset);
            self.parts.push(GradientPart { start: (start + offset) as i32, len: len as i32, mean, inverse });
        }
        for (offset, len) in pieces(len, filter, BLOCK) {
            let [mean, inverse] = place(offset);
            let [start, len, target, entry] =
                [start + offset, len, entry.range.start + offset, index].map(|value| value as i32);
            self.blocks.push(GradientBlock { start, len, target, entry, mean, inverse });
        }
        self.sources.push(CardGradientSource {
            written: Some(start),
            partials: first..self.parts.len(),
            means: filters.map(|filters| filters.means),
        });
    }
}
