//! Layer normalisation.

use super::shape::last;
use super::{Affine, Operation};
use crate::graph::{Parameter, ParameterId};

/// Layer normalisation over the last axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerNorm {
    /// Added to the variance.
    pub eps: f32,
    /// Scale and shift per feature.
    pub affine: Option<Affine>,
}

impl Operation for LayerNorm {
    fn name(&self) -> &'static str {
        "LayerNorm"
    }

    fn parameters(&self) -> Vec<ParameterId> {
        self.affine.map_or(Vec::new(), Affine::parameters)
    }

    fn shape(&self, inputs: &[&[usize]], _: &[Parameter]) -> Result<Vec<usize>, String> {
        last(inputs[0])?;
        Ok(inputs[0].to_vec())
    }
}
