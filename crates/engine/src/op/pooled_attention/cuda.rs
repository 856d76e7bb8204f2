//! How the card runs attention between pooled tokens: it adds the products of all heads and items at once to the terms of relative positions.
#![allow(unsafe_code, reason = "tables on the card are the host's promise")]

use dapple_graph::op::{PooledAttention, RelativeTable};

use super::relative::{RelativeAxis, axes};
use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels::{
    BehindFirst, RelativeQueries, RelativeScores, RelativeSums, RelativeTerms, RelativeValues, Softmax,
    SoftmaxBackward,
};
use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode, last};
use crate::cuda::product::{HeadSide, MatrixSide};
use crate::cuda::run::{CardRun, GradientPlace};
use crate::cuda::slice::DeviceSlice;

/// Rows of scores are aligned to this many numbers, because the tensor cores load four at once.
const ALIGNMENT: usize = 4;

#[derive(Debug)]
struct CudaPooledAttentionKernel {
    heads: usize,
    width: usize,
    /// The number of queries that have a position, and of all keys.
    positions: usize,
    keys: usize,
    /// The number of terms of a query.
    of_query: usize,
    tables: [RelativeTable; 3],
    /// Where the table lies that holds the grids and the row of every pair, and for each axis the one that holds the pairs of every row.
    table: usize,
    readers: [usize; 3],
}

/// What the forward pass keeps: the scores of all items and heads, or the weights that take their place; room for addresses; and the terms.
#[derive(Clone, Copy)]
struct KeptScores<'m> {
    scores: DeviceSlice<'m, f32>,
    addresses: DeviceSlice<'m, u64>,
    terms: DeviceSlice<'m, f32>,
}

/// The grids, and the row of every pair of places, as the kernels read them.
fn pairs(op: &PooledAttention, axes: &[RelativeAxis; 3]) -> Vec<i32> {
    let grids = op.queries.iter().chain(&op.keys).map(|&size| size as i32).chain([0; 2]);
    let rows = axes.iter().flat_map(|axis| &axis.rows);
    let words =
        rows.flat_map(|row| [row.low as i32, row.high as i32, (row.share as f32).to_bits() as i32, 0]);
    grids.chain(words).collect()
}

/// For every row of an axis's table, the pairs of places that read it.
fn readers(axis: &RelativeAxis) -> Vec<i32> {
    let mut of_row: Vec<Vec<[i32; 3]>> = vec![Vec::new(); axis.table.rows];
    for (pair, row) in axis.rows.iter().enumerate() {
        let [query, key] = [pair / axis.keys, pair % axis.keys].map(|place| place as i32);
        for (stored, factor) in row.terms() {
            of_row[stored].push([query, key, (factor as f32).to_bits() as i32]);
        }
    }
    let mut ends = vec![0];
    for readers in &of_row {
        ends.push(ends[ends.len() - 1] + readers.len() as i32);
    }
    ends.into_iter().chain(of_row.into_iter().flatten().flatten()).collect()
}

impl CudaOperation for PooledAttention {
    fn kernel(&self, node: &ShapedNode<'_>, steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        let axes = axes(self);
        Box::new(CudaPooledAttentionKernel {
            heads: self.heads,
            width: last(node.shape) / self.heads,
            positions: self.queries.iter().product(),
            keys: node.inputs[1][0],
            of_query: self.keys.iter().sum(),
            tables: self.tables,
            table: steps.table(pairs(self, &axes)),
            readers: [0, 1, 2].map(|axis| steps.table(readers(&axes[axis]))),
        })
    }
}

impl CudaPooledAttentionKernel {
    fn features(&self) -> usize {
        self.heads * self.width
    }

    fn queries(&self) -> usize {
        1 + self.positions
    }

    fn scale(&self) -> f32 {
        1.0 / (self.width as f32).sqrt()
    }

    /// The distance from one row of scores to the next, and below, how many numbers a head's scores take.
    fn leading(&self) -> usize {
        self.keys.next_multiple_of(ALIGNMENT)
    }

    fn square(&self) -> usize {
        self.queries() * self.leading()
    }

    /// The columns of all heads, for items of this many tokens.
    fn columns<'m>(&self, values: DeviceSlice<'m, f32>, tokens: usize) -> HeadSide<'m> {
        HeadSide {
            side: MatrixSide::new(values, self.features(), tokens * self.features()),
            inner: self.width,
        }
    }

    /// The scores of all heads, or the weights or gradients that take their place.
    fn scores<'m>(&self, values: DeviceSlice<'m, f32>) -> HeadSide<'m> {
        let square = self.square();
        HeadSide { side: MatrixSide::new(values, self.leading(), self.heads * square), inner: square }
    }

    fn work<'m>(&self, run: &CardRun<'m>, node: usize) -> KeptScores<'m> {
        let kept = run.kept(node).expect("the plan gives attention the memory that it works in");
        let heads = run.items() * self.heads;
        let behind = kept.after(heads * self.square());
        // Each head has three addresses, which take two numbers each.
        KeptScores { scores: kept, addresses: behind.cast(), terms: behind.after(6 * heads) }
    }

    /// The values of the tables of time, height and width.
    fn values<'m>(&self, run: &CardRun<'m>) -> [DeviceSlice<'m, f32>; 3] {
        self.tables.map(|table| run.parameter(table.values))
    }

    /// Makes the terms of all queries, and sets the scores to what the terms add to them.
    fn relative_scores(&self, run: &CardRun<'_>, node: usize, kept: KeptScores<'_>) -> Result<(), CudaError> {
        let Self { heads, width, positions, keys, of_query, .. } = *self;
        let (sets, table, [time, height, breadth]) =
            (run.items() * heads, run.table(self.table), self.values(run));
        let made = RelativeTerms {
            positions,
            of_query,
            q: run.read(node, 0),
            time,
            height,
            breadth,
            terms: kept.terms,
            table,
            heads,
            width,
            rows: sets * positions,
        };
        let added = RelativeScores {
            positions,
            of_query,
            keys,
            terms: kept.terms,
            scores: kept.scores,
            table,
            leading: self.leading(),
            rows: sets * self.queries(),
        };
        // SAFETY: the table was made from the grids of the queries and keys and from the sizes of the tables of values, and the graph has
        // checked that the tokens and the parameters have these sizes.
        unsafe {
            made.launch(run.device)?;
            added.launch(run.device)
        }
    }

    /// Makes the gradients of the terms from those of the scores, and from the terms' gradients those of the tables and of the queries.
    fn relative_backward(
        &self,
        run: &CardRun<'_>,
        (node, terms): (usize, DeviceSlice<'_, f32>),
        scores: DeviceSlice<'_, f32>,
        queries: Option<GradientPlace<'_>>,
        parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let Self { heads, width, positions, keys, of_query, .. } = *self;
        let (table, rows) = (run.table(self.table), run.items() * heads * positions);
        let sums =
            RelativeSums { positions, of_query, keys, scores, terms, table, leading: self.leading(), rows };
        // SAFETY: as in the forward pass.
        unsafe { sums.launch(run.device)? };
        for axis in 0..3 {
            let Some(place) = parameters.written(run, Some(self.tables[axis].values)) else { continue };
            let values = RelativeValues {
                samples: run.samples,
                rows: self.tables[axis].rows,
                positions,
                of_query,
                terms,
                q: run.read(node, 0),
                d: place.values,
                stride: run.program.written,
                table,
                readers: run.table(self.readers[axis]),
                axis,
                heads,
                width,
                views: run.program.views,
                accumulate: place.accumulate,
            };
            // SAFETY: as in the forward pass; the readers were made from the same grids.
            unsafe { values.launch(run.device)? };
        }
        let Some(queries) = queries else { return Ok(()) };
        let (dq, g, [time, height, breadth]) = (queries.values, run.gradient(node), self.values(run));
        let through = RelativeQueries {
            positions,
            of_query,
            terms,
            g,
            time,
            height,
            breadth,
            dq,
            table,
            heads,
            width,
            rows,
        };
        // SAFETY: as in the forward pass.
        unsafe { through.launch(run.device) }
    }
}

impl CudaKernel for CudaPooledAttentionKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let Self { heads, width, keys, .. } = *self;
        let (device, items, queries, kept) = (run.device, run.items(), self.queries(), self.work(run, node));
        let [query, key, value] = [0, 1, 2].map(|slot| run.read(node, slot));
        self.relative_scores(run, node, kept)?;
        let (counts, scores) = ((items, heads), self.scores(kept.scores));
        let sides = (self.columns(query, queries), self.columns(key, keys).transposed());
        let scaled = (self.scale(), 1.0);
        device.head_products((queries, width, keys), sides, scores, scaled, counts, kept.addresses)?;
        let (x, features, leading) = (kept.scores, keys, self.leading());
        Softmax { x, y: x, features, leading, rows: items * heads * queries, scale: 1.0 }.launch(device)?;
        let (y, first, len) = (run.value(node), self.features(), run.len(node));
        BehindFirst { x: query, y, first, len, n: items * len }.launch(device)?;
        let (sides, found) = ((scores, self.columns(value, keys)), self.columns(y, queries));
        device.head_products((queries, keys, width), sides, found, (1.0, 1.0), counts, kept.addresses)
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let Self { heads, width, keys, .. } = *self;
        let (device, items, queries, kept) = (run.device, run.items(), self.queries(), self.work(run, node));
        let of_scores = run.scratch(node).expect("the plan gives attention scratch for the backward pass");
        let (counts, addresses) = ((items, heads), kept.addresses);
        let [query, key, value] = [(0, queries), (1, keys), (2, keys)]
            .map(|(slot, tokens)| self.columns(run.read(node, slot), tokens));
        let g = self.columns(run.gradient(node), queries);
        let (sides, scores) = ((g, value.transposed()), self.scores(of_scores));
        device.head_products((queries, width, keys), sides, scores, (1.0, 0.0), counts, addresses)?;
        let (y, leading, rows) = (kept.scores, self.leading(), items * heads * queries);
        let (features, scale, accumulate) = (keys, 1.0, false);
        SoftmaxBackward { y, g: of_scores, dx: of_scores, features, leading, rows, scale, accumulate }
            .launch(device)?;
        let weights = self.scores(kept.scores);
        let products = [
            (queries, keys, self.scale(), (scores, key)),
            (keys, queries, self.scale(), (scores.transposed(), query)),
            (keys, queries, 1.0, (weights.transposed(), g)),
        ];
        for (slot, (tokens, inner, scale, sides)) in products.into_iter().enumerate() {
            let Some(target) = run.target(node, slot) else { continue };
            let (to, scaled) = (self.columns(target.values, tokens), (scale, target.keep()));
            device.head_products((tokens, inner, width), sides, to, scaled, counts, addresses)?;
        }
        let of_queries = run.target(node, 0);
        self.relative_backward(run, (node, kept.terms), of_scores, of_queries, parameters)
    }

    fn name(&self, _backward: bool) -> &'static str {
        "pooled attention"
    }

    fn reads_input(&self, _slot: usize, _trains: bool) -> bool {
        true
    }

    fn kept(&self, _len: usize) -> usize {
        self.heads * (self.square() + 6 + self.positions * self.of_query)
    }

    fn works_in_kept(&self) -> bool {
        true
    }

    fn scratch(&self) -> usize {
        self.heads * self.square()
    }
}
