//! How the card runs attention: in tiles, or if there are none for the width of the heads, as products of all heads and items at once.

mod tiled;

use dapple_graph::op::Attention;

use self::tiled::CudaTiledAttentionKernel;
use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels::{HeadTiles, Softmax, SoftmaxBackward};
use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode, last};
use crate::cuda::product::{HeadSide, MatrixSide};
use crate::cuda::run::CardRun;
use crate::cuda::slice::DeviceSlice;

/// Rows of scores are aligned to this many numbers, because the tensor cores load four at once.
const ALIGNMENT: usize = 4;

#[derive(Debug)]
struct CudaAttentionKernel {
    heads: usize,
    width: usize,
    queries: usize,
    keys: usize,
    /// Whether one input holds query, key and value side by side.
    packed: bool,
}

impl CudaAttentionKernel {
    fn features(&self) -> usize {
        self.heads * self.width
    }

    /// The columns of all heads, in `rows` rows of `row` numbers each.
    fn columns<'m>(&self, values: DeviceSlice<'m, f32>, rows: usize, row: usize) -> HeadSide<'m> {
        HeadSide { side: MatrixSide::new(values, row, rows * row), inner: self.width }
    }

    /// The query, key or value of all heads, or its gradient, in the memory of its slot.
    fn part<'m>(&self, slot: DeviceSlice<'m, f32>, part: usize) -> HeadSide<'m> {
        let rows = if part == 0 { self.queries } else { self.keys };
        match self.packed {
            true => self.columns(slot.after(part * self.features()), rows, 3 * self.features()),
            false => self.columns(slot, rows, self.features()),
        }
    }

    /// The slot of the input that holds query, key or value.
    fn slot(&self, part: usize) -> usize {
        if self.packed { 0 } else { part }
    }

    /// The distance from one row of scores to the next.
    fn leading(&self) -> usize {
        self.keys.next_multiple_of(ALIGNMENT)
    }

    /// How many numbers a head's scores take.
    fn square(&self) -> usize {
        self.queries * self.leading()
    }

    /// The scores of all heads, or the weights or gradients that take their place.
    fn scores<'m>(&self, values: DeviceSlice<'m, f32>) -> HeadSide<'m> {
        let square = self.square();
        HeadSide { side: MatrixSide::new(values, self.leading(), self.heads * square), inner: square }
    }

    fn scale(&self) -> f32 {
        1.0 / (self.width as f32).sqrt()
    }

    /// The room for addresses, which comes after the scores of all items.
    fn addresses<'m>(&self, kept: DeviceSlice<'m, f32>, items: usize) -> DeviceSlice<'m, u64> {
        kept.after(items * self.heads * self.square()).cast()
    }
}

impl CudaOperation for Attention {
    fn kernel(&self, node: &ShapedNode<'_>, steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        let (queries, features, heads) = (node.channels(), last(node.shape), self.heads);
        let keys = node.inputs.get(1).map_or(queries, |key| key[0]);
        let packed = node.inputs.len() == 1;
        let width = features / heads;
        let Some(tiles) = HeadTiles::new(width, steps.precision) else {
            return Box::new(CudaAttentionKernel { heads, width, queries, keys, packed });
        };
        steps.head_sizes.insert(tiles.size());
        Box::new(CudaTiledAttentionKernel::new(
            (heads, width),
            (queries, keys),
            packed,
            steps.precision,
            tiles,
        ))
    }
}

impl CudaKernel for CudaAttentionKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let Self { heads, width, queries, keys, .. } = *self;
        let (device, items, y) = (run.device, run.items(), run.value(node));
        let weights = run.kept(node).expect("the plan gives attention the memory that it works in");
        let (counts, addresses) = ((items, heads), self.addresses(weights, items));
        let [query, key, value] = [0, 1, 2].map(|part| self.part(run.read(node, self.slot(part)), part));
        let (sizes, sides) = ((queries, width, keys), (query, key.transposed()));
        device.head_products(sizes, sides, self.scores(weights), (1.0, 0.0), counts, addresses)?;
        let (rows, leading, scale) = (items * heads * queries, self.leading(), self.scale());
        Softmax { x: weights, y: weights, features: keys, leading, rows, scale }.launch(device)?;
        let (sizes, sides) = ((queries, keys, width), (self.scores(weights), value));
        let to = self.columns(y, queries, self.features());
        device.head_products(sizes, sides, to, (1.0, 0.0), counts, addresses)
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        _parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let targets = [0, 1, 2].map(|part| run.target(node, self.slot(part)));
        if targets.iter().all(Option::is_none) {
            return Ok(());
        }
        let Self { heads, width, queries, keys, .. } = *self;
        let (device, items) = (run.device, run.items());
        let weights = run.kept(node).expect("the plan gives attention the memory that it works in");
        let scores = run.scratch(node).expect("the plan gives attention scratch for the backward pass");
        let (counts, addresses) = ((items, heads), self.addresses(weights, items));
        let [query, key, value] = [0, 1, 2].map(|part| self.part(run.read(node, self.slot(part)), part));
        let g = self.columns(run.gradient(node), queries, self.features());
        let (sizes, sides) = ((queries, width, keys), (g, value.transposed()));
        device.head_products(sizes, sides, self.scores(scores), (1.0, 0.0), counts, addresses)?;
        let (rows, leading, scale) = (items * heads * queries, self.leading(), self.scale());
        let (y, g_scores, dx, features) = (weights, scores, scores, keys);
        SoftmaxBackward { y, g: g_scores, dx, features, leading, rows, scale, accumulate: false }
            .launch(device)?;
        let (scores, weights) = (self.scores(scores), self.scores(weights));
        for (part, target) in targets.into_iter().enumerate() {
            let Some(target) = target else { continue };
            let (rows, inner, sides) = match part {
                0 => (queries, keys, (scores, key)),
                1 => (keys, queries, (scores.transposed(), query)),
                _ => (keys, queries, (weights.transposed(), g)),
            };
            let (sizes, to) = ((rows, inner, width), self.part(target.values, part));
            device.head_products(sizes, sides, to, (1.0, target.keep()), counts, addresses)?;
        }
        Ok(())
    }

    fn name(&self, _backward: bool) -> &'static str {
        "attention"
    }

    fn reads_input(&self, _slot: usize, _trains: bool) -> bool {
        true
    }

    /// The scores, and after those of all items three addresses for each head, which take two numbers each.
    fn kept(&self, _len: usize) -> usize {
        self.heads * (self.square() + 6)
    }

    fn works_in_kept(&self) -> bool {
        true
    }

    fn scratch(&self) -> usize {
        self.heads * self.square()
    }
}
