//! Linear layers, matrix products, softmax and attention.

use dapple_graph::Op;
use dapple_graph::op::{Attention, Linear, MatMul};

use super::{Gradients, Tensor};

/// `c += a b`, with `a` of `m x k` and `b` of `k x n` read through the given strides (row, column).
#[derive(Clone, Copy)]
struct View<'a> {
    data: &'a [f64],
    row: usize,
    column: usize,
}

impl<'a> View<'a> {
    fn rows(data: &'a [f64], columns: usize) -> Self {
        Self { data, row: columns, column: 1 }
    }

    fn transposed(self) -> Self {
        Self { data: self.data, row: self.column, column: self.row }
    }

    fn at(self, i: usize, j: usize) -> f64 {
        self.data[i * self.row + j * self.column]
    }
}

fn product(m: usize, k: usize, n: usize, a: View<'_>, b: View<'_>) -> Vec<f64> {
    let mut c = vec![0.0; m * n];
    for i in 0..m {
        for j in 0..n {
            c[i * n + j] = (0..k).map(|l| a.at(i, l) * b.at(l, j)).sum();
        }
    }
    c
}

fn softmax(data: &mut [f64], features: usize) {
    for row in data.chunks_exact_mut(features) {
        let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        row.iter_mut().for_each(|v| *v = (*v - max).exp());
        let total: f64 = row.iter().sum();
        row.iter_mut().for_each(|v| *v /= total);
    }
}

fn softmax_backward(y: &[f64], g: &[f64], features: usize) -> Vec<f64> {
    let mut dx = Vec::with_capacity(y.len());
    for (y, g) in y.chunks_exact(features).zip(g.chunks_exact(features)) {
        let along: f64 = y.iter().zip(g).map(|(y, g)| y * g).sum();
        dx.extend(y.iter().zip(g).map(|(y, g)| y * (g - along)));
    }
    dx
}

/// One head's columns of a `[tokens, features]` tensor.
fn head(x: &Tensor, heads: usize, head: usize) -> Vec<f64> {
    let width = x.shape[1] / heads;
    x.data.chunks_exact(x.shape[1]).flat_map(|row| row[head * width..][..width].to_vec()).collect()
}

fn put_head(data: &[f64], heads: usize, head: usize, x: &mut Tensor) {
    let width = x.shape[1] / heads;
    let features = x.shape[1];
    for (row, part) in x.data.chunks_exact_mut(features).zip(data.chunks_exact(width)) {
        row[head * width..][..width].copy_from_slice(part);
    }
}

/// Attention weights of one head.
fn attention_weights(q: &[f64], k: &[f64], width: usize) -> Vec<f64> {
    let (rows, keys) = (q.len() / width, k.len() / width);
    let mut scores = product(rows, width, keys, View::rows(q, width), View::rows(k, width).transposed());
    scores.iter_mut().for_each(|s| *s /= (width as f64).sqrt());
    softmax(&mut scores, keys);
    scores
}

/// Sizes of a matrix product: batches, m, k, n.
fn sizes(a: &Tensor, y: &[usize]) -> (usize, usize, usize, usize) {
    let rank = y.len();
    (y[..rank - 2].iter().product(), y[rank - 2], a.shape[rank - 1], y[rank - 1])
}

fn right(b: &[f64], k: usize, n: usize, transpose: bool) -> View<'_> {
    if transpose { View::rows(b, k).transposed() } else { View::rows(b, n) }
}

pub(super) fn forward(op: &Op, inputs: &[&Tensor], parameters: &[Vec<f64>], y: &mut Tensor) {
    let x = inputs[0];
    match op {
        Op::Linear(Linear { weight, bias }) => {
            let (features, out) = (x.shape[x.shape.len() - 1], y.shape[y.shape.len() - 1]);
            let rows = x.data.len() / features;
            let weight = View::rows(&parameters[weight.index()], features).transposed();
            y.data = product(rows, features, out, View::rows(&x.data, features), weight);
            if let Some(bias) = bias {
                let bias = &parameters[bias.index()];
                y.data.iter_mut().enumerate().for_each(|(i, v)| *v += bias[i % out]);
            }
        }
        Op::MatMul(MatMul { transpose }) => {
            let (batches, m, k, n) = sizes(x, &y.shape);
            for batch in 0..batches {
                let a = View::rows(&x.data[batch * m * k..], k);
                let b = right(&inputs[1].data[batch * k * n..], k, n, *transpose);
                y.data[batch * m * n..][..m * n].copy_from_slice(&product(m, k, n, a, b));
            }
        }
        Op::Attention(Attention { heads }) => {
            let width = x.shape[1] / heads;
            let (rows, keys) = (x.shape[0], inputs[1].shape[0]);
            for h in 0..*heads {
                let [q, k, v] = [0, 1, 2].map(|i| head(inputs[i], *heads, h));
                let weights = attention_weights(&q, &k, width);
                let out = product(rows, keys, width, View::rows(&weights, keys), View::rows(&v, width));
                put_head(&out, *heads, h, y);
            }
        }
        _ => {
            y.data.clone_from(&x.data);
            softmax(&mut y.data, x.shape[x.shape.len() - 1]);
        }
    }
}

pub(super) fn backward(
    op: &Op,
    inputs: &[&Tensor],
    y: &Tensor,
    parameters: &[Vec<f64>],
    g: &Tensor,
) -> Gradients {
    let x = inputs[0];
    let mut gradients =
        Gradients { inputs: inputs.iter().map(|x| Tensor::zeros(&x.shape)).collect(), ..Default::default() };
    match op {
        Op::Linear(Linear { weight, bias }) => {
            let (features, out) = (x.shape[x.shape.len() - 1], y.shape[y.shape.len() - 1]);
            let rows = x.data.len() / features;
            let upstream = View::rows(&g.data, out);
            let stored = View::rows(&parameters[weight.index()], features);
            gradients.inputs[0].data = product(rows, out, features, upstream, stored);
            let dw = product(out, rows, features, upstream.transposed(), View::rows(&x.data, features));
            gradients.parameters.push((*weight, dw));
            if let Some(bias) = bias {
                let db = (0..out).map(|o| (0..rows).map(|r| g.data[r * out + o]).sum()).collect();
                gradients.parameters.push((*bias, db));
            }
        }
        Op::MatMul(MatMul { transpose }) => {
            let (batches, m, k, n) = sizes(x, &y.shape);
            for batch in 0..batches {
                let a = View::rows(&x.data[batch * m * k..], k);
                let b = right(&inputs[1].data[batch * k * n..], k, n, *transpose);
                let g = View::rows(&g.data[batch * m * n..], n);
                let da = product(m, n, k, g, b.transposed());
                let db = match transpose {
                    true => product(n, m, k, g.transposed(), a),
                    false => product(k, m, n, a.transposed(), g),
                };
                gradients.inputs[0].data[batch * m * k..][..m * k].copy_from_slice(&da);
                gradients.inputs[1].data[batch * k * n..][..k * n].copy_from_slice(&db);
            }
        }
        Op::Attention(Attention { heads }) => {
            let width = x.shape[1] / heads;
            let (rows, keys) = (x.shape[0], inputs[1].shape[0]);
            for h in 0..*heads {
                let [q, k, v] = [0, 1, 2].map(|i| head(inputs[i], *heads, h));
                let upstream = head(g, *heads, h);
                let weights = attention_weights(&q, &k, width);
                let (weights_view, upstream) = (View::rows(&weights, keys), View::rows(&upstream, width));
                let dv = product(keys, rows, width, weights_view.transposed(), upstream);
                let dweights = product(rows, width, keys, upstream, View::rows(&v, width).transposed());
                let mut dscores = softmax_backward(&weights, &dweights, keys);
                dscores.iter_mut().for_each(|s| *s /= (width as f64).sqrt());
                let dscores = View::rows(&dscores, keys);
                let dq = product(rows, keys, width, dscores, View::rows(&k, width));
                let dk = product(keys, rows, width, dscores.transposed(), View::rows(&q, width));
                for (input, part) in gradients.inputs.iter_mut().zip([dq, dk, dv]) {
                    put_head(&part, *heads, h, input);
                }
            }
        }
        _ => gradients.inputs[0].data = softmax_backward(&y.data, &g.data, x.shape[x.shape.len() - 1]),
    }
    gradients
}
