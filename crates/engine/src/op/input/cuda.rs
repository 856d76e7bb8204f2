//! How the card reads samples, which it has in memory of their own.

use dapple_graph::op::Input;

use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::run::CardRun;

/// Leaves the samples where they are.
#[derive(Debug)]
pub(crate) struct CudaInputKernel;

impl CudaOperation for Input {
    fn kernel(&self, _node: &ShapedNode<'_>, _steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        Box::new(CudaInputKernel)
    }
}

impl CudaKernel for CudaInputKernel {
    fn forward(&self, _run: &mut CardRun<'_>, _node: usize) -> Result<(), CudaError> {
        Ok(())
    }

    fn backward(
        &self,
        _run: &mut CardRun<'_>,
        _node: usize,
        _parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        Ok(())
    }

    fn is_input(&self) -> bool {
        true
    }
}
