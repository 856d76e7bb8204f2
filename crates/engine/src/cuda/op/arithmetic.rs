//! Sums and products of two tensors.

use super::CardOperation;
use crate::cuda::backward::ParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels;
use crate::cuda::run::Run;

#[derive(Debug)]
pub(super) struct Sum;

impl CardOperation for Sum {
    fn forward(&self, run: &mut Run<'_>, node: usize) -> Result<(), CudaError> {
        let n = run.items() * run.len(node);
        let (a, b, y) = (run.read(node, 0), run.read(node, 1), run.value(node));
        kernels::Add { a, b, y, n }.launch(run.device)
    }

    fn backward(
        &self,
        run: &mut Run<'_>,
        node: usize,
        _parameters: &mut ParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let n = run.items() * run.len(node);
        for slot in 0..2 {
            let Some(target) = run.target(node, slot) else { continue };
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
}

#[derive(Debug)]
pub(super) struct Product;

impl CardOperation for Product {
    fn forward(&self, run: &mut Run<'_>, node: usize) -> Result<(), CudaError> {
        let n = run.items() * run.len(node);
        let (a, b, y) = (run.read(node, 0), run.read(node, 1), run.value(node));
        kernels::Multiply { a, b, y, n, accumulate: false }.launch(run.device)
    }

    fn backward(
        &self,
        run: &mut Run<'_>,
        node: usize,
        _parameters: &mut ParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let n = run.items() * run.len(node);
        for slot in 0..2 {
            let Some(target) = run.target(node, slot) else { continue };
            let (a, b) = (run.gradient(node), run.read(node, 1 - slot));
            let (y, accumulate) = (target.values, target.accumulate);
            kernels::Multiply { a, b, y, n, accumulate }.launch(run.device)?;
        }
        Ok(())
    }

    fn reads_input(&self, _slot: usize, _trains: bool) -> bool {
        true
    }
}
