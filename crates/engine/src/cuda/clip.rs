//! From per-sample norms to the clipped sum.

use super::device::{Grid, Pointer, arguments};
use super::error::CudaError;
use super::kind::{Conv, Kind};
use super::run::Run;
use super::tile::FILTERS;
use crate::layout::Layout;

/// Blocks of threads that keep a large card busy: with one on each multiprocessor, and with several.
const ONE_EACH: usize = 132;
const SEVERAL_EACH: usize = 8 * 132;
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
        device.launch("sum_written", Grid::blocks(program.blocks.len() / 6, 256), list)?;
        self.mark("sum of written gradients")?;
        for node in (0..program.deferred.len()).filter(|&node| program.deferred[node]) {
            let (g, x) = (self.gradient(node), self.value(self.input(node, 0)));
            match &program.steps.kinds[node] {
                Some(Kind::Linear { weight, rows, features, out, .. }) => {
                    let Some(position) = layout.position(*weight) else { continue };
                    let start = layout.entries()[position].range.start;
                    let target = Target { sum: sum.at(start), ..target };
                    let sizes = (*out, *features, rows * program.views);
                    self.linear_sum((g, x), sizes, position, target)?;
                    self.mark("linear sum")?;
                }
                Some(Kind::Conv(conv)) => {
                    let Some(position) = layout.position(conv.weight) else { continue };
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
        // A deferred convolution has one.
        let Some(tiled) = &conv.gradient_tile else { return Ok(()) };
        let (columns, lines) = (tiled.tile.blocks, conv.geometry.out.div_ceil(FILTERS));
        let shares = target.shares(columns * lines, ONE_EACH);
        let blocks = (columns as u32, lines as u32, shares);
        let kernel = match tiled.tile.fragments {
            1 => "image_weight_sum_1",
            5 => "image_weight_sum_5",
            _ => "image_weight_sum_9",
        };
        let inverses = conv.used.map_or(Pointer::NULL, |(_, start)| self.model.inverses.at(start));
        let Target { sum, whole, samples } = target;
        self.device.launch(
            kernel,
            Grid { blocks, threads: 256, shared: tiled.tile.shared as u32 },
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
            ],
        )
    }

    /// Where a sample's first mean of a parameter's filters lies; nothing where it is not standardised.
    pub(super) fn means(&self, layout: &Layout, id: dapple_graph::ParameterId) -> Pointer {
        let source = layout.position(id).map(|position| &self.program.sources[position]);
        source.and_then(|source| source.means).map_or(Pointer::NULL, |start| self.work.means.at(start))
    }
}
