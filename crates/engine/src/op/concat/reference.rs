//! How the oracle joins values: by which element of which input each element of the output is.

use dapple_graph::op::Concat;

use crate::reference::{ElementMoves, Gradients, ReferenceContext, ReferenceOperation, Tensor, flat};

fn moves(op: &Concat, inputs: &[&Tensor], output: &[usize]) -> ElementMoves {
    ElementMoves::new(output, |index| {
        let mut place = index.to_vec();
        let mut input = 0;
        while place[op.axis] >= inputs[input].shape[op.axis] {
            place[op.axis] -= inputs[input].shape[op.axis];
            input += 1;
        }
        (input, flat(&inputs[input].shape, &place))
    })
}

impl ReferenceOperation for Concat {
    fn forward(&self, inputs: &[&Tensor], _: &ReferenceContext<'_>, y: &mut Tensor) {
        moves(self, inputs, &y.shape).forward(inputs, y);
    }

    fn backward(&self, inputs: &[&Tensor], _: &Tensor, _: &ReferenceContext<'_>, g: &Tensor) -> Gradients {
        moves(self, inputs, &g.shape).backward(inputs, g)
    }
}
