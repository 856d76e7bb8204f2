//! How the reference convolves tokens: it goes through every output position, every tap and every feature.

use dapple_graph::op::TokenConv;

use super::output_grid;
use crate::reference::{Gradients, ReferenceContext, ReferenceOperation, Tensor, taps};

/// For every product of the convolution, where its value, its weight and its result lie.
fn products(conv: &TokenConv, features: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let (filters, size) = (features / conv.heads, conv.window.taps());
    let of_features = move |(position, tap, place): (usize, usize, usize)| {
        (0..features).map(move |feature| {
            let weight = feature % filters * size + tap;
            ((1 + place) * features + feature, weight, (1 + position) * features + feature)
        })
    };
    taps(&conv.window, &conv.grid, &output_grid(conv)).into_iter().flat_map(of_features)
}

impl ReferenceOperation for TokenConv {
    fn forward(&self, inputs: &[&Tensor], context: &ReferenceContext<'_>, y: &mut Tensor) {
        let (x, weight, features) = (&inputs[0].data, context.parameter(self.weight), y.last());
        y.data[..features].copy_from_slice(&x[..features]);
        for (from, tap, to) in products(self, features) {
            y.data[to] += x[from] * weight[tap];
        }
    }

    fn backward(
        &self,
        inputs: &[&Tensor],
        _: &Tensor,
        context: &ReferenceContext<'_>,
        g: &Tensor,
    ) -> Gradients {
        let (x, weight, features) = (inputs[0], context.parameter(self.weight), g.last());
        let (mut dx, mut dw) = (Tensor::zeros(&x.shape), vec![0.0; weight.len()]);
        dx.data[..features].copy_from_slice(&g.data[..features]);
        for (from, tap, to) in products(self, features) {
            dx.data[from] += g.data[to] * weight[tap];
            dw[tap] += g.data[to] * x.data[from];
        }
        Gradients { inputs: vec![dx], parameters: vec![(self.weight, dw)] }
    }
}
