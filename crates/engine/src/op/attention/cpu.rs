//! How the CPU runs attention: head after head, with the scores of one head at a time.

use dapple_graph::op::Attention;

use crate::cpu::kernel::{Lanes, RowClass};
use crate::cpu::matrix::{Matrix, identity, product, product_scratch};
use crate::cpu::operation::{
    BackwardItem, BackwardPass, BackwardReads, CpuKernel, CpuOperation, ForwardItem, ForwardPass, ItemValues,
    LoweredNode, Order,
};
use crate::op::softmax::{softmax_rows_backward, softmax_rows_of};

/// Multi-head attention over `rows` queries and `keys` keys.
#[derive(Debug)]
struct AttentionKernel {
    heads: usize,
    rows: usize,
    keys: usize,
    features: usize,
    /// Whether one input holds query, key and value side by side.
    packed: bool,
    /// Whether another input tells which tokens nobody attends to.
    subset: bool,
    classes: Vec<RowClass>,
}

impl AttentionKernel {
    /// The distance from one row of query, key or value to the next.
    fn row(&self) -> usize {
        if self.packed { 3 * self.features } else { self.features }
    }

    /// The columns of one head of query, key or value.
    fn head<'a>(&self, x: &'a [f32], head: usize) -> Matrix<'a> {
        Matrix { data: &x[head * (self.features / self.heads)..], row: self.row(), column: 1 }
    }

    /// Query, key and value.
    fn parts<'a>(&self, values: ItemValues<'a>) -> [&'a [f32]; 3] {
        match self.packed {
            true => [0, 1, 2].map(|index| &values.input(0)[index * self.features..]),
            false => values.inputs(),
        }
    }

    /// The numbers of the tokens, where they say which of them nobody attends to.
    fn numbers<'a>(&self, values: ItemValues<'a>) -> Option<&'a [f32]> {
        self.subset.then(|| values.input(1))
    }

    fn weights(
        &self,
        lanes: Lanes,
        (q, k, numbers): (&[f32], &[f32], Option<&[f32]>),
        head: usize,
        weights: &mut [f32],
        scratch: &mut [f32],
    ) {
        let width = self.features / self.heads;
        let (scores, weights) = weights.split_at_mut(self.rows * self.keys);
        scores.fill(0.0);
        let shape = (self.rows, width, self.keys);
        let keys = self.head(k, head).transposed();
        product(lanes, shape, self.head(q, head), keys, scores, self.keys, &self.classes, scratch);
        let scale = 1.0 / (width as f32).sqrt();
        scores.iter_mut().for_each(|score| *score *= scale);
        let weights = &mut weights[..self.rows * self.keys];
        softmax_rows_of(scores, weights, self.keys, numbers);
    }
}

impl CpuOperation for Attention {
    fn order(&self) -> Order {
        Order::RowMajor
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        let (rows, features) = node.form.rows();
        let (packed, subset) = (node.inputs.len() < 3, node.inputs.len() == 2);
        let keys = if packed { rows } else { node.inputs[1].shape[0] };
        let classes = identity(rows.max(keys));
        Box::new(AttentionKernel { heads: self.heads, rows, keys, features, packed, subset, classes })
    }
}

impl CpuKernel for AttentionKernel {
    fn reads(&self, _: bool) -> BackwardReads {
        BackwardReads::INPUTS
    }

    fn scratch(&self, lanes: Lanes, _: usize) -> usize {
        let width = self.features / self.heads;
        let (rows, keys) = (self.rows, self.keys);
        let shapes = [(rows, width, keys), (rows, keys, width), (keys, rows, width)];
        3 * rows * keys
            + shapes.map(|(m, k, n)| product_scratch(lanes, m, k, n)).into_iter().max().unwrap_or(0)
    }

    fn forward(&self, pass: ForwardPass<'_>) {
        pass.for_items(|item| {
            let ForwardItem { values, y, scratch, .. } = item;
            let (lanes, [q, k, v], numbers) = (values.lanes(), self.parts(values), self.numbers(values));
            let (own, scratch) = scratch.split_at_mut(3 * self.rows * self.keys);
            let width = self.features / self.heads;
            y.fill(0.0);
            for head in 0..self.heads {
                self.weights(lanes, (q, k, numbers), head, own, scratch);
                let weights = Matrix::rows(&own[self.rows * self.keys..], self.keys);
                let y = &mut y[head * width..];
                let shape = (self.rows, self.keys, width);
                product(lanes, shape, weights, self.head(v, head), y, self.features, &self.classes, scratch);
            }
        });
    }

    /// Adds to the gradients of query, key and value that are wanted.
    fn backward(&self, pass: BackwardPass<'_>) {
        pass.for_items(|item| {
            let BackwardItem { values, g, mut input_gradients, scratch, .. } = item;
            let (lanes, parts) = (values.lanes(), (self.parts(values), self.numbers(values)));
            let mut sums = match self.packed {
                true => PartSums::SideBySide([input_gradients.sum(0)], self.features),
                false => PartSums::Apart(input_gradients.sums::<3>()),
            };
            for head in 0..self.heads {
                self.head_backward(lanes, parts, g, head, &mut sums, scratch);
            }
        });
    }
}

/// Where the gradients of query, key and value are added, each if it is wanted.
enum PartSums<'a> {
    Apart([Option<&'a mut [f32]>; 3]),
    /// In one gradient that holds them side by side, each with this many features.
    SideBySide([Option<&'a mut [f32]>; 1], usize),
}

impl PartSums<'_> {
    /// The gradient of query, key or value, from this column on.
    fn from(&mut self, part: usize, column: usize) -> Option<&mut [f32]> {
        match self {
            Self::Apart(sums) => sums[part].as_deref_mut().map(|sum| &mut sum[column..]),
            Self::SideBySide([sum], features) => {
                sum.as_deref_mut().map(|sum| &mut sum[part * *features + column..])
            }
        }
    }
}

impl AttentionKernel {
    fn head_backward(
        &self,
        lanes: Lanes,
        ([q, k, v], numbers): ([&[f32]; 3], Option<&[f32]>),
        g: &[f32],
        head: usize,
        sums: &mut PartSums<'_>,
        scratch: &mut [f32],
    ) {
        let (own, scratch) = scratch.split_at_mut(3 * self.rows * self.keys);
        let (rows, keys, row, width) = (self.rows, self.keys, self.row(), self.features / self.heads);
        let column = head * width;
        self.weights(lanes, (q, k, numbers), head, own, scratch);
        let (scores, rest) = own.split_at_mut(rows * keys);
        let (weights, dweights) = rest.split_at_mut(rows * keys);
        let upstream = Matrix { data: &g[column..], row: self.features, column: 1 };
        if let Some(dv) = sums.from(2, column) {
            let weights = Matrix::rows(weights, keys).transposed();
            product(lanes, (keys, rows, width), weights, upstream, dv, row, &self.classes, scratch);
        }
        dweights.fill(0.0);
        let values = self.head(v, head).transposed();
        product(lanes, (rows, width, keys), upstream, values, dweights, keys, &self.classes, scratch);
        softmax_rows_backward(weights, dweights, scores, keys, false);
        let scale = 1.0 / (width as f32).sqrt();
        scores.iter_mut().for_each(|score| *score *= scale);
        let scores = Matrix::rows(scores, keys);
        if let Some(dq) = sums.from(0, column) {
            product(lanes, (rows, keys, width), scores, self.head(k, head), dq, row, &self.classes, scratch);
        }
        if let Some(dk) = sums.from(1, column) {
            let scores = scores.transposed();
            product(lanes, (keys, rows, width), scores, self.head(q, head), dk, row, &self.classes, scratch);
        }
    }
}
