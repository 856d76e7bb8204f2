//! How the oracle drops values.

use dapple_graph::op::Dropout;

use crate::batch::NodeDropout;
use crate::reference::{Gradients, ReferenceContext, ReferenceOperation, Tensor};

/// The values after dropout: the same if dropout is off, else each is zero or scaled up.
fn masked(op: &Dropout, x: &Tensor, context: &ReferenceContext<'_>) -> Tensor {
    if matches!(context.dropout, NodeDropout::Off) {
        return x.clone();
    }
    // How many values are dropped together.
    let together = if op.channels { x.positions() } else { 1 };
    let factor = |index: usize| match context.dropout.keeps(op, index / together) {
        true => 1.0 / (1.0 - f64::from(op.rate)),
        false => 0.0,
    };
    let data = x.data.iter().enumerate().map(|(index, x)| x * factor(index)).collect();
    Tensor { shape: x.shape.clone(), data }
}

impl ReferenceOperation for Dropout {
    fn forward(&self, inputs: &[&Tensor], context: &ReferenceContext<'_>, y: &mut Tensor) {
        *y = masked(self, inputs[0], context);
    }

    fn backward(&self, _: &[&Tensor], _: &Tensor, context: &ReferenceContext<'_>, g: &Tensor) -> Gradients {
        Gradients::of_inputs([masked(self, g, context)])
    }
}
