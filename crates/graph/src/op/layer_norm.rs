//! Layer normalisation.

use super::{Affine, GraphOperation};
use crate::graph::{Parameter, ParameterId};

/// Layer normalisation, which takes the mean off values and divides them by their standard deviation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerNorm {
    /// Which values are normalised together.
    pub over: NormAxes,
    /// Whether the mean is taken off first. If not, values are divided by the root of their mean square, which is called RMS norm.
    pub centred: bool,
    /// What is added to the variance, or to the mean square.
    pub eps: f32,
    /// The scale and shift of each of the values that are normalised together.
    pub affine: Option<Affine>,
}

/// Which values are normalised together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormAxes {
    /// The values of this many last axes: one axis for the features of each token, three for a whole image.
    Last(usize),
    /// The channels of each position of an image or clip, which are the first axis.
    Channels,
}

impl NormAxes {
    /// The part of a shape that is normalised together.
    pub(crate) fn of(self, shape: &[usize]) -> Result<&[usize], String> {
        let found = match self {
            Self::Last(count) => {
                shape.len().checked_sub(count).filter(|_| count > 0).map(|start| &shape[start..])
            }
            Self::Channels => shape.get(..1),
        };
        found.ok_or_else(|| format!("{shape:?} has no axes {self:?}"))
    }
}

impl GraphOperation for LayerNorm {
    fn name(&self) -> &'static str {
        if self.centred { "LayerNorm" } else { "RmsNorm" }
    }

    fn parameters(&self) -> Vec<ParameterId> {
        self.affine.map_or(Vec::new(), Affine::parameters)
    }

    fn shape(&self, inputs: &[&[usize]], parameters: &[Parameter]) -> Result<Vec<usize>, String> {
        let features = self.over.of(inputs[0])?;
        self.affine.map_or(Ok(()), |affine| affine.check(features, parameters))?;
        Ok(inputs[0].to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GraphBuilder;

    #[test]
    fn axes_that_are_not_there_are_refused() {
        let mut b = GraphBuilder::new(&[6, 4, 5]);
        for (over, shape) in [
            (NormAxes::Last(1), &[5][..]),
            (NormAxes::Last(2), &[4, 5]),
            (NormAxes::Last(3), &[6, 4, 5]),
            (NormAxes::Channels, &[6]),
        ] {
            let id = b.layer_norm_over(&format!("{over:?}"), b.input(), over, 1e-5).unwrap();
            assert_eq!(b.shape(id), [6, 4, 5]);
            let rms = b.rms_norm(&format!("rms {over:?}"), b.input(), over, 1e-5).unwrap();
            assert_eq!(b.shape(rms), [6, 4, 5]);
            assert_eq!(over.of(&[6, 4, 5]), Ok(shape));
        }
        for over in [NormAxes::Last(0), NormAxes::Last(4)] {
            let error = b.layer_norm_over("none", b.input(), over, 1e-5).unwrap_err();
            assert!(error.to_string().contains("has no axes"), "{error}");
        }
    }
}
