//! How the card reorders axes.

use dapple_graph::op::Permute;

use crate::cuda::lower::CardSteps;
use crate::cuda::moved::Moved;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};

impl CudaOperation for Permute {
    fn kernel(&self, node: &ShapedNode<'_>, steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        Box::new(Moved::permuted(steps, &self.0, node.input(), node.shape))
    }
}
