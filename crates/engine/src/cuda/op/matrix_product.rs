//! Products of two tensors as batches of matrices.

use super::CardOperation;
use crate::cuda::backward::ParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::product::Side;
use crate::cuda::run::Run;

/// `batches` products per item, of an `m x k` by a `k x n` matrix, or by one that lies transposed.
#[derive(Debug)]
pub(super) struct MatrixProduct {
    pub(super) batches: usize,
    pub(super) m: usize,
    pub(super) k: usize,
    pub(super) n: usize,
    pub(super) transpose: bool,
}

impl MatrixProduct {
    /// Both factors.
    fn factors<'r>(&self, run: &Run<'r>, node: usize) -> (Side<'r>, Side<'r>) {
        let Self { m, k, n, transpose, .. } = *self;
        let (left, right) = (run.read(node, 0), run.read(node, 1));
        let right =
            if transpose { Side::new(right, k, k * n).transposed() } else { Side::new(right, n, k * n) };
        (Side::new(left, k, m * k), right)
    }
}

impl CardOperation for MatrixProduct {
    fn forward(&self, run: &mut Run<'_>, node: usize) -> Result<(), CudaError> {
        let Self { batches, m, k, n, .. } = *self;
        let to = Side::new(run.value(node), n, m * n);
        run.device.product((m, k, n), self.factors(run, node), to, (1.0, 0.0), run.items() * batches)
    }

    fn backward(
        &self,
        run: &mut Run<'_>,
        node: usize,
        _parameters: &mut ParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let Self { batches, m, k, n, transpose } = *self;
        let count = run.items() * batches;
        let (a, b) = self.factors(run, node);
        let upstream = Side::new(run.gradient(node), n, m * n);
        if let Some(target) = run.target(node, 0) {
            let turned = Side { transposed: !b.transposed, ..b };
            let to = Side::new(target.values, k, m * k);
            run.device.product((m, n, k), (upstream, turned), to, (1.0, target.keep()), count)?;
        }
        let Some(target) = run.target(node, 1) else { return Ok(()) };
        let factors = (1.0, target.keep());
        if transpose {
            let to = Side::new(target.values, k, k * n);
            run.device.product((n, m, k), (upstream.transposed(), a), to, factors, count)
        } else {
            let to = Side::new(target.values, n, k * n);
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
