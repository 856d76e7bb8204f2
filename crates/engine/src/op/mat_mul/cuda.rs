//! How the card multiplies two activations: as batches of matrices.

use dapple_graph::op::MatMul;

use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::product::MatrixSide;
use crate::cuda::run::CardRun;

/// Each item has `batches` products of an `m x k` by a `k x n` matrix. The right sides may be stored transposed.
#[derive(Debug)]
struct CudaMatMulKernel {
    batches: usize,
    m: usize,
    k: usize,
    n: usize,
    transpose: bool,
}

impl CudaMatMulKernel {
    /// Both factors.
    fn factors<'r>(&self, run: &CardRun<'r>, node: usize) -> (MatrixSide<'r>, MatrixSide<'r>) {
        let Self { m, k, n, transpose, .. } = *self;
        let (left, right) = (run.read(node, 0), run.read(node, 1));
        let right = if transpose {
            MatrixSide::new(right, k, k * n).transposed()
        } else {
            MatrixSide::new(right, n, k * n)
        };
        (MatrixSide::new(left, k, m * k), right)
    }
}

impl CudaOperation for MatMul {
    fn kernel(&self, node: &ShapedNode<'_>, _steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        let (shape, rank) = (node.shape, node.shape.len());
        let batches = shape[..rank - 2].iter().product();
        let (m, k, n) = (shape[rank - 2], node.features(), shape[rank - 1]);
        Box::new(CudaMatMulKernel { batches, m, k, n, transpose: self.transpose })
    }
}

impl CudaKernel for CudaMatMulKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let Self { batches, m, k, n, .. } = *self;
        let to = MatrixSide::new(run.value(node), n, m * n);
        run.device.product((m, k, n), self.factors(run, node), to, (1.0, 0.0), run.items() * batches)
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        _parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let Self { batches, m, k, n, transpose } = *self;
        let count = run.items() * batches;
        let (a, b) = self.factors(run, node);
        let upstream = MatrixSide::new(run.gradient(node), n, m * n);
        if let Some(target) = run.target(node, 0) {
            let turned = MatrixSide { transposed: !b.transposed, ..b };
            let to = MatrixSide::new(target.values, k, m * k);
            run.device.product((m, n, k), (upstream, turned), to, (1.0, target.keep()), count)?;
        }
        let Some(target) = run.target(node, 1) else { return Ok(()) };
        let factors = (1.0, target.keep());
        if transpose {
            let to = MatrixSide::new(target.values, k, k * n);
            run.device.product((n, m, k), (upstream.transposed(), a), to, factors, count)
        } else {
            let to = MatrixSide::new(target.values, n, k * n);
            run.device.product((k, m, n), (a.transposed(), upstream), to, factors, count)
        }
    }

    fn name(&self, _backward: bool) -> &'static str {
        "attention"
    }

    fn reads_input(&self, _slot: usize, _trains: bool) -> bool {
        true
    }
}
