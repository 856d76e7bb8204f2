//! Layer normalisation.

use super::shape::last;
use super::{Affine, GraphOperation};
use crate::graph::{Parameter, ParameterId};

/// Layer normalisation over the last axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerNorm {
    /// Added to the variance.
    pub eps: f32,
    /// Scale and shift per feature.
    pub affine: Option<Affine>,
}

impl GraphOperation for LayerNorm {
    fn name(&self) -> &'static str {
        "LayerNorm"
    }

    fn parameters(&self) -> Vec<ParameterId> {
        self.affine.map_or(Vec::new(), Affine::parameters)
    }

    fn shape(&self, inputs: &[&[usize]], parameters: &[Parameter]) -> Result<Vec<usize>, String> {
        let features = last(inputs[0])?;
        self.affine.map_or(Ok(()), |affine| affine.check(features, parameters))?;
        Ok(inputs[0].to_vec())
    }
}
