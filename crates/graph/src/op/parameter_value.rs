//! Parameters that are read as values of the graph.

use super::GraphOperation;
use crate::graph::{Parameter, ParameterId};

/// The value of a parameter, for example a class token or a position embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParameterValue(pub ParameterId);

impl GraphOperation for ParameterValue {
    fn name(&self) -> &'static str {
        "Parameter"
    }

    fn parameters(&self) -> Vec<ParameterId> {
        vec![self.0]
    }

    fn arity(&self) -> Option<usize> {
        Some(0)
    }

    fn shape(&self, _: &[&[usize]], parameters: &[Parameter]) -> Result<Vec<usize>, String> {
        Ok(parameters[self.0.index()].shape.clone())
    }
}
