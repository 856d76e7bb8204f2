//! How the oracle multiplies two values.

use dapple_graph::op::Mul;

use crate::reference::{Gradients, ReferenceContext, ReferenceOperation, Tensor};

fn product(a: &Tensor, b: &Tensor) -> Tensor {
    Tensor { shape: a.shape.clone(), data: a.data.iter().zip(&b.data).map(|(a, b)| a * b).collect() }
}

impl ReferenceOperation for Mul {
    fn forward(&self, inputs: &[&Tensor], _: &ReferenceContext<'_>, y: &mut Tensor) {
        *y = product(inputs[0], inputs[1]);
    }

    fn backward(&self, inputs: &[&Tensor], _: &Tensor, _: &ReferenceContext<'_>, g: &Tensor) -> Gradients {
        Gradients::of_inputs([product(g, inputs[1]), product(g, inputs[0])])
    }
}
