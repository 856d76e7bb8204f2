//! How the card multiplies two values.

use dapple_graph::op::Mul;

use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels;
use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::run::CardRun;
#[derive(Debug)]
struct CudaMulKernel;

impl CudaOperation for Mul {
    fn kernel(&self, _node: &ShapedNode<'_>, _steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        Box::new(CudaMulKernel)
    }
}

impl CudaKernel for CudaMulKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let n = run.items() * run.len(node);
        let (a, b, y) = (run.read(node, 0), run.read(node, 1), run.value(node));
        kernels::Multiply { a, b, y, n, accumulate: false }.launch(run.device)
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        _parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let n = run.items() * run.len(node);
        for slot in 0..2 {
            let Some(target) = run.target(node, slot) else { continue };
            let (a, b) = (run.gradient(node), run.read(node, 1 - slot));
            let (y, accumulate) = (target.values, target.accumulate);
            kernels::Multiply { a, b, y, n, accumulate }.launch(run.device)?;
        }
        Ok(())
    }

    fn reads_input(&self, _slot: usize, _trains: bool) -> bool {
        true
    }
}
