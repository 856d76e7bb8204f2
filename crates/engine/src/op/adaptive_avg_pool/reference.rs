//! How the oracle takes the means of windows whose size follows from the output's.

use dapple_graph::op::AdaptiveAvgPool;

use crate::reference::{Gradients, ReferenceContext, ReferenceOperation, ResamplingMap, Tensor};

/// The places along an axis from which an output position takes its value, with their shares.
fn along_axis(from: usize, to: usize, position: usize) -> Vec<(usize, f64)> {
    let (start, end) = (position * from / to, ((position + 1) * from).div_ceil(to));
    (start..end).map(|place| (place, 1.0 / (end - start) as f64)).collect()
}

impl ReferenceOperation for AdaptiveAvgPool {
    fn forward(&self, inputs: &[&Tensor], _: &ReferenceContext<'_>, y: &mut Tensor) {
        ResamplingMap::new(&inputs[0].shape, &y.shape, along_axis).forward(inputs[0], y);
    }

    fn backward(&self, inputs: &[&Tensor], _: &Tensor, _: &ReferenceContext<'_>, g: &Tensor) -> Gradients {
        let mut dx = Tensor::zeros(&inputs[0].shape);
        ResamplingMap::new(&inputs[0].shape, &g.shape, along_axis).backward(g, &mut dx);
        Gradients::of_inputs([dx])
    }
}
