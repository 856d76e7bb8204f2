//! Pooling.

use super::CardOperation;
use crate::cuda::backward::ParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels;
use crate::cuda::run::Run;

/// Keeps the largest value of every window. Its window's table lies there.
#[derive(Debug)]
pub(super) struct MaxPool(pub(super) usize);

impl CardOperation for MaxPool {
    fn forward(&self, run: &mut Run<'_>, node: usize) -> Result<(), CudaError> {
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
        run: &mut Run<'_>,
        node: usize,
        _parameters: &mut ParameterGradients<'_>,
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
        // SAFETY: as above.
        unsafe { pool.launch(run.device) }
    }

    fn kept(&self, len: usize) -> usize {
        len
    }
}

/// The mean of every window. Its window's table lies there.
#[derive(Debug)]
pub(super) struct AveragePool(pub(super) usize);

impl CardOperation for AveragePool {
    fn forward(&self, run: &mut Run<'_>, node: usize) -> Result<(), CudaError> {
        let (x, y, table) = (run.read(node, 0), run.value(node), run.table(self.0));
        let pool = kernels::AveragePool { x, y, table, n: run.items() * run.len(node) };
        // SAFETY: the table was made from the shapes of the input and of this node.
        unsafe { pool.launch(run.device) }
    }

    fn backward(
        &self,
        run: &mut Run<'_>,
        node: usize,
        _parameters: &mut ParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let Some(target) = run.target(node, 0) else { return Ok(()) };
        let pool = kernels::AveragePoolBackward {
            g: run.gradient(node),
            dx: target.values,
            table: run.table(self.0),
            n: run.items() * run.input_len(node, 0),
            accumulate: target.accumulate,
        };
        // SAFETY: as above.
        unsafe { pool.launch(run.device) }
    }
}

/// The mean of each of so many equal parts. Its table lies there.
#[derive(Debug)]
pub(super) struct AdaptivePool(pub(super) usize);

impl CardOperation for AdaptivePool {
    fn forward(&self, run: &mut Run<'_>, node: usize) -> Result<(), CudaError> {
        let (x, y, table) = (run.read(node, 0), run.value(node), run.table(self.0));
        let pool = kernels::AdaptivePool { x, y, table, n: run.items() * run.len(node) };
        // SAFETY: the table was made from the shapes of the input and of this node.
        unsafe { pool.launch(run.device) }
    }

    fn backward(
        &self,
        run: &mut Run<'_>,
        node: usize,
        _parameters: &mut ParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let Some(target) = run.target(node, 0) else { return Ok(()) };
        let pool = kernels::AdaptivePoolBackward {
            g: run.gradient(node),
            dx: target.values,
            table: run.table(self.0),
            n: run.items() * run.input_len(node, 0),
            accumulate: target.accumulate,
        };
        // SAFETY: as above.
        unsafe { pool.launch(run.device) }
    }
}
