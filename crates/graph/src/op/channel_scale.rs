//! A trainable factor for each channel.

use super::GraphOperation;
use crate::graph::{Parameter, ParameterId};

/// Multiplies each channel by a trainable number: the layer scale of CaiT (Touvron et al. 2021) and of ConvNeXt (Liu et al. 2022).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelScale {
    /// The axis of the channels: the first of an image, the last of a sequence.
    pub axis: usize,
    /// One factor for each channel, stored in any shape that has as many values.
    pub weight: ParameterId,
}

impl GraphOperation for ChannelScale {
    fn name(&self) -> &'static str {
        "ChannelScale"
    }

    fn parameters(&self) -> Vec<ParameterId> {
        vec![self.weight]
    }

    fn shape(&self, inputs: &[&[usize]], parameters: &[Parameter]) -> Result<Vec<usize>, String> {
        let Some(&channels) = inputs[0].get(self.axis) else {
            return Err(format!("{:?} has no axis {}", inputs[0], self.axis));
        };
        let scale = &parameters[self.weight.index()];
        if scale.len() != channels {
            return Err(format!("a scale of shape {:?} does not suit {channels} channels", scale.shape));
        }
        Ok(inputs[0].to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GraphBuilder, Init};

    #[test]
    fn every_channel_of_the_axis_has_a_factor() {
        let mut builder = GraphBuilder::new(&[6, 4, 5]);
        let input = builder.input();
        for (axis, channels) in [(0, 6), (1, 4), (2, 5)] {
            let name = format!("axis{axis}");
            let x = builder.channel_scale(&name, input, axis, 1e-6).unwrap();
            assert_eq!(builder.shape(x), [6, 4, 5]);
            let weight = builder.parameter(&name, &[channels + 1], Init::Constant(1.0), false).unwrap();
            let scale = ChannelScale { axis, weight };
            let error = builder.add("long", scale, &[input]).unwrap_err().to_string();
            assert!(error.starts_with("long (ChannelScale): a scale of shape"), "{error}");
        }
        let error = builder.channel_scale("none", input, 3, 1.0).unwrap_err().to_string();
        assert_eq!(error, "none (ChannelScale): [6, 4, 5] has no axis 3");
    }
}
