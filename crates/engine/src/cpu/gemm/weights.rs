//! Moves the weights of a layer into the kernels' order, and their gradients back into the parameter's.

use pulp::Arch;
use rayon::prelude::*;

use super::Gemm;
use super::winograd::{self, WeightStrides};
use crate::cpu::kernel::{Lanes, pack_panel};
use crate::cpu::summand::Summand;

/// The weights of one layer, arranged for the kernels.
#[derive(Debug, Clone, Default)]
pub(crate) struct PreparedWeights {
    pub(crate) forward: Vec<f32>,
    pub(crate) backward: Vec<f32>,
    /// The standardised weight, `[group, tap, channel, out]`; empty if the weight is not standardised.
    pub(crate) used: Vec<f32>,
    /// One over the deviation of each filter, if the weight is standardised.
    pub(crate) inverses: Vec<f32>,
    pub(crate) bias: Vec<f32>,
    /// The weight of a layer whose taps are gathered first, `[tap, channel, out]`.
    gathered: Vec<f32>,
}

impl Gemm {
    /// Arranges the weights for the kernels.
    pub(super) fn arrange_weights(
        &self,
        lanes: Lanes,
        weight: &[f32],
        bias: Option<&[f32]>,
        gradient: bool,
        prepared: &mut PreparedWeights,
    ) {
        prepared.bias.clear();
        prepared.bias.extend_from_slice(bias.unwrap_or(&[]));
        if self.vast() {
            return;
        }
        let (channels, out) = self.group();
        let taps = self.taps.len();
        let source: &[f32] = match self.standardise {
            Some(eps) => {
                self.standardised(weight, eps, prepared);
                &prepared.used
            }
            None => weight,
        };
        // The strides of (group, tap, channel, out) in the source.
        let strides = match self.standardise {
            Some(_) => (taps * channels * out, channels * out, out, 1),
            None if self.transposed => (out * channels * taps, 1, out * taps, taps),
            None => (out * channels * taps, 1, taps, channels * taps),
        };
        if self.winograd.as_ref().is_some_and(|winograd| !winograd.taps) {
            let forward = WeightStrides { tap: strides.1, row: strides.2, column: strides.3 };
            winograd::arrange(lanes, (channels, out), source, forward, false, &mut prepared.forward);
            prepared.backward.clear();
            if gradient {
                let backward = WeightStrides { tap: strides.1, row: strides.3, column: strides.2 };
                winograd::arrange(lanes, (out, channels), source, backward, true, &mut prepared.backward);
            }
            return;
        }
        // A narrow layer is one product over all taps, whose rows are (tap, channel).
        let (blocks, inner) = if self.narrow { (1, taps * channels) } else { (taps, channels) };
        let rows = &mut prepared.gathered;
        let (source, strides) = match self.narrow {
            true => {
                rows.resize(taps * channels * out, 0.0);
                for (row, values) in rows.chunks_exact_mut(out).enumerate() {
                    let start = row / channels * strides.1 + row % channels * strides.2;
                    values
                        .iter_mut()
                        .enumerate()
                        .for_each(|(o, value)| *value = source[start + o * strides.3]);
                }
                (&rows[..], (0, 0, out, 1))
            }
            false => (source, strides),
        };
        let shape = (blocks, inner, out);
        arrange(lanes, self.groups, shape, source, strides, &mut prepared.forward);
        if gradient {
            // The data gradient of a narrow layer goes tap by tap.
            let source = if self.narrow { &*rows } else { source };
            let strides = if self.narrow { (0, channels * out, out, 1) } else { strides };
            let shape = (taps, out, channels);
            let strides = (strides.0, strides.1, strides.3, strides.2);
            arrange(lanes, self.groups, shape, source, strides, &mut prepared.backward);
        } else {
            prepared.backward.clear();
        }
    }

    /// Fills `used` and `inverses` with the standardised weight.
    fn standardised(&self, weight: &[f32], eps: f32, prepared: &mut PreparedWeights) {
        let (_, out) = self.group();
        let size = weight.len() / self.out;
        prepared.used.resize(weight.len(), 0.0);
        prepared.inverses.clear();
        for (group, filters) in weight.chunks_exact(out * size).enumerate() {
            let used = &mut prepared.used[group * size * out..][..size * out];
            for (block, filters) in filters.chunks(FILTERS * size).enumerate() {
                let inverses = &mut prepared.inverses;
                Arch::new().dispatch(
                    #[inline(always)]
                    || self.standardise_filters(filters, eps, block * FILTERS, used, inverses),
                );
            }
        }
    }

    /// Standardises some neighbouring filters of one group, the first of them at column `first`.
    #[inline(always)]
    fn standardise_filters(
        &self,
        filters: &[f32],
        eps: f32,
        first: usize,
        used: &mut [f32],
        deviations: &mut Vec<f32>,
    ) {
        let (channels, out) = self.group();
        let taps = self.taps.len();
        let size = channels * taps;
        let (mut means, mut inverses) = ([0.0f64; FILTERS], [0.0f64; FILTERS]);
        for (f, values) in filters.chunks_exact(size).enumerate() {
            let n = size as f64;
            means[f] = spread_sum(values, |w| w) / n;
            let variance = spread_sum(values, |w| (w - means[f]) * (w - means[f])) / n;
            inverses[f] = 1.0 / (variance + f64::from(eps)).sqrt();
            deviations.push(inverses[f] as f32);
        }
        let count = filters.len() / size;
        for channel in 0..channels {
            for tap in 0..taps {
                let row = &mut used[(tap * channels + channel) * out + first..][..count];
                let column = filters[channel * taps + tap..].iter().step_by(size);
                for ((value, w), (mean, inverse)) in
                    row.iter_mut().zip(column).zip(means.iter().zip(&inverses))
                {
                    *value = ((f64::from(*w) - mean) * inverse) as f32;
                }
            }
        }
    }

    /// Moves a sum of weight gradients from the stored order into the parameter's.
    pub(super) fn export_sum<T: Summand>(&self, prepared: &PreparedWeights, sum: &[T], to: &mut [T]) {
        if self.transposed {
            return self.export_transposed(sum, to);
        }
        let (_, out) = self.group();
        let size = to.len() / self.out;
        // Neighbouring filters are neighbours in the sum, so every cache line that is read is used to the end.
        to.par_chunks_mut(FILTERS * size).enumerate().for_each(|(block, to)| {
            let first = block * FILTERS;
            let straddles = first % out + to.len() / size > out;
            for (index, to) in to.chunks_mut(if straddles { size } else { FILTERS * size }).enumerate() {
                Arch::new().dispatch(
                    #[inline(always)]
                    || self.export_filters(prepared, sum, to, (first + index) / out, (first + index) % out),
                );
            }
        });
    }

    /// Rearranges a gradient from `[group, tap, channel, out]` to `[group, channel, out, tap]`.
    fn export_transposed<T: Summand>(&self, sum: &[T], to: &mut [T]) {
        let ((channels, out), taps) = (self.group(), self.taps.len());
        to.par_chunks_mut(out * taps).enumerate().for_each(|(row, to)| {
            let (group, channel) = (row / channels, row % channels);
            for tap in 0..taps {
                let from = &sum[((group * taps + tap) * channels + channel) * out..][..out];
                to[tap..].iter_mut().step_by(taps).zip(from).for_each(|(to, from)| *to = *from);
            }
        });
    }

    /// Exports some neighbouring filters of one group.
    ///
    /// If `w` is a standardised filter and `d` its gradient, the gradient of the parameter behind it is
    /// `(d - mean d - w mean(w d)) / deviation`. In a sum of clipped gradients the mean is already taken off, and the deviation already
    /// divided by; the part along `w` is taken off here, for the whole sum at once.
    ///
    /// # Guarantee
    /// `d - w mean(w d)` is never longer than `d`, because the mean square of `w` is at most one. It is computed from whole numbers in double
    /// precision and rounded to whole numbers. So two results are no farther apart than their sums were, plus one for each coordinate, plus
    /// what double precision rounds; a clipping rule makes room for both.
    #[inline(always)]
    fn export_filters<T: Summand>(
        &self,
        prepared: &PreparedWeights,
        sum: &[T],
        to: &mut [T],
        group: usize,
        first: usize,
    ) {
        let (channels, out) = self.group();
        let taps = self.taps.len();
        let size = channels * taps;
        let filters = to.len() / size;
        let row = |tap: usize, channel: usize| {
            let start = (group * size + tap * channels + channel) * out + first;
            start..start + filters
        };
        let (mut mean, mut along, mut factors) = ([0.0f64; FILTERS], [0.0f64; FILTERS], [1.0f64; FILTERS]);
        if self.standardise.is_some() {
            for index in 0..size {
                let row = row(0, index);
                let sums = mean.iter_mut().zip(&mut along);
                for ((d, used), (mean, along)) in sum[row.clone()].iter().zip(&prepared.used[row]).zip(sums) {
                    *mean += d.wide();
                    *along += d.wide() * f64::from(*used);
                }
            }
            mean.iter_mut().chain(&mut along).for_each(|value| *value /= size as f64);
            if T::CLIPPED {
                mean.fill(0.0);
            } else {
                let inverses = &prepared.inverses[group * out + first..][..filters];
                factors.iter_mut().zip(inverses).for_each(|(factor, inverse)| *factor = f64::from(*inverse));
            }
        }
        // Take a few channels at a time, so that what is written stays in the first-level cache until all taps are there.
        for start in (0..channels).step_by(CHANNELS) {
            let count = CHANNELS.min(channels - start);
            for tap in 0..taps {
                let mut tile = [[T::default(); FILTERS]; CHANNELS];
                for (channel, values) in tile.iter_mut().enumerate().take(count) {
                    let row = row(tap, start + channel);
                    match sum[row.clone()].first_chunk() {
                        Some(row) => *values = *row,
                        None => values[..filters].copy_from_slice(&sum[row.clone()]),
                    }
                    if self.standardise.is_some() {
                        let used = &prepared.used[row];
                        for (f, (value, used)) in values.iter_mut().zip(used).enumerate() {
                            let d = value.wide() - mean[f] - f64::from(*used) * along[f];
                            *value = T::narrow(d * factors[f]);
                        }
                    }
                }
                for (f, to) in to.chunks_exact_mut(size).enumerate() {
                    let to = to[start * taps + tap..].iter_mut().step_by(taps);
                    to.zip(&tile[..count]).for_each(|(to, values)| *to = values[f]);
                }
            }
        }
    }
}

/// The sum of a function over some values, in eight partial sums that do not wait for each other.
#[inline(always)]
fn spread_sum(values: &[f32], f: impl Fn(f64) -> f64) -> f64 {
    let mut sums = [0.0f64; 8];
    let (chunks, rest) = values.as_chunks::<8>();
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += f(f64::from(*value));
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(|&value| f(f64::from(value))).sum::<f64>()
}

/// How many filters are standardised or exported together.
const FILTERS: usize = 32;
/// How many channels are exported together.
const CHANNELS: usize = 16;

/// Packs the weights of all groups, with the panels in parallel. The strides are those of (group, tap, inner, column).
fn arrange(
    lanes: Lanes,
    groups: usize,
    shape: (usize, usize, usize),
    source: &[f32],
    strides: (usize, usize, usize, usize),
    packed: &mut Vec<f32>,
) {
    let (taps, inner, columns) = shape;
    let block = taps * inner * lanes.padded(columns);
    packed.resize(groups * block, 0.0);
    for (group, packed) in packed.chunks_exact_mut(block).enumerate() {
        let source = &source[group * strides.0..];
        packed.par_chunks_mut(taps * inner * lanes.panel).enumerate().for_each(|(panel, packed)| {
            pack_panel(lanes, shape, source, (strides.1, strides.2, strides.3), panel, packed);
        });
    }
}
