//! How the card reads a parameter as a value: by copying it for every item.

use dapple_graph::ParameterId;
use dapple_graph::op::ParameterValue;

use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels::{Broadcast, BroadcastBackward};
use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::run::CardRun;

#[derive(Debug)]
struct CudaParameterKernel(ParameterId);

impl CudaOperation for ParameterValue {
    fn kernel(&self, _node: &ShapedNode<'_>, _steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        Box::new(CudaParameterKernel(self.0))
    }
}

impl CudaKernel for CudaParameterKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let (x, y, len) = (run.parameter(self.0), run.value(node), run.len(node));
        Broadcast { x, y, len, n: run.items() * len }.launch(run.device)
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let Some(target) = parameters.written(run, Some(self.0)) else { return Ok(()) };
        let len = run.len(node);
        BroadcastBackward {
            g: run.gradient(node),
            d: target.values,
            stride: run.program.written,
            len,
            views: run.program.views,
            n: run.samples * len,
            accumulate: target.accumulate,
        }
        .launch(run.device)
    }
}
