//! Values of a graph and their gradients, in double precision.

use dapple_graph::ParameterId;

/// A value of the graph.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) shape: Vec<usize>,
    pub(crate) data: Vec<f64>,
}

impl Tensor {
    pub(crate) fn zeros(shape: &[usize]) -> Self {
        Self { shape: shape.to_vec(), data: vec![0.0; shape.iter().product()] }
    }

    /// Positions of each channel.
    pub(crate) fn positions(&self) -> usize {
        self.shape[1..].iter().product()
    }

    /// Size of the last axis.
    pub(crate) fn last(&self) -> usize {
        self.shape[self.shape.len() - 1]
    }
}

/// Gradients of an operation: one tensor per input, and what its parameters receive.
#[derive(Default)]
pub(crate) struct Gradients {
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) parameters: Vec<(ParameterId, Vec<f64>)>,
}

impl Gradients {
    /// Of an operation without parameters.
    pub(crate) fn of_inputs<const N: usize>(inputs: [Tensor; N]) -> Self {
        Self { inputs: inputs.into(), parameters: Vec::new() }
    }
}
