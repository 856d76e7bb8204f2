//! Softmax.

use super::GraphOperation;
use super::shape::last;
use crate::graph::Parameter;

/// Softmax along the last axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Softmax;

impl GraphOperation for Softmax {
    fn name(&self) -> &'static str {
        "Softmax"
    }

    fn shape(&self, inputs: &[&[usize]], _: &[Parameter]) -> Result<Vec<usize>, String> {
        last(inputs[0])?;
        Ok(inputs[0].to_vec())
    }
}
