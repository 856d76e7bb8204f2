//! How the card takes the mean of each window.
#![allow(unsafe_code, reason = "tables on the card are the host's promise")]

use dapple_graph::op::AvgPool;

use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::tabled::tabled_kernel;

tabled_kernel!(CudaAvgPoolKernel: AveragePool, AveragePoolBackward);

impl CudaOperation for AvgPool {
    fn kernel(&self, node: &ShapedNode<'_>, steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        Box::new(CudaAvgPoolKernel(steps.window(&self.0, node)))
    }
}
