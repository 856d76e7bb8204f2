//! The oracle's way: head after head, every score written down.

use dapple_graph::op::Attention;

use crate::op::softmax::{softmax, softmax_backward};
use crate::reference::{Gradients, MatrixView, ReferenceContext, ReferenceOperation, Tensor, product};

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
fn weights(q: &[f64], k: &[f64], width: usize) -> Vec<f64> {
    let (rows, keys) = (q.len() / width, k.len() / width);
    let transposed = MatrixView::rows(k, width).transposed();
    let mut scores = product(rows, width, keys, MatrixView::rows(q, width), transposed);
    scores.iter_mut().for_each(|s| *s /= (width as f64).sqrt());
    softmax(&mut scores, keys);
    scores
}

impl ReferenceOperation for Attention {
    fn forward(&self, inputs: &[&Tensor], _: &ReferenceContext<'_>, y: &mut Tensor) {
        let width = y.shape[1] / self.heads;
        let (rows, keys) = (inputs[0].shape[0], inputs[1].shape[0]);
        for h in 0..self.heads {
            let [q, k, v] = [0, 1, 2].map(|i| head(inputs[i], self.heads, h));
            let weights = weights(&q, &k, width);
            let weights = MatrixView::rows(&weights, keys);
            let out = product(rows, keys, width, weights, MatrixView::rows(&v, width));
            put_head(&out, self.heads, h, y);
        }
    }

    fn backward(&self, inputs: &[&Tensor], _: &Tensor, _: &ReferenceContext<'_>, g: &Tensor) -> Gradients {
        let mut gradients = [0, 1, 2].map(|i| Tensor::zeros(&inputs[i].shape));
        let width = g.shape[1] / self.heads;
        let (rows, keys) = (inputs[0].shape[0], inputs[1].shape[0]);
        for h in 0..self.heads {
            let [q, k, v] = [0, 1, 2].map(|i| head(inputs[i], self.heads, h));
            let upstream = head(g, self.heads, h);
            let weights = weights(&q, &k, width);
            let (view, upstream) = (MatrixView::rows(&weights, keys), MatrixView::rows(&upstream, width));
            let dv = product(keys, rows, width, view.transposed(), upstream);
            let dweights = product(rows, width, keys, upstream, MatrixView::rows(&v, width).transposed());
            let mut dscores = softmax_backward(&weights, &dweights, keys);
            dscores.iter_mut().for_each(|s| *s /= (width as f64).sqrt());
            let dscores = MatrixView::rows(&dscores, keys);
            let dq = product(rows, keys, width, dscores, MatrixView::rows(&k, width));
            let dk = product(keys, rows, width, dscores.transposed(), MatrixView::rows(&q, width));
            for (gradient, part) in gradients.iter_mut().zip([dq, dk, dv]) {
                put_head(&part, self.heads, h, gradient);
            }
        }
        Gradients::of_inputs(gradients)
    }
}
