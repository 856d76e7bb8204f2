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
    /// Whether products are of bf16, and whether the input and the values are narrow.
    bf16: bool,
    narrow_input: bool,
    narrow_output: bool,
}

impl CudaTiledAttentionKernel {
    /// A kernel for heads of `width` features each; `None` if the tiles do not fit them or the item is too small.
    pub(super) fn new(heads: usize, width: usize, tokens: usize, bf16: bool) -> Option<Self> {
        let own = Self { heads, tokens, bf16, narrow_input: false, narrow_output: false };
        (width == HEAD && own.inputs() >= LEAST).then_some(own)
    }

    /// How many numbers an item's output has, and below, its input.
    fn outputs(&self) -> usize {
        self.tokens * self.heads * HEAD
    }

    fn inputs(&self) -> usize {
        3 * self.outputs()
    }

    /// Narrow numbers as they are, or else the memory for the halves of all items, each of which has `len` numbers; and one number for each
    /// head and token.
    fn parts<'m>(
        &self,
        run: &CardRun<'_>,
        narrow: Option<DeviceSlice<'m, f32>>,
        memory: DeviceSlice<'m, f32>,
        len: usize,
    ) -> (HalvedNumbers<'m>, DeviceSlice<'m, f32>) {
        let items = run.items();
        match narrow {
            Some(values) => (HalvedNumbers::narrow(values), memory),
            None => {
                let halves = HalvedNumbers::of(run.device, memory, items, len);
                (halves, memory.after(items * HalvedNumbers::room(len)))
            }
        }
    }

    /// How many numbers an item takes in the memory of such parts.
    fn room(&self, narrow: bool, len: usize) -> usize {
        self.heads * self.tokens + if narrow { 0 } else { HalvedNumbers::room(len) }
    }

    /// The input in halves, and the logarithms of the sums of weights, which the forward pass keeps.
    fn kept_parts<'r>(&self, run: &CardRun<'r>, node: usize) -> (HalvedNumbers<'r>, DeviceSlice<'r, f32>) {
        let kept = run.kept(node).expect("the plan gives attention the memory that it works in");
        self.parts(run, self.narrow_input.then(|| run.read(node, 0)), kept, self.inputs())
    }
}

impl CudaKernel for CudaTiledAttentionKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let Self { heads, tokens, .. } = *self;
        let (device, items, views) = (run.device, run.items(), run.program.views);
        let (halves, logarithms) = self.kept_parts(run, node);
        let sizes = (run.samples, tokens * views, 3 * heads * HEAD);
        if !self.narrow_input {
            halves.round(device, run.read(node, 0), sizes, (None, 0))?;
        }
        AttentionForward {
            items,
            heads,
            halves: halves.pairs.cast(),
            largest: halves.largest,
            y: run.value(node).cast(),
            logarithms,
            tokens,
            views,
            narrow: self.narrow_output,
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
        let Self { heads, tokens, .. } = *self;
        let (device, items, views) = (run.device, run.items(), run.program.views);
        let (halves, logarithms) = self.kept_parts(run, node);
        let scratch = run.scratch(node).expect("the plan gives attention scratch for the backward pass");
        let (gradient, n) = (run.gradient(node), items * heads * tokens);
        let (g, along) = self.parts(run, self.narrow_output.then_some(gradient), scratch, self.outputs());
        if !self.narrow_output {
            g.round(device, gradient, (run.samples, tokens * views, heads * HEAD), (None, 0))?;
        }
        let (y, narrow) = (run.value(node).cast(), self.narrow_output);
        AttentionAlong { y, g: gradient.cast(), along, heads, tokens, n, narrow }.launch(device)?;
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
                narrow: self.narrow_input,
                accumulate,
            }
            .launch(device)?;
        }
        Ok(())
    }

    fn name(&self, _backward: bool) -> &'static str {
        "attention"
    }

    fn reads_input(&self, _slot: usize, _trains: bool) -> bool {
        self.narrow_input
    }

    fn reads_output(&self) -> bool {
        true
    }

    fn kept(&self, _len: usize) -> usize {
        self.room(self.narrow_input, self.inputs())
    }

    fn works_in_kept(&self) -> bool {
        true
    }

    fn scratch(&self) -> usize {
        self.room(self.narrow_output, self.outputs())
    }

    fn writes_narrow(&self) -> bool {
        self.bf16
    }

    fn reads_narrow(&self, _slot: usize) -> bool {
        self.bf16
    }

    fn settle_narrow(&mut self, input: bool, output: bool) {
        (self.narrow_input, self.narrow_output) = (input, output);
    }
}
