//! Maximum pooling.

use super::{GraphOperation, Window};
use crate::graph::Parameter;

/// Takes the largest value of each window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaxPool(pub Window);

impl GraphOperation for MaxPool {
    fn name(&self) -> &'static str {
        "MaxPool"
    }

    fn shape(&self, inputs: &[&[usize]], _: &[Parameter]) -> Result<Vec<usize>, String> {
        self.0.pooled(inputs[0])
    }
}
