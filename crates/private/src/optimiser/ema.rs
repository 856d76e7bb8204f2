//! A running mean of the weights.

use dapple_graph::Parameters;

use crate::parallel::{self, PIECE};

/// The exponential moving average of the parameters. It is smoother than the last weights, and costs no privacy, since it is made of
/// released weights only.
#[derive(Debug, Clone, PartialEq)]
pub struct Ema {
    decay: f64,
    values: Parameters,
}

impl Ema {
    /// Makes a mean that begins at these parameters and has a decay in [0, 1).
    #[must_use]
    pub fn new(decay: f64, parameters: &Parameters) -> Self {
        Self { decay, values: parameters.clone() }
    }

    /// Moves the mean towards the parameters after the `count`-th update, counted from 1. The decay grows to its value as
    /// `(1 + n) / (10 + n)`, so that the first weights are soon forgotten.
    pub fn update(&mut self, parameters: &Parameters, count: u64) {
        let rest = self.rest(count);
        let values = parameters.values();
        let pieces = self.values.values_mut().chunks_mut(PIECE).zip(values.chunks(PIECE)).collect();
        parallel::for_each(values.len(), pieces, |(means, values): (&mut [f32], &[f32])| {
            for (mean, value) in means.iter_mut().zip(values) {
                *mean += rest * (value - *mean);
            }
        });
    }

    /// How far the mean moves towards the parameters at the `count`-th update, as a share of the distance.
    pub fn rest(&self, count: u64) -> f32 {
        let n = count as f64;
        (1.0 - self.decay.min((1.0 + n) / (10.0 + n))) as f32
    }

    /// The mean.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.values
    }

    /// The mean, to be filled from a checkpoint.
    pub fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.values
    }
}
