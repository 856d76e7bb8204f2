//! Linear layers.

use super::GraphOperation;
use super::shape::vector;
use crate::graph::{Parameter, ParameterId};

/// `y = x W^T + b` along the last axis: `[.., in] -> [.., out]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linear {
    /// The weight `W`, `[out, in]`.
    pub weight: ParameterId,
    /// The bias `b`, `[out]`.
    pub bias: Option<ParameterId>,
}

impl Linear {
    /// The shape of the weight that turns this input into `out` features.
    pub(crate) fn weight_shape(input: &[usize], out: usize) -> Result<Vec<usize>, String> {
        match input.last() {
            Some(features) => Ok(vec![out, *features]),
            None => Err("a scalar has no features".into()),
        }
    }
}

impl GraphOperation for Linear {
    fn name(&self) -> &'static str {
        "Linear"
    }

    fn parameters(&self) -> Vec<ParameterId> {
        std::iter::once(self.weight).chain(self.bias).collect()
    }

    fn shape(&self, inputs: &[&[usize]], parameters: &[Parameter]) -> Result<Vec<usize>, String> {
        let weight = &parameters[self.weight.index()].shape;
        let out = weight.first().copied().unwrap_or(0);
        let wanted = Self::weight_shape(inputs[0], out)?;
        if *weight != wanted {
            return Err(format!("a weight of shape {weight:?} is not of {wanted:?}"));
        }
        self.bias.map_or(Ok(()), |bias| vector("bias", bias, out, parameters))?;
        let mut shape = inputs[0].to_vec();
        shape[inputs[0].len() - 1] = out;
        Ok(shape)
    }
}
