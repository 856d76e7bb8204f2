//! How the oracle reads a sample.

use dapple_graph::op::Input;

use crate::reference::{Gradients, ReferenceContext, ReferenceOperation, Tensor};

impl ReferenceOperation for Input {
    fn forward(&self, _: &[&Tensor], context: &ReferenceContext<'_>, y: &mut Tensor) {
        y.data = context.sample.iter().map(|&value| f64::from(value)).collect();
    }

    fn backward(&self, _: &[&Tensor], _: &Tensor, _: &ReferenceContext<'_>, _: &Tensor) -> Gradients {
        Gradients::default()
    }
}
