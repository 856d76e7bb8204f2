//! How the card normalises by stored statistics: as a group norm of single channels whose means and variances are given.

use dapple_graph::op::BatchNorm;

use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::op::group_norm::CudaGroupNormKernel;

impl CudaOperation for BatchNorm {
    fn kernel(&self, node: &ShapedNode<'_>, _steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        let sizes = (node.channels(), 1, node.positions());
        let stored = Some((self.mean, self.variance));
        Box::new(CudaGroupNormKernel::new(sizes, self.eps, Some(self.affine), stored))
    }
}
