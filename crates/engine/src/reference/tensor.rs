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

    /// The number of positions of each channel.
    pub(crate) fn positions(&self) -> usize {
        self.shape[1..].iter().product()
    }

    /// The size of the last axis.
    pub(crate) fn last(&self) -> usize {
        self.shape[self.shape.len() - 1]
    }
}

/// The gradients of an operation: one tensor for each input, and the gradient of each of its parameters.
#[derive(Default)]
pub(crate) struct Gradients {
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) parameters: Vec<(ParameterId, Vec<f64>)>,
}

impl Gradients {
    /// The gradients of an operation without parameters.
    pub(crate) fn of_inputs<const N: usize>(inputs: [Tensor; N]) -> Self {
        Self { inputs: inputs.into(), parameters: Vec::new() }
    }
}
