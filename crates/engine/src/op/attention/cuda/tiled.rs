//! Attention in tiles. The scores are never in the card's memory, and the backward pass computes them a second time.

use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::halved::HalvedNumbers;
use crate::cuda::kernels::{AttentionAlong, AttentionForward, AttentionGradient, HEAD};
use crate::cuda::operation::CudaKernel;
use crate::cuda::run::CardRun;
use crate::cuda::slice::DeviceSlice;

/// The fewest numbers that an item must have, so that a microbatch has few enough items for a grid.
const LEAST: usize = 1 << 15;
/// The parts of a gradient, as their kernels are numbered; that of the keys makes those of the values, too.
const QUERIES: usize = 0;
const KEYS: usize = 1;

/// Attention over one input that holds query, key and value side by side, in halves.
#[derive(Debug)]
pub(super) struct CudaTiledAttentionKernel {
    heads: usize,
    tokens: usize,
}

impl CudaTiledAttentionKernel {
    /// A kernel for heads of `width` features each; `None` if the tiles do not fit them or the item is too small.
    pub(super) fn new(heads: usize, width: usize, tokens: usize) -> Option<Self> {
        let own = Self { heads, tokens };
        (width == HEAD && own.inputs() >= LEAST).then_some(own)
    }

    /// How many numbers an item's output has, and below, its input.
    fn outputs(&self) -> usize {
        self.tokens * self.heads * HEAD
    }

    fn inputs(&self) -> usize {
        3 * self.outputs()
    }

    /// The halves of all items, followed by one number for each head and token.
    fn parts<'m>(
        &self,
        memory: DeviceSlice<'m, f32>,
        items: usize,
        len: usize,
    ) -> (HalvedNumbers<'m>, DeviceSlice<'m, f32>) {
        (HalvedNumbers::of(memory, items, len), memory.after(items * HalvedNumbers::room(len)))
    }

    /// The input in halves, and the logarithms of the sums of weights, which the forward pass keeps.
    fn kept_parts<'r>(&self, run: &CardRun<'r>, node: usize) -> (HalvedNumbers<'r>, DeviceSlice<'r, f32>) {
        let kept = run.kept(node).expect("the plan gives attention the memory that it works in");
        self.parts(kept, run.items(), self.inputs())
    }
}

impl CudaKernel for CudaTiledAttentionKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let Self { heads, tokens } = *self;
        let (device, items, views) = (run.device, run.items(), run.program.views);
        let (halves, logarithms) = self.kept_parts(run, node);
        let sizes = (run.samples, tokens * views, 3 * heads * HEAD);
        halves.round(device, run.read(node, 0), sizes, (None, 0))?;
        AttentionForward {
            items,
            heads,
            halves: halves.pairs.cast(),
            largest: halves.largest,
            y: run.value(node).cast(),
            logarithms,
            tokens,
            views,
        }
        .launch(device)
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        _parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let Some(target) = run.target(node, 0) else { return Ok(()) };
        let Self { heads, tokens } = *self;
        let (device, items, views) = (run.device, run.items(), run.program.views);
        let (halves, logarithms) = self.kept_parts(run, node);
        let scratch = run.scratch(node).expect("the plan gives attention scratch for the backward pass");
        let (g, along) = self.parts(scratch, items, self.outputs());
        let (gradient, n) = (run.gradient(node), items * heads * tokens);
        g.round(device, gradient, (run.samples, tokens * views, heads * HEAD), (None, 0))?;
        AttentionAlong { y: run.value(node).cast(), g: gradient.cast(), along, heads, tokens, n }
            .launch(device)?;
        let (dx, accumulate) = (target.values.cast(), target.accumulate);
        let (largest, g_largest) = (halves.largest, g.largest);
        let (halves, g) = (halves.pairs.cast(), g.pairs.cast());
        for part in [QUERIES, KEYS] {
            AttentionGradient {
                part,
                items,
                heads,
                halves,
                largest,
                g,
                g_largest,
                logarithms,
                along,
                dx,
                tokens,
                views,
                accumulate,
            }
            .launch(device)?;
        }
        Ok(())
    }

    fn name(&self, _backward: bool) -> &'static str {
        "attention"
    }

    fn reads_output(&self) -> bool {
        true
    }

    fn kept(&self, _len: usize) -> usize {
        HalvedNumbers::room(self.inputs()) + self.heads * self.tokens
    }

    fn works_in_kept(&self) -> bool {
        true
    }

    fn scratch(&self) -> usize {
        HalvedNumbers::room(self.outputs()) + self.heads * self.tokens
    }
}
