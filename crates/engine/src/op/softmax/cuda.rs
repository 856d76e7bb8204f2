//! How the card takes a softmax.

use dapple_graph::op::Softmax;

use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels;
use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::run::CardRun;

#[derive(Debug)]
struct CudaSoftmaxKernel {
    features: usize,
    rows: usize,
}

impl CudaOperation for Softmax {
    fn kernel(&self, node: &ShapedNode<'_>, _steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        Box::new(CudaSoftmaxKernel { features: node.features(), rows: node.rows() })
    }
}

impl CudaKernel for CudaSoftmaxKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let (x, y, rows) = (run.read(node, 0), run.value(node), run.items() * self.rows);
        kernels::Softmax { x, y, features: self.features, leading: self.features, rows, scale: 1.0 }
            .launch(run.device)
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        _parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let Some(target) = run.target(node, 0) else { return Ok(()) };
        kernels::SoftmaxBackward {
            y: run.value(node),
            g: run.gradient(node),
            dx: target.values,
            features: self.features,
            leading: self.features,
            rows: run.items() * self.rows,
            scale: 1.0,
            accumulate: target.accumulate,
        }
        .launch(run.device)
    }

    fn name(&self, _backward: bool) -> &'static str {
        "attention"
    }

    fn reads_output(&self) -> bool {
        true
    }
}
