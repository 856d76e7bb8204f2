//! The samples themselves.

use super::CardOperation;
use crate::cuda::backward::ParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::run::Run;

#[derive(Debug)]
pub(super) struct Input;

impl CardOperation for Input {
    fn forward(&self, _run: &mut Run<'_>, _node: usize) -> Result<(), CudaError> {
        Ok(())
    }

    fn backward(
        &self,
        _run: &mut Run<'_>,
        _node: usize,
        _parameters: &mut ParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        Ok(())
    }

    fn is_input(&self) -> bool {
        true
    }
}
