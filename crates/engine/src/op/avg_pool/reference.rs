//! How the oracle takes the mean of each window.

use dapple_graph::op::AvgPool;

use crate::reference::{Gradients, ReferenceContext, ReferenceOperation, Tensor, taps};

impl ReferenceOperation for AvgPool {
    fn forward(&self, inputs: &[&Tensor], _: &ReferenceContext<'_>, y: &mut Tensor) {
        let x = inputs[0];
        let (inside, outside) = (x.positions(), y.positions());
        for (position, _, place) in taps(&self.0, &x.shape[1..], &y.shape[1..]) {
            for c in 0..x.shape[0] {
                y.data[c * outside + position] += x.data[c * inside + place] / self.0.taps() as f64;
            }
        }
    }

    fn backward(&self, inputs: &[&Tensor], _: &Tensor, _: &ReferenceContext<'_>, g: &Tensor) -> Gradients {
        let mut dx = Tensor::zeros(&inputs[0].shape);
        let (inside, outside) = (dx.positions(), g.positions());
        for (position, _, place) in taps(&self.0, &inputs[0].shape[1..], &g.shape[1..]) {
            for c in 0..g.shape[0] {
                dx.data[c * inside + place] += g.data[c * outside + position] / self.0.taps() as f64;
            }
        }
        Gradients::of_inputs([dx])
    }
}
