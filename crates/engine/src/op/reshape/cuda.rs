//! A reshape on the card, which is its input: lowering folds it, and asks for no kernel.

use dapple_graph::op::Reshape;

use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::op::input::CudaInputKernel;

impl CudaOperation for Reshape {
    fn kernel(&self, _node: &ShapedNode<'_>, _steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        Box::new(CudaInputKernel)
    }
}
