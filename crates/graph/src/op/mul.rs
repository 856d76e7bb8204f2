//! Products of two values.

use super::GraphOperation;
use super::shape::equal;
use crate::graph::Parameter;

/// Elementwise product of two equal shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mul;

impl GraphOperation for Mul {
    fn name(&self) -> &'static str {
        "Mul"
    }

    fn arity(&self) -> Option<usize> {
        Some(2)
    }

    fn shape(&self, inputs: &[&[usize]], _: &[Parameter]) -> Result<Vec<usize>, String> {
        equal(inputs[0], inputs[1])
    }
}
