//! From per-sample norms to the clipped sum.

use super::cudnn::{Direction, Tensors};
use super::device::{Grid, Pointer, Side, arguments};
use super::error::CudaError;
use super::kind::Kind;
use super::run::Run;
use crate::layout::Layout;

impl Run<'_> {
    /// Squared norms of every sample's gradient, parameter by parameter.
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
                self.model.used,
                self.model.stats,
                work.partials,
                program.partials,
            ],
        )?;
        let list = arguments![work.partials, program.partials, work.ranges, work.squared, entries];
        device.launch("add_partials", grid(entries), list)?;
        self.mark("norms of written gradients")
    }

    /// Adds every sample's gradient times its factor to the sum. Deferred layers multiply once over all positions of all samples, with
    /// the factors folded into the output's gradient (Bu et al. 2022).
    pub(crate) fn weighted_sum(&mut self, layout: &Layout, sum: Pointer) -> Result<(), CudaError> {
        let (device, work, program, samples, views) =
            (self.device, self.work, self.program, self.samples, self.program.views);
        let entries = program.sources.len();
        let list =
            arguments![work.written, program.written, work.blocks, work.factors, entries, sum, samples];
        device.launch("weighted_sum", Grid::blocks(program.blocks.len() / 4, 256), list)?;
        self.mark("weighted sum of written gradients")?;
        for node in (0..program.deferred.len()).filter(|&node| program.deferred[node]) {
            let Some(kind) = &program.steps.kinds[node] else { continue };
            let Some(position) = kind.weight().and_then(|id| layout.position(id)) else { continue };
            let (len, n) = (self.len(node), self.items() * self.len(node));
            let list =
                arguments![self.gradient(node), work.scaled, work.factors, entries, position, len, views, n];
            device.launch("scale_items", Grid::each(n), list)?;
            let target = sum.at(layout.entries()[position].range.start);
            let x = self.value(self.input(node, 0));
            match kind {
                Kind::Linear { rows, features, out, .. } => {
                    let rows = self.items() * rows;
                    let sides = (Side::new(work.scaled, *out, 0).transposed(), Side::new(x, *features, 0));
                    device.exact_product(
                        (*out, rows, *features),
                        sides,
                        Side::new(target, *features, 0),
                        (1.0, 1.0),
                        1,
                    )?;
                    self.mark("linear")?;
                }
                Kind::Conv(conv) => {
                    let tensors = Tensors { input: x, weight: target, output: work.scaled };
                    self.convolve(node, conv, Direction::Filter, tensors, true)?;
                    self.mark("convolution weighted weight gradient")?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}
