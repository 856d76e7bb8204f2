//! Activations, and multiples.

use super::CardOperation;
use crate::cuda::backward::ParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels;
use crate::cuda::run::Run;

/// An activation, as the kernels number them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Activation {
    Relu = 0,
    Gelu = 1,
    Silu = 2,
    Tanh = 3,
    Scale = 4,
    Relu6 = 5,
}

#[derive(Debug)]
pub(super) struct Unary {
    pub(super) activation: Activation,
    pub(super) factor: f32,
}

impl CardOperation for Unary {
    fn forward(&self, run: &mut Run<'_>, node: usize) -> Result<(), CudaError> {
        let (op, n) = (self.activation as i32, run.items() * run.len(node));
        let (x, y) = (run.read(node, 0), run.value(node));
        kernels::Unary { op, x, y, n, factor: self.factor }.launch(run.device)
    }

    fn backward(
        &self,
        run: &mut Run<'_>,
        node: usize,
        _parameters: &mut ParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let Some(target) = run.target(node, 0) else { return Ok(()) };
        kernels::UnaryBackward {
            op: self.activation as i32,
            kept: if self.reads_output() { run.value(node) } else { run.read(node, 0) },
            g: run.gradient(node),
            dx: target.values,
            n: run.items() * run.len(node),
            factor: self.factor,
            accumulate: target.accumulate,
        }
        .launch(run.device)
    }

    fn reads_input(&self, _slot: usize, _trains: bool) -> bool {
        !matches!(self.activation, Activation::Relu | Activation::Scale)
    }

    fn reads_output(&self) -> bool {
        self.activation == Activation::Relu
    }
}
