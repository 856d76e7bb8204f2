//! How the oracle runs attention: head after head, with every score written down.

use dapple_graph::op::Attention;

use crate::op::softmax::{softmax, softmax_backward};
use crate::reference::{Gradients, MatrixView, ReferenceContext, ReferenceOperation, Tensor, product};

/// The input that holds query, key or value (by number), and the column where that begins. There are three inputs, or one that holds all
/// three, with the numbers of the tokens behind it or not.
fn part<'t>(inputs: &[&'t Tensor], features: usize, index: usize) -> (&'t Tensor, usize) {
    match inputs {
        [packed] | [packed, _] => (packed, index * features),
        apart => (apart[index], 0),
    }
}

/// The numbers of the tokens, where they say which of them nobody attends to.
fn numbers<'t>(inputs: &[&'t Tensor]) -> Option<&'t [f64]> {
    match inputs {
        [_, numbers] => Some(&numbers.data),
        _ => None,
    }
}

/// Copies `width` columns out of a tensor of rows.
fn columns((x, start): (&Tensor, usize), width: usize) -> Vec<f64> {
    x.data.chunks_exact(x.shape[1]).flat_map(|row| row[start..][..width].to_vec()).collect()
}

fn put_columns(data: &[f64], width: usize, (x, start): (&mut Tensor, usize)) {
    let features = x.shape[1];
    for (row, part) in x.data.chunks_exact_mut(features).zip(data.chunks_exact(width)) {
        row[start..][..width].copy_from_slice(part);
    }
}

/// The attention weights of one head.
fn weights(q: &[f64], k: &[f64], width: usize, numbers: Option<&[f64]>) -> Vec<f64> {
    let (rows, keys) = (q.len() / width, k.len() / width);
    let transposed = MatrixView::rows(k, width).transposed();
    let mut scores = product(rows, width, keys, MatrixView::rows(q, width), transposed);
    scores.iter_mut().for_each(|s| *s /= (width as f64).sqrt());
    for row in scores.chunks_exact_mut(keys) {
        let excluded =
            row.iter_mut().zip(numbers.into_iter().flatten()).filter(|(_, number)| **number == 0.0);
        excluded.for_each(|(score, _)| *score = f64::NEG_INFINITY);
    }
    softmax(&mut scores, keys);
    scores
}

impl ReferenceOperation for Attention {
    fn forward(&self, inputs: &[&Tensor], _: &ReferenceContext<'_>, y: &mut Tensor) {
        let (features, width) = (y.shape[1], y.shape[1] / self.heads);
        for head in 0..self.heads {
            let [q, k, v] = [0, 1, 2].map(|index| {
                let (x, start) = part(inputs, features, index);
                columns((x, start + head * width), width)
            });
            let (rows, keys) = (q.len() / width, k.len() / width);
            let weights = weights(&q, &k, width, numbers(inputs));
            let weights = MatrixView::rows(&weights, keys);
            let out = product(rows, keys, width, weights, MatrixView::rows(&v, width));
            put_columns(&out, width, (y, head * width));
        }
    }

    fn backward(&self, inputs: &[&Tensor], _: &Tensor, _: &ReferenceContext<'_>, g: &Tensor) -> Gradients {
        let mut gradients: Vec<Tensor> = inputs.iter().map(|input| Tensor::zeros(&input.shape)).collect();
        let (features, width) = (g.shape[1], g.shape[1] / self.heads);
        for head in 0..self.heads {
            let [q, k, v] = [0, 1, 2].map(|index| {
                let (x, start) = part(inputs, features, index);
                columns((x, start + head * width), width)
            });
            let (rows, keys) = (q.len() / width, k.len() / width);
            let upstream = columns((g, head * width), width);
            let weights = weights(&q, &k, width, numbers(inputs));
            let (view, upstream) = (MatrixView::rows(&weights, keys), MatrixView::rows(&upstream, width));
            let dv = product(keys, rows, width, view.transposed(), upstream);
            let dweights = product(rows, width, keys, upstream, MatrixView::rows(&v, width).transposed());
            let mut dscores = softmax_backward(&weights, &dweights, keys);
            dscores.iter_mut().for_each(|s| *s /= (width as f64).sqrt());
            let dscores = MatrixView::rows(&dscores, keys);
            let dq = product(rows, keys, width, dscores, MatrixView::rows(&k, width));
            let dk = product(keys, rows, width, dscores.transposed(), MatrixView::rows(&q, width));
            for (index, data) in [dq, dk, dv].iter().enumerate() {
                let (input, start) = if gradients.len() < 3 { (0, index * features) } else { (index, 0) };
                put_columns(data, width, (&mut gradients[input], start + head * width));
            }
        }
        Gradients { inputs: gradients, parameters: Vec::new() }
    }
}
