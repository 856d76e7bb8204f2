//! From per-sample norms to the clipped sum.

use super::device::{Grid, Pointer, arguments};
use super::error::CudaError;
use super::kind::{Conv, Kind};
use super::run::Run;
use super::tile::{FILTERS, STEP};
use crate::layout::Layout;

/// Multiprocessors of a large card, and blocks of threads that keep it busy with several on each.
const MULTIPROCESSORS: usize = 132;
const SEVERAL_EACH: usize = 8 * MULTIPROCESSORS;
/// What a block of a convolution's sum takes to begin and to end, in steps of 32 positions; and the most shares worth trying.
const START: usize = 8;
const MOST_SHARES: usize = 64;
/// Samples that a block of the sum of written-down gradients takes, as its kernel has it, and its threads.
const WRITTEN_SAMPLES: usize = 64;
const WRITTEN_THREADS: u32 = 64;
/// Steps of a convolution's sum that may be on their way while one is multiplied, as its kernel has it.
const MOST_AHEAD: usize = 3;
/// Rows and columns of a tile of a linear layer's sum, as its kernel has it.
const OUTER: usize = 64;

/// A sum on the card, and how samples join it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) sum: Pointer,
    /// Whether it is of whole numbers.
    pub(crate) whole: bool,
    /// Samples that count; others of the microbatch only fill it up.
    pub(crate) samples: usize,
}

impl Target {
    /// Shares of the samples. Whole numbers may be added in any order; plain ones have one order, and one share.
    fn shares(&self, blocks: usize, busy: usize) -> u32 {
        if self.whole { (busy / blocks.max(1)).clamp(1, self.samples.max(1)) as u32 } else { 1 }
    }

    /// The same where each multiprocessor runs one block at a time, a block takes so many steps for a sample, and `START` to begin and to
    /// end: the fewest that end first.
    fn even_shares(&self, blocks: usize, steps: usize) -> u32 {
        let time = |shares: usize| {
            (blocks * shares).div_ceil(MULTIPROCESSORS) * (self.samples.div_ceil(shares) * steps + START)
        };
        let most = if self.whole { self.samples.clamp(1, MOST_SHARES) } else { 1 };
        (1..=most).min_by_key(|&shares| time(shares)).expect("one share at the least") as u32
    }
}

impl Run<'_> {
    /// Squared norms of every sample's gradient, parameter by parameter, and what is taken off standardised filters.
    ///
    /// # Guarantee
    /// None is less than the squared norm of what the sample adds of the parameter, over the square of its clipping factor.
    pub(crate) fn norms(&mut self) -> Result<(), CudaError> {
        let (device, work, program, samples) = (self.device, self.work, self.program, self.samples);
        let (parts, entries) = (program.parts.len() / 4, program.sources.len());
        let grid =
            |blocks: usize| Grid { blocks: (blocks as u32, samples as u32, 1), threads: 128, shared: 0 };
        device.launch(
            "part_norms",
            grid(parts.div_ceil(4)),
            arguments![
                work.written,
                program.written,
                work.parts,
                parts,
                self.model.inverses,
                work.means,
                program.means,
                work.partials,
                program.partials,
            ],
        )?;
        let list = arguments![work.partials, program.partials, work.ranges, work.squared, entries];
        device.launch("add_partials", grid(entries), list)?;
        self.mark("norms of written gradients")
    }

    /// Adds what every sample adds to the sum, sample by sample, also of the layers whose gradients were never written down.
    ///
    /// # Guarantee
    /// In whole numbers each sample adds `round(factor v)`, coordinate by coordinate, with `v` made of that sample alone, and of norm at
    /// most what its clipping factor was made from. A sample whose factor is zero adds nothing, whatever it holds.
    pub(crate) fn sum(&mut self, layout: &Layout, target: Target) -> Result<(), CudaError> {
        let (device, work, program) = (self.device, self.work, self.program);
        let Target { sum, whole, samples } = target;
        let list = arguments![
            work.written,
            program.written,
            work.blocks,
            work.factors,
            program.sources.len(),
            work.means,
            program.means,
            self.model.inverses,
            sum,
            samples,
            whole,
        ];
        let shares = if whole { samples.div_ceil(WRITTEN_SAMPLES).max(1) } else { 1 };
        let blocks = ((program.blocks.len() / 6) as u32, shares as u32, 1);
        device.launch("sum_written", Grid { blocks, threads: WRITTEN_THREADS, shared: 0 }, list)?;
        self.mark("sum of written gradients")?;
        for node in (0..program.deferred.len()).filter(|&node| program.deferred[node]) {
            let (g, x) = (self.gradient(node), self.value(self.input(node, 0)));
            match &program.steps.kinds[node] {
                Some(Kind::Linear { weight, rows, features, out, .. }) => {
                    let position = layout.position(*weight).expect("a deferred weight trains");
                    let start = layout.entries()[position].range.start;
                    let target = Target { sum: sum.at(start), ..target };
                    let sizes = (*out, *features, rows * program.views);
                    self.linear_sum((g, x), sizes, position, target)?;
                    self.mark("linear sum")?;
                }
                Some(Kind::Conv(conv)) => {
                    let position = layout.position(conv.weight).expect("a deferred weight trains");
                    let start = layout.entries()[position].range.start;
                    let target = Target { sum: sum.at(start), ..target };
                    self.convolution_sum(conv, (g, x), layout, position, target)?;
                    self.mark("convolution sum")?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn linear_sum(
        &self,
        (g, x): (Pointer, Pointer),
        (out, features, rows): (usize, usize, usize),
        position: usize,
        target: Target,
    ) -> Result<(), CudaError> {
        let (columns, lines) = (features.div_ceil(OUTER), out.div_ceil(OUTER));
        let shares = target.shares(columns * lines, SEVERAL_EACH);
        let grid = Grid { blocks: (columns as u32, lines as u32, shares), threads: 256, shared: 0 };
        let (factors, entries) = (self.work.factors.at(position), self.program.sources.len());
        let Target { sum, whole, samples } = target;
        let list = arguments![g, x, out, features, rows, factors, entries, sum, samples, whole];
        self.device.launch("outer_sum", grid, list)
    }

    fn convolution_sum(
        &self,
        conv: &Conv,
        (g, x): (Pointer, Pointer),
        layout: &Layout,
        position: usize,
        target: Target,
    ) -> Result<(), CudaError> {
        let (geometry, tiled) = conv.deferred();
        let tiled = tiled.expect("a deferred convolution has a tiling");
        let (x, _) = self.read_positions(conv, x)?;
        let (columns, lines) = (tiled.tile.blocks, geometry.out.div_ceil(FILTERS));
        let shares = target.even_shares(columns * lines, geometry.positions().div_ceil(STEP));
        // A tiling is made for two stages.
        let list = tiled.tile.list;
        let stage = (tiled.tile.shared - list) / 2;
        let ahead = (self.device.shared.saturating_sub(list) / stage).saturating_sub(1).clamp(1, MOST_AHEAD);
        let blocks = (columns as u32, lines as u32, shares);
        let kernel = match (tiled.tile.whole, tiled.tile.fragments) {
            (false, 1) => "image_weight_sum_1",
            (false, 5) => "image_weight_sum_5",
            (false, _) => "image_weight_sum_9",
            (true, 1) => "whole_weight_sum_1",
            (true, 5) => "whole_weight_sum_5",
            (true, _) => "whole_weight_sum_9",
        };
        let inverses = conv.used.map_or(Pointer::NULL, |(_, start)| self.model.inverses.at(start));
        let Target { sum, whole, samples } = target;
        self.device.launch(
            kernel,
            Grid { blocks, threads: 256, shared: (list + (ahead + 1) * stage) as u32 },
            arguments![
                g,
                x,
                &tiled.tile.table,
                self.model.tables.at(tiled.offsets),
                self.work.factors.at(position),
                self.program.sources.len(),
                self.means(layout, conv.weight),
                self.program.means,
                inverses,
                sum,
                samples,
                whole,
                ahead,
            ],
        )
    }

    /// Where a sample's first mean of a parameter's filters lies; nothing where it is not standardised.
    pub(super) fn means(&self, layout: &Layout, id: dapple_graph::ParameterId) -> Pointer {
        let source = layout.position(id).map(|position| &self.program.sources[position]);
        source.and_then(|source| source.means).map_or(Pointer::NULL, |start| self.work.means.at(start))
    }
}
