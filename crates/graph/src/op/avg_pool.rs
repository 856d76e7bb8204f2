//! Average pooling.

use super::{GraphOperation, Window};
use crate::graph::Parameter;

/// Takes the mean of each window, in which padding counts as zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AvgPool(pub Window);

impl GraphOperation for AvgPool {
    fn name(&self) -> &'static str {
        "AvgPool"
    }

    fn shape(&self, inputs: &[&[usize]], _: &[Parameter]) -> Result<Vec<usize>, String> {
        self.0.pooled(inputs[0])
    }
}
