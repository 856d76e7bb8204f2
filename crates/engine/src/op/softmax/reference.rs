//! How the oracle takes a softmax.

use dapple_graph::op::Softmax;

use crate::reference::{Gradients, ReferenceContext, ReferenceOperation, Tensor};

impl ReferenceOperation for Softmax {
    fn forward(&self, inputs: &[&Tensor], _: &ReferenceContext<'_>, y: &mut Tensor) {
        y.data.clone_from(&inputs[0].data);
        softmax(&mut y.data, inputs[0].last());
    }

    fn backward(&self, inputs: &[&Tensor], y: &Tensor, _: &ReferenceContext<'_>, g: &Tensor) -> Gradients {
        let data = softmax_backward(&y.data, &g.data, y.last());
        Gradients::of_inputs([Tensor { shape: inputs[0].shape.clone(), data }])
    }
}

/// Takes the softmax of every row of `features` values.
pub(crate) fn softmax(data: &mut [f64], features: usize) {
    for row in data.chunks_exact_mut(features) {
        let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        row.iter_mut().for_each(|v| *v = (*v - max).exp());
        let total: f64 = row.iter().sum();
        row.iter_mut().for_each(|v| *v /= total);
    }
}

/// The gradient of the input, from the output and its gradient.
pub(crate) fn softmax_backward(y: &[f64], g: &[f64], features: usize) -> Vec<f64> {
    let mut dx = Vec::with_capacity(y.len());
    for (y, g) in y.chunks_exact(features).zip(g.chunks_exact(features)) {
        let along: f64 = y.iter().zip(g).map(|(y, g)| y * g).sum();
        dx.extend(y.iter().zip(g).map(|(y, g)| y * (g - along)));
    }
    dx
}
