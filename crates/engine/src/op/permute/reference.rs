//! How the oracle reorders axes: by which element of the input each element of the output is.

use dapple_graph::op::Permute;

use crate::reference::{ElementMoves, Gradients, ReferenceContext, ReferenceOperation, Tensor, flat};

fn moves(op: &Permute, inputs: &[&Tensor], output: &[usize]) -> ElementMoves {
    ElementMoves::new(output, |index| {
        let mut place = vec![0; index.len()];
        op.0.iter().zip(index).for_each(|(&axis, &index)| place[axis] = index);
        (0, flat(&inputs[0].shape, &place))
    })
}

impl ReferenceOperation for Permute {
    fn forward(&self, inputs: &[&Tensor], _: &ReferenceContext<'_>, y: &mut Tensor) {
        moves(self, inputs, &y.shape).forward(inputs, y);
    }

    fn backward(&self, inputs: &[&Tensor], _: &Tensor, _: &ReferenceContext<'_>, g: &Tensor) -> Gradients {
        moves(self, inputs, &g.shape).backward(inputs, g)
    }
}
