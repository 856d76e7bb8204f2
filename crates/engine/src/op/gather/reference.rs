//! How the oracle picks rows: by which element of the input each element of the output is.

use dapple_graph::op::Gather;

use crate::reference::{ElementMoves, Gradients, ReferenceContext, ReferenceOperation, Tensor, flat};

fn moves(op: &Gather, inputs: &[&Tensor], output: &[usize]) -> ElementMoves {
    ElementMoves::new(output, |index| {
        let mut place = index.to_vec();
        place[0] = op.0[index[0]];
        (0, flat(&inputs[0].shape, &place))
    })
}

impl ReferenceOperation for Gather {
    fn forward(&self, inputs: &[&Tensor], _: &ReferenceContext<'_>, y: &mut Tensor) {
        moves(self, inputs, &y.shape).forward(inputs, y);
    }

    fn backward(&self, inputs: &[&Tensor], _: &Tensor, _: &ReferenceContext<'_>, g: &Tensor) -> Gradients {
        moves(self, inputs, &g.shape).backward(inputs, g)
    }
}
