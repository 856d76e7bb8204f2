//! How the card adds two values.

use dapple_graph::op::Add;

use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels::{self, NarrowAdd, ToHalves};
use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::run::CardRun;

#[derive(Debug)]
struct CudaAddKernel;

impl CudaAddKernel {
    /// Adds values of which one or both are narrow.
    fn forward_narrow(&self, run: &CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let ((a_bias, a_channels), (b_bias, b_channels)) = (run.owed(node, 0), run.owed(node, 1));
        NarrowAdd {
            a: run.read(node, 0).cast(),
            a_bias,
            b: run.read(node, 1).cast(),
            b_bias,
            y: run.value(node).cast(),
            channels: if a_bias.is_some() { a_channels } else { b_channels },
            n: run.items() * run.len(node),
            a_narrow: run.reads_narrow(node, 0),
            b_narrow: run.reads_narrow(node, 1),
        }
        .launch(run.device)
    }
}

impl CudaOperation for Add {
    fn kernel(&self, _node: &ShapedNode<'_>, _steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        Box::new(CudaAddKernel)
    }
}

impl CudaKernel for CudaAddKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        if (0..2).any(|slot| run.reads_narrow(node, slot)) {
            return self.forward_narrow(run, node);
        }
        let n = run.items() * run.len(node);
        let (a, b, y) = (run.read(node, 0), run.read(node, 1), run.value(node));
        kernels::Add { a, b, y, n }.launch(run.device)
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        _parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let n = run.items() * run.len(node);
        for slot in 0..2 {
            let Some(target) = run.target(node, slot) else { continue };
            if run.reads_narrow(node, slot) {
                let (x, halves) = (run.gradient(node).cast(), target.values.cast());
                ToHalves { x, halves, largest: None, len: n, n }.launch(run.device)?;
                continue;
            }
            let (x, y, accumulate) = (run.gradient(node), target.values, target.accumulate);
            kernels::Copy { x, y, n, accumulate }.launch(run.device)?;
        }
        Ok(())
    }

    fn name(&self, _backward: bool) -> &'static str {
        "add"
    }

    fn passes_on(&self, _slot: usize) -> bool {
        true
    }

    fn reads_narrow(&self, _slot: usize) -> bool {
        true
    }

    fn adds_bias(&self) -> bool {
        true
    }
}
