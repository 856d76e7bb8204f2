//! Picking rows by their index.

use super::GraphOperation;
use crate::graph::Parameter;

/// Picks the rows (entries of the first axis) at these indices, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gather(pub Vec<usize>);

impl GraphOperation for Gather {
    fn name(&self) -> &'static str {
        "Gather"
    }

    fn shape(&self, inputs: &[&[usize]], _: &[Parameter]) -> Result<Vec<usize>, String> {
        let indices = &self.0;
        let mut shape = inputs[0].to_vec();
        match shape.first_mut() {
            Some(rows) if !indices.is_empty() && indices.iter().all(|index| index < rows) => {
                *rows = indices.len()
            }
            _ => return Err(format!("the rows {indices:?} are not all in {:?}", inputs[0])),
        }
        Ok(shape)
    }
}
