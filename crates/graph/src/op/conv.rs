//! Convolutions.

use super::shape::{grouped_channels, vector};
use super::{GraphOperation, Window};
use crate::graph::{Parameter, ParameterId};

/// Convolution (cross-correlation) over two or three spatial axes: `[c, ..] -> [out, ..]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Conv {
    /// The sliding window.
    pub window: Window,
    /// Number of channel groups; equal to the channels for a depthwise convolution.
    pub groups: usize,
    /// The weight, `[out, c / groups, kernel..]`.
    pub weight: ParameterId,
    /// The bias, `[out]`.
    pub bias: Option<ParameterId>,
    /// The eps of weight standardisation, if the weights are standardised: before it is used, every output filter is shifted to mean zero
    /// and divided by its standard deviation, `(w - mean) / sqrt(var + eps)`.
    pub standardise: Option<f32>,
}

impl Conv {
    /// The name of a convolution, which depends on the number of axes that its window slides over.
    pub(crate) fn name_of(window: &Window) -> &'static str {
        if window.kernel.len() == 3 { "Conv3d" } else { "Conv2d" }
    }

    /// The shape of the weight that turns this input into `out` channels.
    pub(crate) fn weight_shape(
        window: &Window,
        groups: usize,
        out: usize,
        input: &[usize],
    ) -> Result<Vec<usize>, String> {
        let channels = grouped_channels(input, out, groups)?;
        window.shape(input, out)?;
        Ok([out, channels / groups].into_iter().chain(window.kernel.iter().copied()).collect())
    }
}

impl GraphOperation for Conv {
    fn name(&self) -> &'static str {
        Self::name_of(&self.window)
    }

    fn parameters(&self) -> Vec<ParameterId> {
        std::iter::once(self.weight).chain(self.bias).collect()
    }

    fn shape(&self, inputs: &[&[usize]], parameters: &[Parameter]) -> Result<Vec<usize>, String> {
        let weight = &parameters[self.weight.index()].shape;
        let out = weight.first().copied().unwrap_or(0);
        let wanted = Self::weight_shape(&self.window, self.groups, out, inputs[0])?;
        if *weight != wanted {
            return Err(format!("a weight of shape {weight:?} is not of {wanted:?}"));
        }
        self.bias.map_or(Ok(()), |bias| vector("bias", bias, out, parameters))?;
        self.window.shape(inputs[0], out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConvSpec, GraphBuilder, Init};

    #[test]
    fn a_weight_of_another_convolution_is_refused() {
        let mut builder = GraphBuilder::new(&[3, 8, 8]);
        let input = builder.input();
        let window = Window::square(3);
        let x = builder.conv("fits", input, ConvSpec::new(4, window.clone())).unwrap();
        let shapes: [(&[usize], bool); 4] =
            [(&[5, 4, 3, 3], true), (&[5, 3, 3, 3], false), (&[5, 4, 1, 1], false), (&[], false)];
        for (number, (shape, fits)) in shapes.into_iter().enumerate() {
            let name = format!("conv{number}");
            let weight =
                builder.parameter(&format!("{name}.weight"), shape, Init::Constant(0.0), false).unwrap();
            let conv = Conv { window: window.clone(), groups: 1, weight, bias: None, standardise: None };
            let biased = Conv { bias: Some(weight), ..conv.clone() };
            assert!(builder.add("biased", biased, &[x]).is_err());
            let added = builder.add(&name, conv, &[x]);
            assert_eq!(added.is_ok(), fits, "{shape:?}");
            if let Ok(id) = added {
                assert_eq!(builder.shape(id), [5, 4, 4]);
            }
        }
    }
}
