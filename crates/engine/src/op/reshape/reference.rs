//! How the oracle gives values another shape.

use dapple_graph::op::Reshape;

use crate::reference::{Gradients, ReferenceContext, ReferenceOperation, Tensor};

impl ReferenceOperation for Reshape {
    fn forward(&self, inputs: &[&Tensor], _: &ReferenceContext<'_>, y: &mut Tensor) {
        y.data.clone_from(&inputs[0].data);
    }

    fn backward(&self, inputs: &[&Tensor], _: &Tensor, _: &ReferenceContext<'_>, g: &Tensor) -> Gradients {
        Gradients::of_inputs([Tensor { shape: inputs[0].shape.clone(), data: g.data.clone() }])
    }
}
