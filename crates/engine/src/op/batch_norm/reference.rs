//! How the oracle normalises by stored statistics.

use dapple_graph::op::BatchNorm;

use crate::reference::{Gradients, Normalised, ReferenceContext, ReferenceOperation, Tensor};

fn normalised(norm: &BatchNorm, x: &Tensor, context: &ReferenceContext<'_>) -> Normalised {
    let (mean, variance) = (context.parameter(norm.mean), context.parameter(norm.variance));
    Normalised::by_statistics(x, mean, variance, norm.eps)
}

impl ReferenceOperation for BatchNorm {
    fn forward(&self, inputs: &[&Tensor], context: &ReferenceContext<'_>, y: &mut Tensor) {
        let positions = y.positions();
        let normalised = normalised(self, inputs[0], context);
        y.data = normalised.affine(Some(self.affine), |index| index / positions, context);
    }

    fn backward(
        &self,
        inputs: &[&Tensor],
        _: &Tensor,
        context: &ReferenceContext<'_>,
        g: &Tensor,
    ) -> Gradients {
        let positions = g.positions();
        let normalised = normalised(self, inputs[0], context);
        normalised.backward(Some(self.affine), |index| index / positions, context, g)
    }
}
