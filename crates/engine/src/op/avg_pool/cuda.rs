//! How the card takes the mean of every window.
#![allow(unsafe_code, reason = "tables on the card are the host's promise")]

use dapple_graph::op::AvgPool;

use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels;
use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::run::CardRun;
/// The mean of every window. Its window's table lies there.
#[derive(Debug)]
struct CudaAvgPoolKernel(usize);

impl CudaOperation for AvgPool {
    fn kernel(&self, node: &ShapedNode<'_>, steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        Box::new(CudaAvgPoolKernel(steps.window(&self.0, node)))
    }
}

impl CudaKernel for CudaAvgPoolKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let (x, y, table) = (run.read(node, 0), run.value(node), run.table(self.0));
        let pool = kernels::AveragePool { x, y, table, n: run.items() * run.len(node) };
        // SAFETY: the table was made from the shapes of the input and of this node.
        unsafe { pool.launch(run.device) }
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        _parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let Some(target) = run.target(node, 0) else { return Ok(()) };
        let pool = kernels::AveragePoolBackward {
            g: run.gradient(node),
            dx: target.values,
            table: run.table(self.0),
            n: run.items() * run.input_len(node, 0),
            accumulate: target.accumulate,
        };
        // SAFETY: as in the forward pass.
        unsafe { pool.launch(run.device) }
    }
}
