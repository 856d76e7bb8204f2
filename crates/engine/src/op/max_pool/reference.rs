//! How the oracle takes the largest value of each window.

use dapple_graph::op::MaxPool;

use crate::reference::{Gradients, ReferenceContext, ReferenceOperation, Tensor, taps};

impl ReferenceOperation for MaxPool {
    fn forward(&self, inputs: &[&Tensor], _: &ReferenceContext<'_>, y: &mut Tensor) {
        let x = inputs[0];
        let (inside, outside) = (x.positions(), y.positions());
        y.data.fill(f64::NEG_INFINITY);
        for (position, _, place) in taps(&self.0, &x.shape[1..], &y.shape[1..]) {
            for c in 0..x.shape[0] {
                let best = &mut y.data[c * outside + position];
                *best = best.max(x.data[c * inside + place]);
            }
        }
    }

    fn backward(&self, inputs: &[&Tensor], _: &Tensor, _: &ReferenceContext<'_>, g: &Tensor) -> Gradients {
        let x = inputs[0];
        let (inside, outside) = (x.positions(), g.positions());
        // The first tap that holds the maximum receives the gradient, as in PyTorch.
        let mut best = vec![(f64::NEG_INFINITY, usize::MAX); g.data.len()];
        for (position, _, place) in taps(&self.0, &x.shape[1..], &g.shape[1..]) {
            for c in 0..x.shape[0] {
                let value = x.data[c * inside + place];
                let entry = &mut best[c * outside + position];
                if value > entry.0 || entry.1 == usize::MAX {
                    *entry = (value, c * inside + place);
                }
            }
        }
        let mut dx = Tensor::zeros(&x.shape);
        for (&(_, place), upstream) in best.iter().zip(&g.data) {
            dx.data[place] += upstream;
        }
        Gradients::of_inputs([dx])
    }
}
