//! The weights of a layer in the kernels' order, and gradients back in the parameter's.

use rayon::prelude::*;

use super::Gemm;
use super::winograd::{self, Strides};
use crate::cpu::kernel::{Lanes, pack_panel};

/// The weights of one layer, arranged for the kernels.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prepared {
    pub(crate) forward: Vec<f32>,
    pub(crate) backward: Vec<f32>,
    /// `[group, tap, channel, out]`: the weight as it is used; kept where standardisation needs it.
    pub(crate) used: Vec<f32>,
    /// One over the deviation of each filter, and the sum of squares of its standardised form.
    pub(crate) filters: Vec<(f32, f64)>,
    pub(crate) bias: Vec<f32>,
}

impl Gemm {
    /// Arranges the weights for the kernels.
    pub(crate) fn prepare(
        &self,
        lanes: Lanes,
        weight: &[f32],
        bias: Option<&[f32]>,
        gradient: bool,
        prepared: &mut Prepared,
    ) {
        prepared.bias.clear();
        prepared.bias.extend_from_slice(bias.unwrap_or(&[]));
        let (channels, out) = self.group();
        let taps = self.taps.len();
        let source: &[f32] = match self.standardise {
            Some(eps) => {
                self.standardised(weight, eps, prepared);
                &prepared.used
            }
            None => weight,
        };
        // Strides of (group, tap, channel, out) in the source.
        let strides = match self.standardise {
            Some(_) => (taps * channels * out, channels * out, out, 1),
            None => (out * channels * taps, 1, taps, channels * taps),
        };
        if self.winograd.is_some() {
            let forward = Strides { tap: strides.1, row: strides.2, column: strides.3 };
            winograd::arrange(lanes, (channels, out), source, forward, false, &mut prepared.forward);
            prepared.backward.clear();
            if gradient {
                let backward = Strides { tap: strides.1, row: strides.3, column: strides.2 };
                winograd::arrange(lanes, (out, channels), source, backward, true, &mut prepared.backward);
            }
            return;
        }
        // A narrow layer is one product over all taps: its rows are (tap, channel).
        let (blocks, inner) = if self.narrow { (1, taps * channels) } else { (taps, channels) };
        let mut rows = Vec::new();
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
        if !self.vast() {
            arrange(lanes, self.groups, shape, source, strides, &mut prepared.forward);
        }
        if gradient && !self.plain(lanes) {
            // The data gradient of a narrow layer goes tap by tap.
            let source = if self.narrow { &rows } else { source };
            let strides = if self.narrow { (0, channels * out, out, 1) } else { strides };
            let shape = (taps, out, channels);
            let strides = (strides.0, strides.1, strides.3, strides.2);
            arrange(lanes, self.groups, shape, source, strides, &mut prepared.backward);
        } else {
            prepared.backward.clear();
        }
    }

    /// Fills `used` and `filters` with the standardised weight.
    fn standardised(&self, weight: &[f32], eps: f32, prepared: &mut Prepared) {
        let (channels, out) = self.group();
        let taps = self.taps.len();
        let size = channels * taps;
        prepared.used.resize(weight.len(), 0.0);
        prepared.filters.clear();
        for (filter, values) in weight.chunks_exact(size).enumerate() {
            let n = size as f64;
            let mean = values.iter().map(|&w| f64::from(w)).sum::<f64>() / n;
            let variance = values.iter().map(|&w| (f64::from(w) - mean).powi(2)).sum::<f64>() / n;
            let inverse = 1.0 / (variance + f64::from(eps)).sqrt();
            prepared.filters.push((inverse as f32, n * variance * inverse * inverse));
            let (group, o) = (filter / out, filter % out);
            for channel in 0..channels {
                for tap in 0..taps {
                    let value = (f64::from(values[channel * taps + tap]) - mean) * inverse;
                    prepared.used[((group * taps + tap) * channels + channel) * out + o] = value as f32;
                }
            }
        }
    }

    /// Moves a weight gradient from the stored order into the parameter's, through the standardisation if there is one.
    pub(crate) fn export(&self, prepared: &Prepared, sum: &[f32], to: &mut [f32]) {
        let (channels, out) = self.group();
        let taps = self.taps.len();
        let size = channels * taps;
        // Sixteen filters at a time: neighbours in the sum, so that every cache line that is read is used up.
        to.par_chunks_mut(FILTERS * size).enumerate().for_each(|(block, to)| {
            let filters = to.len() / size;
            let (group, o) = (block * FILTERS / out, block * FILTERS % out);
            if o + filters > out {
                // The block straddles two groups.
                for f in 0..filters {
                    let filter = block * FILTERS + f;
                    let to = &mut to[f * size..][..size];
                    self.export_filters(prepared, sum, to, filter / out, filter % out, 1);
                }
            } else {
                self.export_filters(prepared, sum, to, group, o, filters);
            }
        });
    }

    /// Exports some neighbouring filters of one group.
    fn export_filters(
        &self,
        prepared: &Prepared,
        sum: &[f32],
        to: &mut [f32],
        group: usize,
        first: usize,
        filters: usize,
    ) {
        let (channels, out) = self.group();
        let taps = self.taps.len();
        let size = channels * taps;
        let row = |index: usize| {
            (group * size + index) * out + first..(group * size + index) * out + first + filters
        };
        if self.standardise.is_none() {
            // A few channels at a time, so that what is read stays in the first-level cache until all filters have taken their part.
            for start in (0..channels).step_by(16) {
                let block = start..channels.min(start + 16);
                for (f, filter) in to.chunks_exact_mut(size).enumerate() {
                    let parts = filter[block.start * taps..block.end * taps].chunks_exact_mut(taps);
                    for (channel, values) in block.clone().zip(parts) {
                        for (tap, value) in values.iter_mut().enumerate() {
                            *value = sum[row(tap * channels + channel).start + f];
                        }
                    }
                }
            }
            return;
        }
        // (d - mean d - hat mean(hat d)) / deviation
        let (mut mean, mut along) = ([0.0f64; FILTERS], [0.0f64; FILTERS]);
        for index in 0..size {
            for (f, (d, used)) in sum[row(index)].iter().zip(&prepared.used[row(index)]).enumerate() {
                mean[f] += f64::from(*d) / size as f64;
                along[f] += f64::from(*d) * f64::from(*used) / size as f64;
            }
        }
        let inverse = &prepared.filters[group * out + first..][..filters];
        for tap in 0..taps {
            for channel in 0..channels {
                let row = row(tap * channels + channel);
                for (f, (d, used)) in sum[row.clone()].iter().zip(&prepared.used[row]).enumerate() {
                    let value =
                        (f64::from(*d) - mean[f] - f64::from(*used) * along[f]) * f64::from(inverse[f].0);
                    to[f * size + channel * taps + tap] = value as f32;
                }
            }
        }
    }
}

/// Filters that are exported together.
const FILTERS: usize = 16;

/// Packs the weights of all groups, panels in parallel. Strides are those of (group, tap, inner, column).
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
