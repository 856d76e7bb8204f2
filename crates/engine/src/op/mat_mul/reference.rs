//! How the oracle multiplies two activations.

use dapple_graph::op::MatMul;

use crate::reference::{Gradients, MatrixView, ReferenceContext, ReferenceOperation, Tensor, product};

/// The sizes of a matrix product: batches, m, k and n.
fn sizes(a: &Tensor, y: &[usize]) -> (usize, usize, usize, usize) {
    let rank = y.len();
    (y[..rank - 2].iter().product(), y[rank - 2], a.shape[rank - 1], y[rank - 1])
}

fn right(b: &[f64], k: usize, n: usize, transpose: bool) -> MatrixView<'_> {
    if transpose { MatrixView::rows(b, k).transposed() } else { MatrixView::rows(b, n) }
}

impl ReferenceOperation for MatMul {
    fn forward(&self, inputs: &[&Tensor], _: &ReferenceContext<'_>, y: &mut Tensor) {
        let (batches, m, k, n) = sizes(inputs[0], &y.shape);
        for batch in 0..batches {
            let a = MatrixView::rows(&inputs[0].data[batch * m * k..], k);
            let b = right(&inputs[1].data[batch * k * n..], k, n, self.transpose);
            y.data[batch * m * n..][..m * n].copy_from_slice(&product(m, k, n, a, b));
        }
    }

    fn backward(&self, inputs: &[&Tensor], _: &Tensor, _: &ReferenceContext<'_>, g: &Tensor) -> Gradients {
        let (batches, m, k, n) = sizes(inputs[0], &g.shape);
        let [mut left_gradient, mut right_gradient] = [0, 1].map(|side| Tensor::zeros(&inputs[side].shape));
        for batch in 0..batches {
            let a = MatrixView::rows(&inputs[0].data[batch * m * k..], k);
            let b = right(&inputs[1].data[batch * k * n..], k, n, self.transpose);
            let g = MatrixView::rows(&g.data[batch * m * n..], n);
            let da = product(m, n, k, g, b.transposed());
            let db = match self.transpose {
                true => product(n, m, k, g.transposed(), a),
                false => product(k, m, n, a.transposed(), g),
            };
            left_gradient.data[batch * m * k..][..m * k].copy_from_slice(&da);
            right_gradient.data[batch * k * n..][..k * n].copy_from_slice(&db);
        }
        Gradients::of_inputs([left_gradient, right_gradient])
    }
}
