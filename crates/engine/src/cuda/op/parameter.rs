//! A parameter as a value, the same for every item.

use dapple_graph::ParameterId;

use super::CardOperation;
use crate::cuda::backward::ParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::kernels::{Broadcast, BroadcastBackward};
use crate::cuda::run::Run;

#[derive(Debug)]
pub(super) struct ParameterValue(pub(super) ParameterId);

impl CardOperation for ParameterValue {
    fn forward(&self, run: &mut Run<'_>, node: usize) -> Result<(), CudaError> {
        let (x, y, len) = (run.parameter(self.0), run.value(node), run.len(node));
        Broadcast { x, y, len, n: run.items() * len }.launch(run.device)
    }

    fn backward(
        &self,
        run: &mut Run<'_>,
        node: usize,
        parameters: &mut ParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let Some(target) = parameters.written(run, Some(self.0)) else { return Ok(()) };
        let len = run.len(node);
        BroadcastBackward {
            g: run.gradient(node),
            d: target.values,
            stride: run.program.written,
            len,
            views: run.program.views,
            n: run.samples * len,
            accumulate: target.accumulate,
        }
        .launch(run.device)
    }
}
