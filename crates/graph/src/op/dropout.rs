//! Dropout.

use super::GraphOperation;
use crate::graph::Parameter;

/// While training, zeroes values with some probability and scales the rest up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    /// The probability of being zeroed, below one.
    pub rate: f32,
    /// Whether channels are zeroed as a whole, rather than each value by itself.
    pub channels: bool,
    /// Which dropout layer of the whole model this is, so that each makes random choices of its own, and the same ones in a part of the model.
    /// A finished graph has numbered its layers.
    pub number: usize,
}

impl Dropout {
    /// Dropout of each value by itself.
    pub fn of_values(rate: f32) -> Self {
        Self { rate, channels: false, number: 0 }
    }

    /// Dropout of whole channels.
    pub fn of_channels(rate: f32) -> Self {
        Self { rate, channels: true, number: 0 }
    }
}

impl GraphOperation for Dropout {
    fn name(&self) -> &'static str {
        if self.channels { "ChannelDropout" } else { "Dropout" }
    }

    fn shape(&self, inputs: &[&[usize]], _: &[Parameter]) -> Result<Vec<usize>, String> {
        if !(0.0..1.0).contains(&self.rate) {
            return Err(format!("the rate {} is not in [0, 1)", self.rate));
        }
        Ok(inputs[0].to_vec())
    }
}
