//! Where a sample enters.

use super::GraphOperation;
use crate::graph::Parameter;

/// The sample itself. It is the first node of every graph, and no other node is an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Input;

impl GraphOperation for Input {
    fn name(&self) -> &'static str {
        "Input"
    }

    fn arity(&self) -> Option<usize> {
        Some(0)
    }

    fn shape(&self, _: &[&[usize]], _: &[Parameter]) -> Result<Vec<usize>, String> {
        Err("has no inferred shape".into())
    }
}
