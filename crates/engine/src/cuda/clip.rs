//! From per-sample norms to the clipped sum.

use super::error::CudaError;
use super::kernels::{AddPartials, ImageWeightSum, OuterSum, PartNorms, SumWritten};
use super::launch::LaunchGrid;
use super::run::CardRun;
use super::slice::DeviceSlice;
use super::tile::{FILTERS, STEP};
use crate::layout::{Layout, LayoutEntry};
use crate::op::conv::CudaConvKernel;

/// Multiprocessors of a large card, and blocks of threads that keep it busy with several on each.
const MULTIPROCESSORS: usize = 132;
const SEVERAL_EACH: usize = 8 * MULTIPROCESSORS;
/// What a block of a convolution's sum takes to begin and to end, in steps of 32 positions; and the most shares worth trying.
const START: usize = 8;
const MOST_SHARES: usize = 64;
/// Samples that a block of the sum of written-down gradients takes, as its kernel has it, and its threads.
const WRITTEN_SAMPLES: usize = 64;
const WRITTEN_THREADS: usize = 64;
/// Steps of a convolution's sum that may be on their way while one is multiplied, as its kernel has it.
const MOST_AHEAD: usize = 3;
/// Rows and columns of a tile of a linear layer's sum, as its kernel has it.
const OUTER: usize = 64;

/// A sum on the card, and how samples join it.
#[derive(Clone, Copy)]
pub(crate) struct SumTarget<'s> {
    pub(crate) sum: DeviceSlice<'s, u32>,
    /// Whether it is of whole numbers.
    pub(crate) whole: bool,
    /// Samples that count; others of the microbatch only fill it up.
    pub(crate) samples: usize,
}

impl SumTarget<'_> {
    /// The part of it that is a parameter's.
    pub(crate) fn of(&self, entry: &LayoutEntry) -> Self {
        Self { sum: self.sum.after(entry.range.start).first(entry.range.len()), ..*self }
    }

    /// Shares of the samples. Whole numbers may be added in any order; plain ones have one order, and one share.
    fn shares(&self, blocks: usize, busy: usize) -> usize {
        if self.whole { (busy / blocks.max(1)).clamp(1, self.samples.max(1)) } else { 1 }
    }

    /// The same where each multiprocessor runs one block at a time, a block takes so many steps for a sample, and `START` to begin and to
    /// end: the fewest that end first.
    fn even_shares(&self, blocks: usize, steps: usize) -> usize {
        let time = |shares: usize| {
            (blocks * shares).div_ceil(MULTIPROCESSORS) * (self.samples.div_ceil(shares) * steps + START)
        };
        let most = if self.whole { self.samples.clamp(1, MOST_SHARES) } else { 1 };
        (1..=most).min_by_key(|&shares| time(shares)).expect("one share at the least")
    }
}

impl CardRun<'_> {
    /// Squared norms of every sample's gradient, parameter by parameter, and what is taken off standardised filters.
    ///
    /// # Guarantee
    /// None is less than the squared norm of what the sample adds of the parameter, over the square of its clipping factor.
    pub(crate) fn norms(&mut self) -> Result<(), CudaError> {
        let (device, work, program) = (self.device, self.work, self.program);
        let (count, entries) = (program.parts.len(), program.sources.len());
        let grid = |blocks: usize| LaunchGrid { blocks: [blocks, self.samples, 1], threads: 128, shared: 0 };
        let parts = PartNorms {
            grid: grid(count.div_ceil(4)),
            d: work.written(),
            stride: program.written,
            parts: work.parts(),
            count,
            inverses: self.model.inverses(),
            means: work.means(),
            mean_stride: program.means,
            partials: work.partials(),
            partial_stride: program.partials,
        };
        let added = AddPartials {
            grid: grid(entries),
            partials: work.partials(),
            partial_stride: program.partials,
            ranges: work.ranges(),
            squared: work.squared(),
            entries,
        };
        // SAFETY: parts and ranges are the program's own, which lie in what it plans for a sample.
        unsafe {
            parts.launch(device)?;
            added.launch(device)?;
        }
        self.mark("norms of written gradients")
    }

    /// Adds what every sample adds to the sum, sample by sample, also of the layers whose gradients were never written down.
    ///
    /// # Guarantee
    /// In whole numbers each sample adds `round(factor v)`, coordinate by coordinate, with `v` made of that sample alone, and of norm at
    /// most what its clipping factor was made from. A sample whose factor is zero adds nothing, whatever it holds.
    pub(crate) fn sum(&mut self, layout: &Layout, target: SumTarget<'_>) -> Result<(), CudaError> {
        let (work, program) = (self.work, self.program);
        let SumTarget { sum, whole, samples } = target;
        let shares = if whole { samples.div_ceil(WRITTEN_SAMPLES).max(1) } else { 1 };
        let blocks = [program.blocks.len(), shares, 1];
        let written = SumWritten {
            grid: LaunchGrid { blocks, threads: WRITTEN_THREADS, shared: 0 },
            d: work.written(),
            stride: program.written,
            blocks: work.blocks(),
            factors: work.factors(),
            entries: program.sources.len(),
            means: work.means(),
            mean_stride: program.means,
            inverses: self.model.inverses(),
            sum: sum.first(layout.len()),
            samples,
            whole,
        };
        // SAFETY: blocks are the program's own, which lie in what it plans for a sample and in a sum of its layout.
        unsafe { written.launch(self.device)? };
        for node in 0..program.halved.len() {
            self.halved_sum(node, layout, target)?;
        }
        self.mark("sum of written gradients")?;
        for node in (0..program.deferred.len()).filter(|&node| program.deferred[node]) {
            if let Some(operation) = &program.steps.operations[node] {
                operation.deferred_sum(self, node, layout, target)?;
            }
        }
        Ok(())
    }

    /// Adds what all samples add of a linear layer's gradient.
    pub(crate) fn linear_sum(
        &self,
        (g, x): (DeviceSlice<'_, f32>, DeviceSlice<'_, f32>),
        (out, features, rows): (usize, usize, usize),
        position: usize,
        target: SumTarget<'_>,
    ) -> Result<(), CudaError> {
        let (columns, lines) = (features.div_ceil(OUTER), out.div_ceil(OUTER));
        let shares = target.shares(columns * lines, SEVERAL_EACH);
        OuterSum {
            grid: LaunchGrid { blocks: [columns, lines, shares], threads: 256, shared: 0 },
            g,
            x,
            out,
            features,
            sample_rows: rows,
            factors: self.work.factors().after(position),
            entries: self.program.sources.len(),
            sum: target.sum,
            samples: target.samples,
            whole: target.whole,
        }
        .launch(self.device)
    }

    /// Adds what all samples add of a convolution's gradient.
    pub(crate) fn convolution_sum(
        &self,
        conv: &CudaConvKernel,
        (g, x): (DeviceSlice<'_, f32>, DeviceSlice<'_, f32>),
        layout: &Layout,
        position: usize,
        target: SumTarget<'_>,
    ) -> Result<(), CudaError> {
        let (geometry, tiled) = conv.deferred();
        let tiled = tiled.expect("a deferred convolution has a tiling");
        let tile = &tiled.tile;
        let (x, _) = self.read_positions(conv, x)?;
        let (columns, lines) = (tile.blocks, geometry.out.div_ceil(FILTERS));
        let shares = target.even_shares(columns * lines, geometry.positions().div_ceil(STEP));
        // A tiling is made for two stages.
        let stage = (tile.shared - tile.list) / 2;
        let room = self.device.shared.saturating_sub(tile.list);
        let ahead = (room / stage).saturating_sub(1).clamp(1, MOST_AHEAD);
        let sum = ImageWeightSum {
            size: tile.size() + if tile.whole { 3 } else { 0 },
            grid: LaunchGrid {
                blocks: [columns, lines, shares],
                threads: 256,
                shared: tile.list + (ahead + 1) * stage,
            },
            input_len: geometry.channels * geometry.positions_in(),
            output_len: geometry.out * geometry.positions(),
            filters: geometry.out,
            weight_len: geometry.weight_len(),
            g,
            x,
            image: tile.strip,
            offsets: self.table(tiled.offsets),
            factors: self.work.factors().after(position),
            entries: self.program.sources.len(),
            means: self.means(layout, conv.weight),
            mean_stride: self.program.means,
            inverses: conv.used.map(|(_, start)| self.model.inverses().after(start)),
            sum: target.sum,
            samples: target.samples,
            whole: target.whole,
            ahead,
        };
        // SAFETY: the tiling is of this convolution, and its weights, offsets and stages are what its own sizes say.
        unsafe { sum.launch(self.device) }
    }

    /// Where a sample's first mean of a parameter's filters lies; nothing where it is not standardised.
    pub(crate) fn means(
        &self,
        layout: &Layout,
        id: dapple_graph::ParameterId,
    ) -> Option<DeviceSlice<'_, f32>> {
        let source = &self.program.sources[layout.position(id)?];
        source.means.map(|start| self.work.means().after(start))
    }
}
