//! Cutting a part out of a value.

use super::GraphOperation;
use crate::graph::Parameter;

/// Keeps the elements `start..end` of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// The axis.
    pub axis: usize,
    /// The first index.
    pub start: usize,
    /// One past the last index.
    pub end: usize,
}

impl GraphOperation for Slice {
    fn name(&self) -> &'static str {
        "Slice"
    }

    fn shape(&self, inputs: &[&[usize]], _: &[Parameter]) -> Result<Vec<usize>, String> {
        let Self { axis, start, end } = *self;
        let mut shape = inputs[0].to_vec();
        match shape.get_mut(axis) {
            Some(size) if start < end && end <= *size => *size = end - start,
            _ => return Err(format!("axis {axis} of {:?} has no range {start}..{end}", inputs[0])),
        }
        Ok(shape)
    }
}
