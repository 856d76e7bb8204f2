//! How the oracle resamples an image.

use dapple_graph::op::Upsample;

use crate::reference::{Gradients, ReferenceContext, ReferenceOperation, ResamplingMap, Tensor};

/// The places along an axis from which an output position takes its value, with their shares.
fn along_axis(from: usize, to: usize, position: usize) -> Vec<(usize, f64)> {
    let place = ((position as f64 + 0.5) * from as f64 / to as f64 - 0.5).max(0.0);
    let low = (place as usize).min(from - 1);
    let share = place - low as f64;
    vec![(low, 1.0 - share), ((low + 1).min(from - 1), share)]
}

impl ReferenceOperation for Upsample {
    fn forward(&self, inputs: &[&Tensor], _: &ReferenceContext<'_>, y: &mut Tensor) {
        ResamplingMap::new(&inputs[0].shape, &y.shape, along_axis).forward(inputs[0], y);
    }

    fn backward(&self, inputs: &[&Tensor], _: &Tensor, _: &ReferenceContext<'_>, g: &Tensor) -> Gradients {
        let mut dx = Tensor::zeros(&inputs[0].shape);
        ResamplingMap::new(&inputs[0].shape, &g.shape, along_axis).backward(g, &mut dx);
        Gradients::of_inputs([dx])
    }
}
