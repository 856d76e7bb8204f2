//! How the card applies a function to every value.

use dapple_graph::op::Activation;

use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels::{NarrowUnary, NarrowUnaryBackward, SCALE, Unary, UnaryBackward};
use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::run::{CardRun, GradientPlace};

#[derive(Debug)]
struct CudaActivationKernel {
    /// The number of the function in the kernels' source.
    code: i32,
    factor: f32,
    reads_input: bool,
    reads_output: bool,
    /// Whether its input or its values are narrow.
    narrow: bool,
}

impl CudaActivationKernel {
    /// Applies the function where its input, its values or both are narrow.
    fn forward_narrow(&self, run: &CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let (bias, channels) = run.owed(node, 0);
        NarrowUnary {
            op: self.code,
            x: run.read(node, 0).cast(),
            bias,
            y: run.value(node).cast(),
            channels,
            n: run.items() * run.len(node),
            factor: self.factor,
            x_narrow: run.reads_narrow(node, 0),
            y_narrow: run.is_narrow(node),
        }
        .launch(run.device)
    }

    fn backward_narrow(
        &self,
        run: &CardRun<'_>,
        node: usize,
        target: GradientPlace<'_>,
    ) -> Result<(), CudaError> {
        let (bias, channels) = run.owed(node, 0);
        let (x_narrow, y_narrow) = (run.reads_narrow(node, 0), run.is_narrow(node));
        let kept = if self.reads_output { run.value(node) } else { run.read(node, 0) };
        NarrowUnaryBackward {
            op: self.code,
            kept: kept.cast(),
            bias: bias.filter(|_| !self.reads_output),
            g: run.gradient(node).cast(),
            dx: target.values.cast(),
            channels,
            n: run.items() * run.len(node),
            factor: self.factor,
            kept_narrow: if self.reads_output { y_narrow } else { x_narrow },
            g_narrow: y_narrow,
            dx_narrow: x_narrow,
            accumulate: target.accumulate,
        }
        .launch(run.device)
    }
}

impl CudaOperation for Activation {
    fn kernel(&self, _node: &ShapedNode<'_>, _steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        let (code, factor) = match *self {
            Self::Relu => (0, 1.0),
            Self::Gelu => (1, 1.0),
            Self::Silu => (2, 1.0),
            Self::Tanh => (3, 1.0),
            Self::Scale(factor) => (SCALE, factor),
            Self::Relu6 => (5, 1.0),
        };
        let reads_output = matches!(self, Self::Relu);
        let reads_input = !matches!(self, Self::Relu | Self::Scale(_));
        Box::new(CudaActivationKernel { code, factor, reads_input, reads_output, narrow: false })
    }
}

impl CudaKernel for CudaActivationKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        if self.narrow {
            return self.forward_narrow(run, node);
        }
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
        if self.narrow {
            return self.backward_narrow(run, node, target);
        }
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

    /// For the gradient of a scaling, no kept value is in memory from which a kernel for narrow numbers could read.
    fn writes_narrow(&self) -> bool {
        self.reads_input || self.reads_output
    }

    fn reads_narrow(&self, _slot: usize) -> bool {
        self.reads_input || self.reads_output
    }

    fn adds_bias(&self) -> bool {
        true
    }

    fn settle_narrow(&mut self, input: bool, output: bool) {
        self.narrow = input || output;
    }
}
