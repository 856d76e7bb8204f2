//! The oracle's way.

use dapple_graph::op::Dropout;

use crate::batch::keeps;
use crate::reference::{Gradients, ReferenceContext, ReferenceOperation, Tensor};

/// Values as they pass: themselves where dropout is off, else nothing or more.
fn masked(op: &Dropout, x: &Tensor, context: &ReferenceContext<'_>) -> Tensor {
    let Some((key, node)) = context.dropout else { return x.clone() };
    // Values that fall together.
    let together = if op.channels { x.positions() } else { 1 };
    let factor = |index: usize| match keeps(key, node, index / together, op.rate) {
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
