//! How the CPU runs attention: head after head, the scores of one head at a time.

use dapple_graph::op::Attention;

use crate::cpu::kernel::{Lanes, RowClass};
use crate::cpu::matrix::{Matrix, identity, product, product_scratch};
use crate::cpu::operation::{
    BackwardItem, BackwardPass, BackwardReads, CpuKernel, CpuOperation, ForwardItem, ForwardPass,
    LoweredNode, Order,
};
use crate::op::softmax::{softmax_rows, softmax_rows_backward};

/// Multi-head attention over `rows` queries and `keys` keys.
#[derive(Debug)]
struct AttentionKernel {
    heads: usize,
    rows: usize,
    keys: usize,
    features: usize,
    classes: Vec<RowClass>,
}

impl AttentionKernel {
    /// Columns of one head.
    fn head<'a>(&self, x: &'a [f32], head: usize) -> Matrix<'a> {
        Matrix { data: &x[head * (self.features / self.heads)..], row: self.features, column: 1 }
    }

    fn weights(
        &self,
        lanes: Lanes,
        q: &[f32],
        k: &[f32],
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
        softmax_rows(scores, &mut weights[..self.rows * self.keys], self.keys);
    }
}

impl CpuOperation for Attention {
    fn order(&self) -> Order {
        Order::RowMajor
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        let (rows, features) = node.form.rows();
        let keys = node.inputs[1].shape[0];
        let classes = identity(rows.max(keys));
        Box::new(AttentionKernel { heads: self.heads, rows, keys, features, classes })
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
            let (lanes, [q, k, v]) = (values.lanes(), values.inputs());
            let (own, scratch) = scratch.split_at_mut(3 * self.rows * self.keys);
            let width = self.features / self.heads;
            y.fill(0.0);
            for head in 0..self.heads {
                self.weights(lanes, q, k, head, own, scratch);
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
            let (lanes, [q, k, v]) = (values.lanes(), values.inputs());
            let [mut dq, mut dk, mut dv] = input_gradients.sums();
            let (own, scratch) = scratch.split_at_mut(3 * self.rows * self.keys);
            let (rows, keys, features, width) =
                (self.rows, self.keys, self.features, self.features / self.heads);
            let scale = 1.0 / (width as f32).sqrt();
            for head in 0..self.heads {
                self.weights(lanes, q, k, head, own, scratch);
                let (scores, rest) = own.split_at_mut(rows * keys);
                let (weights, dweights) = rest.split_at_mut(rows * keys);
                let upstream = self.head(g, head);
                if let Some(dv) = &mut dv {
                    let (shape, dv) = ((keys, rows, width), &mut dv[head * width..]);
                    let weights = Matrix::rows(weights, keys).transposed();
                    product(lanes, shape, weights, upstream, dv, features, &self.classes, scratch);
                }
                dweights.fill(0.0);
                let values = self.head(v, head).transposed();
                product(lanes, (rows, width, keys), upstream, values, dweights, keys, &self.classes, scratch);
                softmax_rows_backward(weights, dweights, scores, keys, false);
                scores.iter_mut().for_each(|score| *score *= scale);
                let scores = Matrix::rows(scores, keys);
                if let Some(dq) = &mut dq {
                    let (shape, dq) = ((rows, keys, width), &mut dq[head * width..]);
                    product(lanes, shape, scores, self.head(k, head), dq, features, &self.classes, scratch);
                }
                if let Some(dk) = &mut dk {
                    let (shape, dk) = ((keys, rows, width), &mut dk[head * width..]);
                    let scores = scores.transposed();
                    product(lanes, shape, scores, self.head(q, head), dk, features, &self.classes, scratch);
                }
            }
        });
    }
}
