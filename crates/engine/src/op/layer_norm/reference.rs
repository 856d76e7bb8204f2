//! How the oracle normalises rows of features, each of which is one run of values.

use dapple_graph::op::LayerNorm;

use crate::reference::{Gradients, Normalised, ReferenceContext, ReferenceOperation, Tensor};

impl ReferenceOperation for LayerNorm {
    fn forward(&self, inputs: &[&Tensor], context: &ReferenceContext<'_>, y: &mut Tensor) {
        let features = y.last();
        let normalised = Normalised::in_runs(inputs[0], features, self.eps);
        y.data = normalised.affine(self.affine, |index| index % features, context);
    }

    fn backward(
        &self,
        inputs: &[&Tensor],
        _: &Tensor,
        context: &ReferenceContext<'_>,
        g: &Tensor,
    ) -> Gradients {
        let features = g.last();
        let normalised = Normalised::in_runs(inputs[0], features, self.eps);
        normalised.backward(self.affine, |index| index % features, context, g)
    }
}
