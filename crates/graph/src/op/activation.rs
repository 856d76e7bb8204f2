//! Functions of single values.

use super::GraphOperation;
use crate::graph::Parameter;

/// A function that is applied to every value by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// `max(x, 0)`.
    Relu,
    /// `min(max(x, 0), 6)`.
    Relu6,
    /// `x Phi(x)`, where `Phi` is the distribution function of the standard normal.
    Gelu,
    /// `x sigmoid(x)`.
    Silu,
    /// Hyperbolic tangent.
    Tanh,
    /// Multiplies by a constant.
    Scale(f32),
}

impl GraphOperation for Activation {
    fn name(&self) -> &'static str {
        match self {
            Self::Relu => "ReLU",
            Self::Relu6 => "ReLU6",
            Self::Gelu => "GELU",
            Self::Silu => "SiLU",
            Self::Tanh => "Tanh",
            Self::Scale(_) => "Scale",
        }
    }

    fn shape(&self, inputs: &[&[usize]], _: &[Parameter]) -> Result<Vec<usize>, String> {
        Ok(inputs[0].to_vec())
    }
}
