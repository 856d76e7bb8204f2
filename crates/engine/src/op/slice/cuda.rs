//! How the card takes a range of an axis.

use dapple_graph::op::Slice;

use crate::cuda::lower::CardSteps;
use crate::cuda::moved::Moved;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};

impl CudaOperation for Slice {
    fn kernel(&self, node: &ShapedNode<'_>, steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        Box::new(Moved::sliced(steps, (self.axis, self.start), node.input(), node.shape))
    }
}
