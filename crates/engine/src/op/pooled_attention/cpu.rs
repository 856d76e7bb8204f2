//! How the CPU runs attention between pooled tokens: head after head, with the scores of some queries at a time.

use std::ops::Range;

use dapple_graph::op::PooledAttention;

use super::terms::{HeadRows, RelativeTerms};
use crate::cpu::kernel::{Lanes, RowClass};
use crate::cpu::matrix::{Matrix, identity, product, product_scratch};
use crate::cpu::operation::{
    BackwardItem, BackwardPass, BackwardReads, CpuKernel, CpuOperation, ForwardItem, ForwardPass, ItemValues,
    LoweredNode, Order,
};
use crate::cpu::pointwise;
use crate::op::softmax::{softmax_rows_backward, softmax_rows_of};

/// How many queries' scores are made together.
const QUERIES: usize = 128;

#[derive(Debug)]
struct PooledAttentionKernel {
    heads: usize,
    /// The number of queries and of keys, including the ones that have no position.
    queries: usize,
    keys: usize,
    features: usize,
    /// Whether another input tells which keys nobody attends to.
    subset: bool,
    relative: RelativeTerms,
    classes: Vec<RowClass>,
}

impl CpuOperation for PooledAttention {
    fn order(&self) -> Order {
        Order::RowMajor
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        let ((queries, features), keys) = (node.form.rows(), node.inputs[1].shape[0]);
        let relative = RelativeTerms::new(self, features / self.heads);
        let classes = identity(QUERIES.max(keys).max(relative.most_rows()));
        let (heads, subset) = (self.heads, node.inputs.len() > 3);
        Box::new(PooledAttentionKernel { heads, queries, keys, features, subset, relative, classes })
    }
}

/// The memory that the heads of an item work in, one after the other.
struct Room<'a> {
    /// The row of the tables for every pair of places, and the gradients of these rows.
    rows: &'a mut [f32],
    rows_gradient: &'a mut [f32],
    /// The terms of all queries, or their gradients.
    terms: &'a mut [f32],
    /// The scores of some queries, their weights and the gradients of the weights, `[queries, keys]` each.
    scores: &'a mut [f32],
    weights: &'a mut [f32],
    weights_gradient: &'a mut [f32],
    products: &'a mut [f32],
}

/// The query, key and value of an item, and the numbers of the keys if they have any.
#[derive(Clone, Copy)]
struct Sides<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    numbers: Option<&'a [f32]>,
}

impl PooledAttentionKernel {
    fn width(&self) -> usize {
        self.features / self.heads
    }

    fn sides<'a>(&self, values: ItemValues<'a>) -> Sides<'a> {
        let [q, k, v] = [0, 1, 2].map(|index| values.input(index));
        Sides { q, k, v, numbers: self.subset.then(|| values.input(3)) }
    }

    fn scale(&self) -> f32 {
        1.0 / (self.width() as f32).sqrt()
    }

    /// One head of all tokens from this one on.
    fn head<'a>(&self, x: &'a [f32], token: usize, head: usize) -> Matrix<'a> {
        Matrix { data: &x[token * self.features + head * self.width()..], row: self.features, column: 1 }
    }

    /// The ranges of queries whose scores are made together.
    fn chunks(&self) -> impl Iterator<Item = Range<usize>> {
        let queries = self.queries;
        (0..queries).step_by(QUERIES).map(move |first| first..queries.min(first + QUERIES))
    }

    fn room<'a>(&self, scratch: &'a mut [f32]) -> Room<'a> {
        let (rows, scratch) = scratch.split_at_mut(self.relative.rows_len());
        let (rows_gradient, scratch) = scratch.split_at_mut(self.relative.rows_len());
        let (terms, scratch) = scratch.split_at_mut(self.relative.len());
        let (scores, scratch) = scratch.split_at_mut(QUERIES * self.keys);
        let (weights, scratch) = scratch.split_at_mut(QUERIES * self.keys);
        let (weights_gradient, products) = scratch.split_at_mut(QUERIES * self.keys);
        Room { rows, rows_gradient, terms, scores, weights, weights_gradient, products }
    }

    /// Makes the terms of one head.
    fn terms(&self, lanes: Lanes, q: &[f32], head: usize, room: &mut Room<'_>) {
        self.relative.make(self.head_rows(lanes, q, head, room.rows, room.products), room.terms);
    }

    fn head_rows<'a>(
        &'a self,
        lanes: Lanes,
        q: &'a [f32],
        head: usize,
        rows: &'a [f32],
        scratch: &'a mut [f32],
    ) -> HeadRows<'a> {
        let queries = self.head(q, 1, head).data;
        HeadRows { lanes, classes: &self.classes, queries, row: self.features, rows, scratch }
    }

    /// Where the terms of a query lie. The first query has none.
    fn of_query(&self, query: usize) -> Option<Range<usize>> {
        let terms = self.relative.of_query();
        query.checked_sub(1).map(|position| position * terms..(position + 1) * terms)
    }

    /// Computes the weights that some queries of one head give to each key.
    fn weights(
        &self,
        lanes: Lanes,
        Sides { q, k, numbers, .. }: Sides<'_>,
        (chunk, head): (Range<usize>, usize),
        room: &mut Room<'_>,
    ) {
        let (count, keys) = (chunk.len(), self.keys);
        let scores = &mut room.scores[..count * keys];
        scores.fill(0.0);
        let sides = (self.head(q, chunk.start, head), self.head(k, 0, head).transposed());
        let shape = (count, self.width(), keys);
        product(lanes, shape, sides.0, sides.1, scores, keys, &self.classes, room.products);
        let scale = self.scale();
        for (query, scores) in chunk.zip(scores.chunks_exact_mut(keys)) {
            scores.iter_mut().for_each(|score| *score *= scale);
            if let Some(terms) = self.of_query(query) {
                self.relative.add_to_scores(&room.terms[terms], scores);
            }
        }
        let weights = &mut room.weights[..count * keys];
        softmax_rows_of(scores, weights, keys, numbers);
    }

    /// Adds the gradients of one head, including those of the tables' rows.
    fn head_backward(
        &self,
        lanes: Lanes,
        (sides, g): (Sides<'_>, &[f32]),
        head: usize,
        sums: &mut [Option<&mut [f32]>; 3],
        room: &mut Room<'_>,
    ) {
        let Sides { q, k, v, .. } = sides;
        let (keys, features, width, column) = (self.keys, self.features, self.width(), head * self.width());
        self.terms(lanes, q, head, room);
        for chunk in self.chunks() {
            let count = chunk.len();
            self.weights(lanes, sides, (chunk.clone(), head), room);
            let Room { scores, weights, weights_gradient, terms, products, .. } = room;
            let (scores, weights) = (&mut scores[..count * keys], &weights[..count * keys]);
            let weights_gradient = &mut weights_gradient[..count * keys];
            let upstream = self.head(g, chunk.start, head);
            let mut add = |shape, a, b, sum: &mut [f32], row| {
                product(lanes, shape, a, b, sum, row, &self.classes, products);
            };
            if let Some(dv) = &mut sums[2] {
                let weights = Matrix::rows(weights, keys).transposed();
                add((keys, count, width), weights, upstream, &mut dv[column..], features);
            }
            weights_gradient.fill(0.0);
            let values = self.head(v, 0, head).transposed();
            add((count, width, keys), upstream, values, weights_gradient, keys);
            softmax_rows_backward(weights, weights_gradient, scores, keys, false);
            for (query, scores) in chunk.clone().zip(scores.chunks_exact_mut(keys)) {
                if let Some(of_query) = self.of_query(query) {
                    self.relative.sum_scores(scores, &mut terms[of_query]);
                }
                let scale = self.scale();
                scores.iter_mut().for_each(|score| *score *= scale);
            }
            let scores = Matrix::rows(scores, keys);
            if let Some(dq) = &mut sums[0] {
                let dq = &mut dq[chunk.start * features + column..];
                add((count, keys, width), scores, self.head(k, 0, head), dq, features);
            }
            if let Some(dk) = &mut sums[1] {
                let queries = self.head(q, chunk.start, head);
                add((keys, count, width), scores.transposed(), queries, &mut dk[column..], features);
            }
        }
        let Room { rows, rows_gradient, terms, products, .. } = room;
        let dq = sums[0].as_deref_mut().map(|dq| &mut dq[features + column..]);
        self.relative.backward(self.head_rows(lanes, q, head, rows, products), terms, dq, rows_gradient);
    }
}

impl CpuKernel for PooledAttentionKernel {
    fn reads(&self, _: bool) -> BackwardReads {
        BackwardReads::INPUTS
    }

    fn scratch(&self, lanes: Lanes, _: usize) -> usize {
        let (width, keys) = (self.width(), self.keys);
        let shapes = [(QUERIES, width, keys), (QUERIES, keys, width), (keys, QUERIES, width)];
        let products = shapes.map(|(m, k, n)| product_scratch(lanes, m, k, n)).into_iter().max().unwrap_or(0);
        let relative = &self.relative;
        2 * relative.rows_len() + relative.len() + 3 * QUERIES * keys + products.max(relative.scratch(lanes))
    }

    fn forward(&self, pass: ForwardPass<'_>) {
        pass.for_items(|item| {
            let ForwardItem { values, y, scratch, .. } = item;
            let (lanes, sides, mut room) = (values.lanes(), self.sides(values), self.room(scratch));
            self.relative.gather(values, room.rows);
            y[..self.features].fill(0.0);
            y[self.features..].copy_from_slice(&sides.q[self.features..]);
            for head in 0..self.heads {
                self.terms(lanes, sides.q, head, &mut room);
                for chunk in self.chunks() {
                    self.weights(lanes, sides, (chunk.clone(), head), &mut room);
                    let weights = Matrix::rows(room.weights, self.keys);
                    let shape = (chunk.len(), self.keys, self.width());
                    let (values, row) = (self.head(sides.v, 0, head), self.features);
                    let found = &mut y[chunk.start * row + head * self.width()..];
                    product(lanes, shape, weights, values, found, row, &self.classes, room.products);
                }
            }
        });
    }

    fn backward(&self, pass: BackwardPass<'_>) {
        pass.for_items(|item| {
            let BackwardItem { values, g, mut input_gradients, mut parameter_gradients, scratch } = item;
            let (lanes, sides, mut room) = (values.lanes(), self.sides(values), self.room(scratch));
            self.relative.gather(values, room.rows);
            room.rows_gradient.fill(0.0);
            let mut sums = input_gradients.sums::<3>();
            for head in 0..self.heads {
                self.head_backward(lanes, (sides, g), head, &mut sums, &mut room);
            }
            if let [Some(dq), ..] = &mut sums {
                pointwise::scale(&g[self.features..], 1.0, &mut dq[self.features..], true);
            }
            for axis in self.relative.axes() {
                if let Some(table) = parameter_gradients.of(axis.table.values) {
                    self.relative.scatter(axis, room.rows_gradient, table);
                }
            }
        });
    }
}
