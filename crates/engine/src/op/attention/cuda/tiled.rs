//! Attention in tiles. The scores are never in the card's memory, and the backward pass computes them a second time.

use crate::cuda::Precision;
use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::halved::HalvedNumbers;
use crate::cuda::kernels::{
    AttentionAlong, AttentionForward, AttentionKeys, AttentionQueries, AttentionSizes, HeadTiles,
};
use crate::cuda::operation::CudaKernel;
use crate::cuda::run::{CardRun, GradientPlace};
use crate::cuda::slice::DeviceSlice;

/// Kernels read this many words at once, so what they read begins at a multiple of it.
const ALIGNMENT: usize = 4;

/// Attention over query, key and value, or over one input that holds them side by side.
#[derive(Debug)]
pub(super) struct CudaTiledAttentionKernel {
    heads: usize,
    width: usize,
    queries: usize,
    keys: usize,
    packed: bool,
    precision: Precision,
    tiles: HeadTiles,
    /// Whether the input and the values are narrow.
    narrow_input: bool,
    narrow_output: bool,
}

/// Numbers as the kernels multiply them, and the sizes of the samples' largest numbers if these have powers of two.
#[derive(Clone, Copy)]
struct Multiplied<'m> {
    numbers: DeviceSlice<'m, u32>,
    largest: Option<DeviceSlice<'m, u32>>,
}

impl CudaTiledAttentionKernel {
    /// A kernel for so many heads of a width, and for so many queries and keys.
    pub(super) fn new(
        (heads, width): (usize, usize),
        (queries, keys): (usize, usize),
        packed: bool,
        precision: Precision,
        tiles: HeadTiles,
    ) -> Self {
        let (narrow_input, narrow_output) = (false, false);
        Self { heads, width, queries, keys, packed, precision, tiles, narrow_input, narrow_output }
    }

    fn features(&self) -> usize {
        self.heads * self.width
    }

    /// How many tokens each input has, and how many numbers a row of it.
    fn inputs(&self) -> Vec<(usize, usize)> {
        match self.packed {
            true => vec![(self.queries, 3 * self.features())],
            false => [self.queries, self.keys, self.keys].map(|tokens| (tokens, self.features())).into(),
        }
    }

    fn sizes(&self, views: usize) -> AttentionSizes {
        let row = self.inputs()[0].1 as i32;
        AttentionSizes {
            heads: self.heads as i32,
            width: self.width as i32,
            queries: self.queries as i32,
            keys: self.keys as i32,
            query_row: row,
            key_row: row,
            views: views as i32,
            scale: 1.0 / (self.width as f32).sqrt(),
        }
    }

    /// Whether numbers that lie in memory like this are rounded to halves before they are multiplied.
    fn converts(&self, narrow: bool) -> bool {
        self.precision != Precision::F32 && !narrow
    }

    /// How many numbers of memory an item of `len` numbers takes that may have to be rounded.
    fn room(&self, narrow: bool, len: usize) -> usize {
        if self.converts(narrow) { HalvedNumbers::room(len).next_multiple_of(ALIGNMENT) } else { 0 }
    }

    /// Numbers as they are multiplied: as they lie in memory, or in halves, for which `memory` has room. These are made if `fresh` is set.
    fn multiplied<'m>(
        &self,
        run: &CardRun<'_>,
        (values, narrow): (DeviceSlice<'m, f32>, bool),
        memory: DeviceSlice<'m, f32>,
        (tokens, row): (usize, usize),
        fresh: bool,
    ) -> Result<Multiplied<'m>, CudaError> {
        if !self.converts(narrow) {
            return Ok(Multiplied { numbers: values.cast(), largest: None });
        }
        let halves = HalvedNumbers::of(run.device, memory, run.items(), tokens * row);
        if fresh {
            halves.round(run.device, values, (run.samples, tokens * run.program.views, row), (None, 0))?;
        }
        Ok(Multiplied { numbers: halves.pairs, largest: halves.largest })
    }

    /// Query, key and value as they are multiplied, and the logarithms of the sums of weights, which the forward pass keeps.
    fn kept_parts<'r>(
        &self,
        run: &CardRun<'r>,
        node: usize,
        fresh: bool,
    ) -> Result<([Multiplied<'r>; 3], DeviceSlice<'r, f32>), CudaError> {
        let mut memory = run.kept(node).expect("the plan gives attention the memory that it works in");
        let mut made = Vec::new();
        for (slot, (tokens, row)) in self.inputs().into_iter().enumerate() {
            let values = (run.read(node, slot), self.narrow_input);
            made.push(self.multiplied(run, values, memory, (tokens, row), fresh)?);
            memory = memory.after(run.items() * self.room(self.narrow_input, tokens * row));
        }
        let parts = match self.packed {
            true => [0, 1, 2].map(|part| Multiplied {
                numbers: made[0].numbers.after(self.words(part * self.features())),
                ..made[0]
            }),
            false => [0, 1, 2].map(|part| made[part]),
        };
        Ok((parts, memory))
    }

    /// How many words of four bytes this many numbers take as they are multiplied.
    fn words(&self, numbers: usize) -> usize {
        if self.precision == Precision::F32 { numbers } else { numbers / 2 }
    }

    /// Where the gradients of query, key and value go.
    fn targets<'r>(&self, run: &CardRun<'r>, node: usize) -> [Option<GradientPlace<'r>>; 3] {
        [0, 1, 2].map(|part| match self.packed {
            true => {
                let words = part * self.features() / if self.narrow_input { 2 } else { 1 };
                run.target(node, 0).map(|place| GradientPlace { values: place.values.after(words), ..place })
            }
            false => run.target(node, part),
        })
    }
}

impl CudaKernel for CudaTiledAttentionKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let ([q, k, v], logarithms) = self.kept_parts(run, node, true)?;
        AttentionForward {
            size: self.tiles.kernel(),
            tiles: self.tiles,
            items: run.items(),
            q: q.numbers.cast(),
            k: k.numbers.cast(),
            v: v.numbers.cast(),
            q_largest: q.largest,
            k_largest: k.largest,
            v_largest: v.largest,
            y: run.value(node).cast(),
            logarithms,
            sizes: self.sizes(run.program.views),
            narrow: self.narrow_output,
        }
        .launch(run.device)
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        _parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let [query, key, value] = self.targets(run, node);
        if query.is_none() && key.is_none() && value.is_none() {
            return Ok(());
        }
        let Self { heads, width, queries, tiles, .. } = *self;
        let (device, items, views) = (run.device, run.items(), run.program.views);
        let ([q, k, v], logarithms) = self.kept_parts(run, node, false)?;
        let scratch = run.scratch(node).expect("the plan gives attention scratch for the backward pass");
        let (gradient, narrow) = (run.gradient(node), self.narrow_output);
        let sizes = (queries, self.features());
        let g = self.multiplied(run, (gradient, narrow), scratch, sizes, true)?;
        let along = scratch.after(items * self.room(narrow, queries * self.features()));
        AttentionAlong {
            y: run.value(node).cast(),
            g: gradient.cast(),
            v_largest: v.largest,
            g_largest: g.largest,
            along,
            heads,
            width,
            queries,
            views,
            taken: tiles.taken,
            n: items * heads * queries,
            narrow,
        }
        .launch(device)?;
        let (size, sizes, narrow) = (tiles.kernel(), self.sizes(views), self.narrow_input);
        let (q_largest, k_largest, v_largest, g_largest) = (q.largest, k.largest, v.largest, g.largest);
        let [q, k, v, g] = [q, k, v, g].map(|side| side.numbers.cast());
        if let Some(query) = query {
            let (dq, accumulate) = (query.values.cast(), query.accumulate);
            AttentionQueries {
                size,
                tiles,
                items,
                q,
                k,
                v,
                q_largest,
                k_largest,
                v_largest,
                g,
                g_largest,
                logarithms,
                along,
                dq,
                sizes,
                narrow,
                accumulate,
            }
            .launch(device)?;
        }
        if key.is_none() && value.is_none() {
            return Ok(());
        }
        let adds = |place: &Option<GradientPlace<'_>>| place.is_some_and(|place| place.accumulate);
        let (accumulate, accumulate_values) = (adds(&key), adds(&value));
        let [dk, dv] = [key, value].map(|place| place.map(|place| place.values.cast()));
        AttentionKeys {
            size,
            tiles,
            items,
            q,
            k,
            v,
            q_largest,
            k_largest,
            v_largest,
            g,
            g_largest,
            logarithms,
            along,
            dk,
            dv,
            sizes,
            narrow,
            accumulate,
            accumulate_values,
        }
        .launch(device)
    }

    fn name(&self, _backward: bool) -> &'static str {
        "attention"
    }

    fn reads_input(&self, _slot: usize, _trains: bool) -> bool {
        !self.converts(self.narrow_input)
    }

    fn reads_output(&self) -> bool {
        true
    }

    fn kept(&self, _len: usize) -> usize {
        let halves =
            self.inputs().into_iter().map(|(tokens, row)| self.room(self.narrow_input, tokens * row));
        halves.sum::<usize>() + self.heads * self.queries
    }

    fn works_in_kept(&self) -> bool {
        true
    }

    fn scratch(&self) -> usize {
        self.room(self.narrow_output, self.queries * self.features()) + self.heads * self.queries
    }

    fn writes_narrow(&self) -> bool {
        self.precision == Precision::Bf16
    }

    fn reads_narrow(&self, _slot: usize) -> bool {
        self.packed && self.precision == Precision::Bf16
    }

    fn settle_narrow(&mut self, input: bool, output: bool) {
        (self.narrow_input, self.narrow_output) = (input, output);
    }
}
