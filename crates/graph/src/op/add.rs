//! Sums of two values.

use super::GraphOperation;
use super::shape::equal;
use crate::graph::Parameter;

/// Elementwise sum of two equal shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Add;

impl GraphOperation for Add {
    fn name(&self) -> &'static str {
        "Add"
    }

    fn arity(&self) -> Option<usize> {
        Some(2)
    }

    fn shape(&self, inputs: &[&[usize]], _: &[Parameter]) -> Result<Vec<usize>, String> {
        equal(inputs[0], inputs[1])
    }
}
