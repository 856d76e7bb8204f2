//! Convolution of each channel with one filter, over channels-last rows.

use dapple_graph::{ParameterId, Parameters};

use crate::cpu::kernel::{ChannelProduct, ChannelSum, Lanes, RowClass, RowPair, StartValue};
use crate::cpu::operation::{BackwardPass, BackwardReads, CpuKernel, ForwardPass, WeightedKernel};
use crate::cpu::summand::Exported;
use crate::cpu::{PreparedWeights, pointwise, reversed_pairs};

/// A depthwise convolution.
#[derive(Debug)]
pub(crate) struct Depthwise {
    weight: ParameterId,
    bias: Option<ParameterId>,
    channels: usize,
    /// The number of heads. Their channels lie side by side, and all heads have the same filters.
    heads: usize,
    /// How many rows come before the first position. They are copied as they are.
    ahead: usize,
    taps: usize,
    /// The output rows, sorted by the taps that reach them.
    classes: Vec<RowClass>,
    /// The input rows, sorted by the taps whose gradient reaches them.
    back: Vec<RowClass>,
}

impl Depthwise {
    /// A convolution whose taps read and write these rows, out of `rows_in` and `rows_out` rows in all.
    pub(crate) fn new(
        (weight, bias): (ParameterId, Option<ParameterId>),
        channels: usize,
        taps: Vec<Vec<RowPair>>,
        (rows_in, rows_out): (usize, usize),
    ) -> Self {
        let classes = RowClass::sort(&taps, rows_out);
        let back = RowClass::sort(&reversed_pairs(&taps), rows_in);
        Self { weight, bias, channels, heads: 1, ahead: 0, taps: taps.len(), classes, back }
    }

    /// The same convolution over tokens, in several heads that share their filters. The first token is copied as it is.
    pub(crate) fn of_tokens(self, heads: usize) -> Self {
        Self { heads, ahead: 1, ..self }
    }

    /// The number of filters, one for each channel of a head.
    fn filters(&self) -> usize {
        self.channels / self.heads
    }

    /// The rows that are copied as they are, and the rows of positions.
    fn split<'a>(&self, rows: &'a [f32]) -> (&'a [f32], &'a [f32]) {
        rows.split_at(self.ahead * self.channels)
    }

    fn split_mut<'a>(&self, rows: &'a mut [f32]) -> (&'a mut [f32], &'a mut [f32]) {
        rows.split_at_mut(self.ahead * self.channels)
    }

    fn product(&self, weights: &[f32], bias: &[f32], source: &[f32], target: &mut [f32]) {
        let start = if bias.is_empty() { StartValue::Zero } else { StartValue::Bias(bias) };
        let (classes, channels) = (&self.classes, self.channels);
        let ((passed, source), (ahead, target)) = (self.split(source), self.split_mut(target));
        ahead.copy_from_slice(passed);
        ChannelProduct { classes, channels, weights, start, source, target }.run();
    }

    fn backward_data(&self, weights: &[f32], source: &[f32], target: &mut [f32], accumulate: bool) {
        let start = if accumulate { StartValue::Existing } else { StartValue::Zero };
        let (classes, channels) = (&self.back, self.channels);
        let ((passed, source), (ahead, target)) = (self.split(source), self.split_mut(target));
        pointwise::scale(passed, 1.0, ahead, accumulate);
        ChannelProduct { classes, channels, weights, start, source, target }.run();
    }

    /// Adds to a gradient stored as `[tap, filter]`. What the heads make for a filter is added up to one gradient.
    fn backward_weight(&self, source: &[f32], target: &[f32], dw: &mut [f32], scratch: &mut [f32]) {
        let (classes, channels) = (&self.classes, self.channels);
        let (source, target) = (self.split(source).1, self.split(target).1);
        if self.heads == 1 {
            return ChannelSum { classes, channels, source, target, sum: dw }.run();
        }
        let sum = &mut scratch[..self.taps * channels];
        sum.fill(0.0);
        ChannelSum { classes, channels, source, target, sum }.run();
        for (dw, sum) in dw.chunks_exact_mut(self.filters()).zip(sum.chunks_exact(channels)) {
            pointwise::add_rows(sum, dw);
        }
    }

    /// Copies a stored gradient into the parameter's order.
    fn reorder<T: Copy>(&self, sum: &[T], to: &mut [T]) {
        for (filter, taps) in to.chunks_exact_mut(self.taps).enumerate() {
            for (tap, value) in taps.iter_mut().enumerate() {
                *value = sum[tap * self.filters() + filter];
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

    /// Stores the weight as `[tap, channel]`, so that channels are contiguous, and repeats the filters for each head.
    fn prepare(&self, _: Lanes, parameters: &Parameters, _: bool, prepared: &mut PreparedWeights) {
        let weight = parameters.get(self.weight);
        prepared.forward.resize(self.taps * self.channels, 0.0);
        for (channel, filter) in weight.chunks_exact(self.taps).cycle().take(self.channels).enumerate() {
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

    fn scratch(&self, _: Lanes, _: usize) -> usize {
        if self.heads > 1 { self.taps * self.channels } else { 0 }
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
                self.backward_weight(item.values.input(0), item.g, gradient, item.scratch);
            }
            if let Some((dx, accumulate)) = item.input_gradients.part(0) {
                self.backward_data(&item.values.prepared().forward, item.g, dx, accumulate);
            }
        });
    }
}
