//! How the oracle normalises groups of channels, each of which is one run of values.

use dapple_graph::op::GroupNorm;

use crate::reference::{Gradients, Normalised, ReferenceContext, ReferenceOperation, Tensor};

fn normalised(norm: &GroupNorm, x: &Tensor) -> Normalised {
    Normalised::in_runs(x, x.data.len() / norm.groups, norm.eps, true)
}

impl ReferenceOperation for GroupNorm {
    fn forward(&self, inputs: &[&Tensor], context: &ReferenceContext<'_>, y: &mut Tensor) {
        let positions = y.positions();
        y.data = normalised(self, inputs[0]).affine(self.affine, |index| index / positions, context);
    }

    fn backward(
        &self,
        inputs: &[&Tensor],
        _: &Tensor,
        context: &ReferenceContext<'_>,
        g: &Tensor,
    ) -> Gradients {
        let (x, positions) = (inputs[0], g.positions());
        normalised(self, x).backward(self.affine, |index| index / positions, context, g)
    }
}
