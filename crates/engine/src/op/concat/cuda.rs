//! How the card joins values along an axis.

use dapple_graph::op::Concat;

use crate::cuda::lower::CardSteps;
use crate::cuda::moved::Moved;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};

impl CudaOperation for Concat {
    fn kernel(&self, node: &ShapedNode<'_>, steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        Box::new(Moved::concatenated(steps, self.axis, node.inputs, node.shape))
    }
}
