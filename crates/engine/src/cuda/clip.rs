//! From per-sample norms to the clipped sum.

use super::error::CudaError;
use super::kernels::{AddPartials, ImageWeightSum, OuterSum, PartNorms, SumWritten};
use super::launch::LaunchGrid;
use super::run::CardRun;
use super::slice::DeviceSlice;
use super::tile::{FILTERS, STEP};
use crate::layout::{Layout, LayoutEntry};
use crate::op::conv::CudaConvKernel;

/// The number of multiprocessors of a large card, and of blocks of threads that keep it busy with several on each.
const MULTIPROCESSORS: usize = 132;
const SEVERAL_EACH: usize = 8 * MULTIPROCESSORS;
/// How long a block of a convolution's sum takes to begin and to end, in steps of 32 positions, and the most shares worth trying.
const START: usize = 8;
const MOST_SHARES: usize = 64;
/// How many samples a block of the sum of written gradients takes, the same as in its kernel, and how many threads it has.
const WRITTEN_SAMPLES: usize = 64;
const WRITTEN_THREADS: usize = 64;
/// How many steps of a convolution's sum may be on their way while one is multiplied, the same as in its kernel.
const MOST_AHEAD: usize = 3;
/// How many rows and columns a tile of a linear layer's sum has, the same as in its kernel.
const OUTER: usize = 64;

/// A sum on the card, and how samples are added to it.
#[derive(Clone, Copy)]
pub(crate) struct SumTarget<'s> {
    pub(crate) sum: DeviceSlice<'s, u32>,
    /// Whether the sum is of whole numbers.
    pub(crate) whole: bool,
    /// How many samples count. Any others only fill the microbatch up.
    pub(crate) samples: usize,
}

/// The part of a sum on the card that belongs to one weight.
#[derive(Clone, Copy)]
pub(crate) struct WeightSum<'s> {
    pub(crate) layout: &'s Layout,
    /// Which of the layout's entries the weight is.
    pub(crate) position: usize,
    pub(crate) target: SumTarget<'s>,
}

impl SumTarget<'_> {
    /// The part of the sum that belongs to a parameter.
    pub(crate) fn of(&self, entry: &LayoutEntry) -> Self {
        Self { sum: self.sum.after(entry.range.start).first(entry.range.len()), ..*self }
    }

    /// Into how many shares the samples are divided. Whole numbers may be added in any order; plain ones have one order, so one share.
    fn shares(&self, blocks: usize, busy: usize) -> usize {
        if self.whole { (busy / blocks.max(1)).clamp(1, self.samples.max(1)) } else { 1 }
    }

    /// Like [`Self::shares`], if each multiprocessor runs one block at a time, and a block takes `steps` steps for a sample and `START` to
    /// begin and to end. Of the divisions that end first, this is the one with the fewest shares.
    fn even_shares(&self, blocks: usize, steps: usize) -> usize {
        let time = |shares: usize| {
            (blocks * shares).div_ceil(MULTIPROCESSORS) * (self.samples.div_ceil(shares) * steps + START)
        };
        let most = if self.whole { self.samples.clamp(1, MOST_SHARES) } else { 1 };
        (1..=most).min_by_key(|&shares| time(shares)).expect("one share is always among the candidates")
    }
}

impl CardRun<'_> {
    /// Computes bounds on the squared norms of every sample's gradient, parameter by parameter, and the means that are taken off
    /// standardised filters.
    ///
    /// # Guarantee
    /// No bound is less than the squared norm of what the sample adds for the parameter, divided by the square of its clipping factor.
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
        // SAFETY: parts and ranges are the program's own, and lie in the memory that it plans for a sample.
        unsafe {
            parts.launch(device)?;
            added.launch(device)?;
        }
        self.mark("norms of written gradients")
    }

    /// Adds every sample's clipped gradient to the sum, including those of layers whose gradients were never written down.
    ///
    /// # Guarantee
    /// To a sum of whole numbers each sample adds `round(factor v)`, coordinate by coordinate. `v` is made from that sample alone, and its
    /// norm is at most the one from which the clipping factor was made. A sample whose factor is zero adds nothing, whatever its gradient
    /// is.
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
        // SAFETY: blocks are the program's own, and lie in the memory that it plans for a sample and in a sum of its layout.
        unsafe { written.launch(self.device)? };
        self.halved_sum(target)?;
        self.mark("sum of written gradients")?;
        for node in (0..program.deferred.len()).filter(|&node| program.deferred[node]) {
            let Some(operation) = &program.steps.operations[node] else { continue };
            let weight = operation.weight().and_then(|weight| layout.position(weight));
            let position = weight.expect("a deferred layer has a weight that trains");
            let target = target.of(&layout.entries()[position]);
            operation.deferred_sum(self, node, WeightSum { layout, position, target })?;
        }
        self.mark("sum of deferred gradients")
    }

    /// Adds the clipped gradients of a linear layer for all samples.
    pub(crate) fn linear_sum(
        &self,
        (g, x): (DeviceSlice<'_, f32>, DeviceSlice<'_, f32>),
        (out, features, rows): (usize, usize, usize),
        WeightSum { position, target, .. }: WeightSum<'_>,
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

    /// Adds the clipped gradients of a convolution for all samples.
    pub(crate) fn convolution_sum(
        &self,
        conv: &CudaConvKernel,
        (x, g): (DeviceSlice<'_, f32>, DeviceSlice<'_, f32>),
        WeightSum { layout, position, target }: WeightSum<'_>,
    ) -> Result<(), CudaError> {
        let (geometry, tiled) = conv.deferred();
        let tiled = tiled.expect("a deferred convolution has a tiling");
        let tile = &tiled.tile;
        let (x, _) = self.read_positions(conv, x)?;
        let (columns, lines) = (tile.blocks, geometry.out.div_ceil(FILTERS));
        let shares = target.even_shares(columns * lines, geometry.positions().div_ceil(STEP));
        // The memory that a tiling asks for is enough for two stages.
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

    /// Where the means of a parameter's filters lie for the first sample; `None` if the parameter is not standardised.
    pub(crate) fn means(
        &self,
        layout: &Layout,
        id: dapple_graph::ParameterId,
    ) -> Option<DeviceSlice<'_, f32>> {
        let source = &self.program.sources[layout.position(id)?];
        source.means.map(|start| self.work.means().after(start))
    }
}
