//! How the reference computes attention between pooled tokens: head after head and query after query, with every score by itself.

use dapple_graph::op::{PooledAttention, RelativeRow};

use crate::op::softmax::{softmax, softmax_backward};
use crate::reference::{Gradients, ReferenceContext, ReferenceOperation, Tensor};

/// For each axis, the row of its table for every pair of places.
fn rows_of_axes(op: &PooledAttention) -> [Vec<RelativeRow>; 3] {
    [0, 1, 2].map(|axis| op.tables[axis].row_of_each_pair(op.queries[axis], op.keys[axis]))
}

/// The place of a position along an axis of a grid.
fn place(grid: [usize; 3], axis: usize, position: usize) -> usize {
    position / grid[axis + 1..].iter().product::<usize>() % grid[axis]
}

/// The stored rows for a query's distance to a key: the axis, the row of its table and the row's share. There are none if either of the two
/// is a first token.
fn stored<'a>(
    op: &'a PooledAttention,
    rows: &'a [Vec<RelativeRow>; 3],
    (query, key): (usize, usize),
) -> impl Iterator<Item = (usize, usize, f64)> + 'a {
    let axes = if query == 0 || key == 0 { 0..0 } else { 0..3 };
    axes.flat_map(move |axis| {
        let pair = place(op.queries, axis, query - 1) * op.keys[axis] + place(op.keys, axis, key - 1);
        rows[axis][pair].terms().map(move |(row, factor)| (axis, row, factor))
    })
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(factor: f64, from: &[f64], to: &mut [f64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += factor * from);
}

/// One head of a token.
fn part(x: &Tensor, token: usize, head: usize, width: usize) -> &[f64] {
    &x.data[token * x.last() + head * width..][..width]
}

fn part_mut(x: &mut Tensor, token: usize, head: usize, width: usize) -> &mut [f64] {
    let features = x.last();
    &mut x.data[token * features + head * width..][..width]
}

/// Every query of every head.
fn each_query(heads: usize, queries: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..heads).flat_map(move |head| (0..queries).map(move |query| (head, query)))
}

/// The weights that one head of a query gives to each key: none to keys whose number is zero.
fn weights(
    op: &PooledAttention,
    rows: &[Vec<RelativeRow>; 3],
    context: &ReferenceContext<'_>,
    (q, inputs): (&[f64], &[&Tensor]),
    (query, head): (usize, usize),
) -> Vec<f64> {
    let (width, keys) = (q.len(), inputs[1]);
    let score = |key: usize| {
        let relative = stored(op, rows, (query, key)).map(|(axis, row, factor)| {
            factor * dot(q, &context.parameter(op.tables[axis].values)[row * width..][..width])
        });
        dot(q, part(keys, key, head, width)) / (width as f64).sqrt() + relative.sum::<f64>()
    };
    let mut scores: Vec<f64> = (0..keys.shape[0]).map(score).collect();
    if let Some(numbers) = inputs.get(3) {
        let excluded = scores.iter_mut().zip(&numbers.data).filter(|(_, number)| **number == 0.0);
        excluded.for_each(|(score, _)| *score = f64::NEG_INFINITY);
    }
    softmax(&mut scores, keys.shape[0]);
    scores
}

impl ReferenceOperation for PooledAttention {
    fn forward(&self, inputs: &[&Tensor], context: &ReferenceContext<'_>, y: &mut Tensor) {
        let (rows, width) = (rows_of_axes(self), y.last() / self.heads);
        for (head, query) in each_query(self.heads, y.shape[0]) {
            let q = part(inputs[0], query, head, width);
            let weights = weights(self, &rows, context, (q, inputs), (query, head));
            let found = part_mut(y, query, head, width);
            for (key, weight) in weights.iter().enumerate() {
                add(*weight, part(inputs[2], key, head, width), found);
            }
            if query > 0 {
                add(1.0, q, found);
            }
        }
    }

    fn backward(
        &self,
        inputs: &[&Tensor],
        _: &Tensor,
        context: &ReferenceContext<'_>,
        g: &Tensor,
    ) -> Gradients {
        let (rows, width) = (rows_of_axes(self), g.last() / self.heads);
        let scale = 1.0 / (width as f64).sqrt();
        let [mut dq, mut dk, mut dv] = [0, 1, 2].map(|index| Tensor::zeros(&inputs[index].shape));
        let mut tables = self.tables.map(|table| vec![0.0; table.rows * width]);
        for (head, query) in each_query(self.heads, g.shape[0]) {
            let (q, upstream) = (part(inputs[0], query, head, width), part(g, query, head, width));
            let weights = weights(self, &rows, context, (q, inputs), (query, head));
            let found: Vec<f64> =
                (0..weights.len()).map(|key| dot(upstream, part(inputs[2], key, head, width))).collect();
            let scores = softmax_backward(&weights, &found, weights.len());
            let dq = part_mut(&mut dq, query, head, width);
            for (key, &score) in scores.iter().enumerate() {
                add(weights[key], upstream, part_mut(&mut dv, key, head, width));
                add(scale * score, part(inputs[1], key, head, width), dq);
                add(scale * score, q, part_mut(&mut dk, key, head, width));
                for (axis, row, factor) in stored(self, &rows, (query, key)) {
                    let place = row * width..(row + 1) * width;
                    add(factor * score, &context.parameter(self.tables[axis].values)[place.clone()], dq);
                    add(factor * score, q, &mut tables[axis][place]);
                }
            }
            if query > 0 {
                add(1.0, upstream, dq);
            }
        }
        let parameters = self.tables.iter().map(|table| table.values).zip(tables).collect();
        let numbers = inputs[3..].iter().map(|numbers| Tensor::zeros(&numbers.shape));
        Gradients { inputs: [dq, dk, dv].into_iter().chain(numbers).collect(), parameters }
    }
}
