//! How the oracle takes a range of an axis: by which element of the input each element of the output is.

use dapple_graph::op::Slice;

use crate::reference::{ElementMoves, Gradients, ReferenceContext, ReferenceOperation, Tensor, flat};

fn moves(op: &Slice, inputs: &[&Tensor], output: &[usize]) -> ElementMoves {
    ElementMoves::new(output, |index| {
        let mut place = index.to_vec();
        place[op.axis] += op.start;
        (0, flat(&inputs[0].shape, &place))
    })
}

impl ReferenceOperation for Slice {
    fn forward(&self, inputs: &[&Tensor], _: &ReferenceContext<'_>, y: &mut Tensor) {
        moves(self, inputs, &y.shape).forward(inputs, y);
    }

    fn backward(&self, inputs: &[&Tensor], _: &Tensor, _: &ReferenceContext<'_>, g: &Tensor) -> Gradients {
        moves(self, inputs, &g.shape).backward(inputs, g)
    }
}
