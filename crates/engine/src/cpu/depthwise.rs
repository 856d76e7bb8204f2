//! Convolution of every channel with a filter of its own, over channels-last rows.

use dapple_graph::{ParameterId, Window};

use super::gemm::window_pairs;
use super::kernel::{ChannelProduct, ChannelSum, Class, Pair, Start};

/// A depthwise convolution.
#[derive(Debug, Clone)]
pub(crate) struct Depthwise {
    pub(crate) weight: ParameterId,
    pub(crate) bias: Option<ParameterId>,
    channels: usize,
    taps: usize,
    /// Output rows by the taps that reach them.
    classes: Vec<Class>,
    /// Input rows by the taps whose gradient reaches them.
    back: Vec<Class>,
}

impl Depthwise {
    pub(crate) fn new(
        (weight, bias): (ParameterId, Option<ParameterId>),
        channels: usize,
        window: &Window,
        input: &[usize],
        output: &[usize],
    ) -> Self {
        let taps = window_pairs(window, input, output);
        let reversed: Vec<Vec<Pair>> =
            taps.iter().map(|pairs| pairs.iter().map(Pair::reversed).collect()).collect();
        let classes = Class::sort(&taps, output.iter().product());
        let back = Class::sort(&reversed, input.iter().product());
        Self { weight, bias, channels, taps: taps.len(), classes, back }
    }

    /// The weight with the taps outermost, so that channels are contiguous: `[tap, channel]`.
    pub(crate) fn prepare(&self, weight: &[f32], transposed: &mut Vec<f32>) {
        transposed.resize(weight.len(), 0.0);
        for (channel, filter) in weight.chunks_exact(self.taps).enumerate() {
            for (tap, value) in filter.iter().enumerate() {
                transposed[tap * self.channels + channel] = *value;
            }
        }
    }

    pub(crate) fn forward(&self, weights: &[f32], bias: &[f32], source: &[f32], target: &mut [f32]) {
        let start = if bias.is_empty() { Start::Zero } else { Start::Bias(bias) };
        let (classes, channels) = (&self.classes, self.channels);
        ChannelProduct { classes, channels, weights, start, source, target }.run();
    }

    pub(crate) fn backward_data(
        &self,
        weights: &[f32],
        source: &[f32],
        target: &mut [f32],
        accumulate: bool,
    ) {
        let start = if accumulate { Start::Existing } else { Start::Zero };
        let (classes, channels) = (&self.back, self.channels);
        ChannelProduct { classes, channels, weights, start, source, target }.run();
    }

    /// Adds to a gradient stored as `[tap, channel]`.
    pub(crate) fn backward_weight(&self, source: &[f32], target: &[f32], dw: &mut [f32]) {
        let (classes, channels) = (&self.classes, self.channels);
        ChannelSum { classes, channels, source, target, sum: dw }.run();
    }

    /// A stored gradient in the parameter's order.
    pub(crate) fn export<T: Copy>(&self, sum: &[T], to: &mut [T]) {
        for (channel, filter) in to.chunks_exact_mut(self.taps).enumerate() {
            for (tap, value) in filter.iter_mut().enumerate() {
                *value = sum[tap * self.channels + channel];
            }
        }
    }
}
