//! Scale and shift of a normalisation.

use crate::graph::ParameterId;

/// Affine parameters of a normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Affine {
    /// Scale, one value per channel or feature.
    pub weight: ParameterId,
    /// Shift, one value per channel or feature.
    pub bias: ParameterId,
}

impl Affine {
    /// Both, the scale first.
    pub(crate) fn parameters(self) -> Vec<ParameterId> {
        vec![self.weight, self.bias]
    }
}
