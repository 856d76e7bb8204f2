//! Batch normalisation.

use super::shape::{channels, vector};
use super::{Affine, GraphOperation};
use crate::graph::{Parameter, ParameterId};

/// Batch normalisation. With `training` it takes its statistics from the batch, which mixes examples, so the validator refuses it;
/// without, it applies the stored statistics.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchNorm {
    /// Added to the variance.
    pub eps: f32,
    /// Whether the statistics come from the batch.
    pub training: bool,
    /// Scale and shift per channel.
    pub affine: Affine,
    /// Stored mean per channel.
    pub mean: ParameterId,
    /// Stored variance per channel.
    pub variance: ParameterId,
}

impl GraphOperation for BatchNorm {
    fn name(&self) -> &'static str {
        if self.training { "BatchNorm" } else { "FrozenBatchNorm" }
    }

    fn parameters(&self) -> Vec<ParameterId> {
        self.affine.parameters().into_iter().chain([self.mean, self.variance]).collect()
    }

    fn shape(&self, inputs: &[&[usize]], parameters: &[Parameter]) -> Result<Vec<usize>, String> {
        let channels = channels(inputs[0])?;
        self.affine.check(&[channels], parameters)?;
        vector("mean", self.mean, channels, parameters)?;
        vector("variance", self.variance, channels, parameters)?;
        Ok(inputs[0].to_vec())
    }

    fn mixes_examples(&self) -> bool {
        self.training
    }
}
