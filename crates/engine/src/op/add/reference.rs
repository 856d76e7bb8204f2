//! How the oracle adds two values.

use dapple_graph::op::Add;

use crate::reference::{Gradients, ReferenceContext, ReferenceOperation, Tensor};

impl ReferenceOperation for Add {
    fn forward(&self, inputs: &[&Tensor], _: &ReferenceContext<'_>, y: &mut Tensor) {
        y.data = inputs[0].data.iter().zip(&inputs[1].data).map(|(a, b)| a + b).collect();
    }

    fn backward(&self, _: &[&Tensor], _: &Tensor, _: &ReferenceContext<'_>, g: &Tensor) -> Gradients {
        Gradients::of_inputs([g.clone(), g.clone()])
    }
}
