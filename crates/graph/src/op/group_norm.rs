//! Group normalisation.

use super::shape::channels;
use super::{Affine, GraphOperation};
use crate::graph::{Parameter, ParameterId};

/// Group normalisation: each group of channels is normalised over all its positions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupNorm {
    /// Number of groups.
    pub groups: usize,
    /// Added to the variance.
    pub eps: f32,
    /// Scale and shift per channel.
    pub affine: Option<Affine>,
}

impl GraphOperation for GroupNorm {
    fn name(&self) -> &'static str {
        "GroupNorm"
    }

    fn parameters(&self) -> Vec<ParameterId> {
        self.affine.map_or(Vec::new(), Affine::parameters)
    }

    fn shape(&self, inputs: &[&[usize]], parameters: &[Parameter]) -> Result<Vec<usize>, String> {
        let (channels, groups) = (channels(inputs[0])?, self.groups);
        if groups == 0 || channels % groups != 0 {
            return Err(format!("{channels} channels do not divide into {groups} groups"));
        }
        self.affine.map_or(Ok(()), |affine| affine.check(&[channels], parameters))?;
        Ok(inputs[0].to_vec())
    }
}
