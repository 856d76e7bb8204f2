//! How the oracle reads a parameter as a value.

use dapple_graph::op::ParameterValue;

use crate::reference::{Gradients, ReferenceContext, ReferenceOperation, Tensor};

impl ReferenceOperation for ParameterValue {
    fn forward(&self, _: &[&Tensor], context: &ReferenceContext<'_>, y: &mut Tensor) {
        y.data = context.parameter(self.0).to_vec();
    }

    fn backward(&self, _: &[&Tensor], _: &Tensor, _: &ReferenceContext<'_>, g: &Tensor) -> Gradients {
        Gradients { inputs: Vec::new(), parameters: vec![(self.0, g.data.clone())] }
    }
}
