//! How the card applies a function to every value.

use dapple_graph::op::Activation;

use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels::{Unary, UnaryBackward};
use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::run::CardRun;

#[derive(Debug)]
struct CudaActivationKernel {
    /// The number of the function in the kernels' source.
    code: i32,
    factor: f32,
    reads_input: bool,
    reads_output: bool,
}

impl CudaOperation for Activation {
    fn kernel(&self, _node: &ShapedNode<'_>, _steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        let (code, factor) = match *self {
            Self::Relu => (0, 1.0),
            Self::Gelu => (1, 1.0),
            Self::Silu => (2, 1.0),
            Self::Tanh => (3, 1.0),
            Self::Scale(factor) => (4, factor),
            Self::Relu6 => (5, 1.0),
        };
        let reads_output = matches!(self, Self::Relu);
        let reads_input = !matches!(self, Self::Relu | Self::Scale(_));
        Box::new(CudaActivationKernel { code, factor, reads_input, reads_output })
    }
}

impl CudaKernel for CudaActivationKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let (x, y, n) = (run.read(node, 0), run.value(node), run.items() * run.len(node));
        Unary { op: self.code, x, y, n, factor: self.factor }.launch(run.device)
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        _parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let Some(target) = run.target(node, 0) else { return Ok(()) };
        UnaryBackward {
            op: self.code,
            kept: if self.reads_output { run.value(node) } else { run.read(node, 0) },
            g: run.gradient(node),
            dx: target.values,
            n: run.items() * run.len(node),
            factor: self.factor,
            accumulate: target.accumulate,
        }
        .launch(run.device)
    }

    fn reads_input(&self, _slot: usize, _trains: bool) -> bool {
        self.reads_input
    }

    fn reads_output(&self) -> bool {
        self.reads_output
    }
}
