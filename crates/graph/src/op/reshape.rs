//! Giving the same values another shape.

use super::GraphOperation;
use super::shape::elements;
use crate::graph::Parameter;

/// The same elements, in row-major order, under another shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reshape(pub Vec<usize>);

impl GraphOperation for Reshape {
    fn name(&self) -> &'static str {
        "Reshape"
    }

    fn shape(&self, inputs: &[&[usize]], _: &[Parameter]) -> Result<Vec<usize>, String> {
        let shape = &self.0;
        if elements(shape) != elements(inputs[0]) {
            return Err(format!("{:?} cannot be reshaped to {shape:?}", inputs[0]));
        }
        Ok(shape.clone())
    }
}
