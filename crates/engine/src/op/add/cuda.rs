//! How the card adds two values.

use dapple_graph::op::Add;

use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels;
use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::run::CardRun;

#[derive(Debug)]
struct CudaAddKernel;

impl CudaOperation for Add {
    fn kernel(&self, _node: &ShapedNode<'_>, _steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        Box::new(CudaAddKernel)
    }
}

impl CudaKernel for CudaAddKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let n = run.items() * run.len(node);
        let (a, b, y) = (run.read(node, 0), run.read(node, 1), run.value(node));
        kernels::Add { a, b, y, n }.launch(run.device)
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
            let (x, y, accumulate) = (run.gradient(node), target.values, target.accumulate);
            kernels::Copy { x, y, n, accumulate }.launch(run.device)?;
        }
        Ok(())
    }

    fn name(&self, _backward: bool) -> &'static str {
        "add"
    }

    fn passes_on(&self, _slot: usize) -> bool {
        true
    }
}
