//! Operations that only move values.

use super::{Gradients, Tensor, indices};

/// For every element of the output, which input it comes from, and which element of that it is.
pub(crate) struct ElementMoves(Vec<(usize, usize)>);

impl ElementMoves {
    /// Asks `source` where each index of the output comes from, in row-major order.
    pub(crate) fn new(output: &[usize], source: impl Fn(&[usize]) -> (usize, usize)) -> Self {
        Self(indices(output).map(|index| source(&index)).collect())
    }

    pub(crate) fn forward(&self, inputs: &[&Tensor], y: &mut Tensor) {
        y.data = self.0.iter().map(|&(input, element)| inputs[input].data[element]).collect();
    }

    pub(crate) fn backward(&self, inputs: &[&Tensor], g: &Tensor) -> Gradients {
        let mut gradients: Vec<Tensor> = inputs.iter().map(|x| Tensor::zeros(&x.shape)).collect();
        for (&(input, element), upstream) in self.0.iter().zip(&g.data) {
            gradients[input].data[element] += upstream;
        }
        Gradients { inputs: gradients, parameters: Vec::new() }
    }
}
