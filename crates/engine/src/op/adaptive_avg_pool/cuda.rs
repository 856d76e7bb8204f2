//! How the card takes the means of windows whose size follows from the output's.
#![allow(unsafe_code, reason = "tables on the card are the host's promise")]

use dapple_graph::Window;
use dapple_graph::op::AdaptiveAvgPool;

use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::tabled::tabled_kernel;

tabled_kernel!(CudaAdaptiveAvgPoolKernel: AdaptivePool, AdaptivePoolBackward);

impl CudaOperation for AdaptiveAvgPool {
    fn kernel(&self, node: &ShapedNode<'_>, steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        Box::new(CudaAdaptiveAvgPoolKernel(steps.window(&Window::new(self.0.len(), 1), node)))
    }
}
