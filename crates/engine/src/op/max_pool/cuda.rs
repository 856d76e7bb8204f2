//! How the card takes the largest value of each window.
#![allow(unsafe_code, reason = "tables on the card are the host's promise")]

use dapple_graph::op::MaxPool;

use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels;
use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::run::CardRun;

/// Takes the largest value of each window. The number is the place of the window's table on the card.
#[derive(Debug)]
struct CudaMaxPoolKernel(usize);

impl CudaOperation for MaxPool {
    fn kernel(&self, node: &ShapedNode<'_>, steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        Box::new(CudaMaxPoolKernel(steps.window(&self.0, node)))
    }
}

impl CudaKernel for CudaMaxPoolKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let pool = kernels::MaxPool {
            x: run.read(node, 0),
            y: run.value(node),
            kept: run.kept(node).map(|kept| kept.cast()),
            table: run.table(self.0),
            n: run.items() * run.len(node),
        };
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
        let pool = kernels::MaxPoolBackward {
            g: run.gradient(node),
            kept: run.kept(node).expect("a pool that is trained through keeps its places").cast(),
            dx: target.values,
            table: run.table(self.0),
            n: run.items() * run.input_len(node, 0),
            accumulate: target.accumulate,
        };
        // SAFETY: as in the forward pass.
        unsafe { pool.launch(run.device) }
    }

    fn kept(&self, len: usize) -> usize {
        len
    }
}
