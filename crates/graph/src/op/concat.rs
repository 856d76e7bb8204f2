//! Joining values.

use super::GraphOperation;
use crate::graph::Parameter;

/// Joins its inputs along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concat {
    /// The axis.
    pub axis: usize,
}

impl GraphOperation for Concat {
    fn name(&self) -> &'static str {
        "Concat"
    }

    fn arity(&self) -> Option<usize> {
        None
    }

    fn shape(&self, inputs: &[&[usize]], _: &[Parameter]) -> Result<Vec<usize>, String> {
        let axis = self.axis;
        let mut shape = inputs[0].to_vec();
        if axis >= shape.len() {
            return Err(format!("{shape:?} has no axis {axis}"));
        }
        for input in &inputs[1..] {
            let same = |other: usize| other == axis || input[other] == shape[other];
            if input.len() != shape.len() || !(0..shape.len()).all(same) {
                return Err(format!("{input:?} cannot be joined to {shape:?} along axis {axis}"));
            }
            shape[axis] += input[axis];
        }
        Ok(shape)
    }
}
