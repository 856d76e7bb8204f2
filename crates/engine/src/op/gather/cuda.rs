//! How the card picks rows.
#![allow(unsafe_code, reason = "tables on the card are the host's promise")]

use dapple_graph::op::Gather;

use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels;
use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::run::CardRun;

/// Picks `count` of `rows` rows, each of `size` numbers. The list of rows is a table on the card.
#[derive(Debug)]
struct CudaGatherKernel {
    table: usize,
    count: usize,
    size: usize,
    rows: usize,
}

impl CudaOperation for Gather {
    fn kernel(&self, node: &ShapedNode<'_>, steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        let table = steps.table(self.0.iter().map(|&index| index as i32).collect());
        let (count, size, rows) = (self.0.len(), node.positions(), node.channels());
        Box::new(CudaGatherKernel { table, count, size, rows })
    }
}

impl CudaKernel for CudaGatherKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let Self { table, count, size, rows } = *self;
        let gather = kernels::Gather {
            x: run.read(node, 0),
            y: run.value(node),
            rows: run.table(table),
            count,
            size,
            x_item: rows * size,
            n: run.items() * run.len(node),
        };
        // SAFETY: a graph lists no row that its input does not have.
        unsafe { gather.launch(run.device) }
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        _parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let Self { table, count, size, rows } = *self;
        let Some(target) = run.target(node, 0) else { return Ok(()) };
        kernels::GatherBackward {
            g: run.gradient(node),
            dx: target.values,
            rows: run.table(table),
            count,
            size,
            in_rows: rows,
            n: run.items() * run.input_len(node, 0),
            accumulate: target.accumulate,
        }
        .launch(run.device)
    }
}
