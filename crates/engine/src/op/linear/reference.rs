//! How the oracle runs a linear layer.

use dapple_graph::op::Linear;

use crate::reference::{Gradients, MatrixView, ReferenceContext, ReferenceOperation, Tensor, product};

impl ReferenceOperation for Linear {
    fn forward(&self, inputs: &[&Tensor], context: &ReferenceContext<'_>, y: &mut Tensor) {
        let x = inputs[0];
        let (features, out) = (x.last(), y.last());
        let rows = x.data.len() / features;
        let weight = MatrixView::rows(context.parameter(self.weight), features).transposed();
        y.data = product(rows, features, out, MatrixView::rows(&x.data, features), weight);
        if let Some(bias) = self.bias {
            let bias = context.parameter(bias);
            y.data.iter_mut().enumerate().for_each(|(i, v)| *v += bias[i % out]);
        }
    }

    fn backward(
        &self,
        inputs: &[&Tensor],
        _: &Tensor,
        context: &ReferenceContext<'_>,
        g: &Tensor,
    ) -> Gradients {
        let x = inputs[0];
        let (features, out) = (x.last(), g.last());
        let rows = x.data.len() / features;
        let upstream = MatrixView::rows(&g.data, out);
        let stored = MatrixView::rows(context.parameter(self.weight), features);
        let dx = Tensor { shape: x.shape.clone(), data: product(rows, out, features, upstream, stored) };
        let dw = product(out, rows, features, upstream.transposed(), MatrixView::rows(&x.data, features));
        let mut parameters = vec![(self.weight, dw)];
        if let Some(bias) = self.bias {
            let db = (0..out).map(|o| (0..rows).map(|r| g.data[r * out + o]).sum()).collect();
            parameters.push((bias, db));
        }
        Gradients { inputs: vec![dx], parameters }
    }
}
