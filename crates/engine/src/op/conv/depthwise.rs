//! How the CPU convolves every channel with a filter of its own, over channels-last rows.

use dapple_graph::{ParameterId, Parameters, Window};

use crate::cpu::kernel::{ChannelProduct, ChannelSum, Lanes, RowClass, RowPair, StartValue};
use crate::cpu::operation::{BackwardPass, BackwardReads, CpuKernel, ForwardPass, WeightedKernel};
use crate::cpu::summand::Exported;
use crate::cpu::{PreparedWeights, pointwise, window_pairs};

/// A depthwise convolution.
#[derive(Debug)]
pub(super) struct Depthwise {
    weight: ParameterId,
    bias: Option<ParameterId>,
    channels: usize,
    taps: usize,
    /// The output rows, sorted by the taps that reach them.
    classes: Vec<RowClass>,
    /// The input rows, sorted by the taps whose gradient reaches them.
    back: Vec<RowClass>,
}

impl Depthwise {
    pub(super) fn new(
        (weight, bias): (ParameterId, Option<ParameterId>),
        channels: usize,
        window: &Window,
        input: &[usize],
        output: &[usize],
    ) -> Self {
        let taps = window_pairs(window, input, output);
        let reversed: Vec<Vec<RowPair>> =
            taps.iter().map(|pairs| pairs.iter().map(RowPair::reversed).collect()).collect();
        let classes = RowClass::sort(&taps, output.iter().product());
        let back = RowClass::sort(&reversed, input.iter().product());
        Self { weight, bias, channels, taps: taps.len(), classes, back }
    }

    fn product(&self, weights: &[f32], bias: &[f32], source: &[f32], target: &mut [f32]) {
        let start = if bias.is_empty() { StartValue::Zero } else { StartValue::Bias(bias) };
        let (classes, channels) = (&self.classes, self.channels);
        ChannelProduct { classes, channels, weights, start, source, target }.run();
    }

    fn backward_data(&self, weights: &[f32], source: &[f32], target: &mut [f32], accumulate: bool) {
        let start = if accumulate { StartValue::Existing } else { StartValue::Zero };
        let (classes, channels) = (&self.back, self.channels);
        ChannelProduct { classes, channels, weights, start, source, target }.run();
    }

    /// Adds to a gradient stored as `[tap, channel]`.
    fn backward_weight(&self, source: &[f32], target: &[f32], dw: &mut [f32]) {
        let (classes, channels) = (&self.classes, self.channels);
        ChannelSum { classes, channels, source, target, sum: dw }.run();
    }

    /// Copies a stored gradient into the parameter's order.
    fn reorder<T: Copy>(&self, sum: &[T], to: &mut [T]) {
        for (channel, filter) in to.chunks_exact_mut(self.taps).enumerate() {
            for (tap, value) in filter.iter_mut().enumerate() {
                *value = sum[tap * self.channels + channel];
            }
        }
    }
}

impl WeightedKernel for Depthwise {
    fn weight(&self) -> ParameterId {
        self.weight
    }

    fn arranged(&self) -> bool {
        true
    }

    /// Puts the taps of the weight outermost, so that channels are contiguous: `[tap, channel]`.
    fn prepare(&self, _: Lanes, parameters: &Parameters, _: bool, prepared: &mut PreparedWeights) {
        let weight = parameters.get(self.weight);
        prepared.forward.resize(weight.len(), 0.0);
        for (channel, filter) in weight.chunks_exact(self.taps).enumerate() {
            for (tap, value) in filter.iter().enumerate() {
                prepared.forward[tap * self.channels + channel] = *value;
            }
        }
        prepared.bias.clear();
        prepared.bias.extend_from_slice(self.bias.map_or(&[], |id| parameters.get(id)));
    }

    fn export(&self, _: &PreparedWeights, sum: Exported<'_>) {
        match sum {
            Exported::Counts(sum, to) => self.reorder(sum, to),
            Exported::Wide(sum, to) => self.reorder(sum, to),
            Exported::Plain(sum, to) => self.reorder(sum, to),
        }
    }
}

impl CpuKernel for Depthwise {
    fn reads(&self, _: bool) -> BackwardReads {
        BackwardReads::INPUTS
    }

    fn weighted(&self) -> Option<&dyn WeightedKernel> {
        Some(self)
    }

    fn forward(&self, pass: ForwardPass<'_>) {
        pass.for_items(|item| {
            let prepared = item.values.prepared();
            self.product(&prepared.forward, &prepared.bias, item.values.input(0), item.y);
        });
    }

    fn backward(&self, pass: BackwardPass<'_>) {
        pass.for_items(|mut item| {
            if let Some(gradient) = self.bias.and_then(|id| item.parameter_gradients.of(id)) {
                pointwise::add_rows(item.g, gradient);
            }
            if let Some(gradient) = item.parameter_gradients.of(self.weight) {
                self.backward_weight(item.values.input(0), item.g, gradient);
            }
            if let Some((dx, accumulate)) = item.input_gradients.part(0) {
                self.backward_data(&item.values.prepared().forward, item.g, dx, accumulate);
            }
        });
    }
}
