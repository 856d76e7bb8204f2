//! Convolutions and linear layers: sums over taps of matrix products.

use dapple_graph::{ParameterId, Window};
use rayon::prelude::*;

use super::kernel::{Lanes, OuterProduct, Pair, Right, RowProduct, RowShape, Rows, pack};

/// A convolution or linear layer of one sample: `rows_in x channels -> rows_out x out`.
#[derive(Debug, Clone)]
pub(crate) struct Gemm {
    pub(crate) weight: ParameterId,
    pub(crate) bias: Option<ParameterId>,
    pub(crate) standardise: Option<f32>,
    pub(crate) relu: bool,
    pub(crate) channels: usize,
    pub(crate) out: usize,
    pub(crate) groups: usize,
    pub(crate) rows_in: usize,
    pub(crate) rows_out: usize,
    /// Rows read and written by each tap, in the order of the rows written.
    pub(crate) taps: Vec<Vec<Pair>>,
    /// The same for the data gradient: rows of the output read, rows of the input written, in that order.
    pub(crate) back: Vec<Vec<Pair>>,
    /// Whether the taps of a position are gathered into one row first: pays off for few channels.
    pub(crate) narrow: bool,
    /// Rows one to `rows_out`, for the gathered form.
    pub(crate) identity: Vec<Pair>,
    /// Rows one to `rows_in`.
    pub(crate) rows_in_identity: Vec<Pair>,
}

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
    /// A linear layer over `rows` rows.
    pub(crate) fn linear(
        weight: ParameterId,
        bias: Option<ParameterId>,
        rows: usize,
        channels: usize,
        out: usize,
    ) -> Self {
        let identity: Vec<Pair> = (0..rows as u32).map(|row| Pair { source: row, target: row }).collect();
        Self {
            weight,
            bias,
            standardise: None,
            relu: false,
            channels,
            out,
            groups: 1,
            rows_in: rows,
            rows_out: rows,
            taps: vec![identity.clone()],
            back: vec![identity.clone()],
            narrow: false,
            rows_in_identity: identity.clone(),
            identity,
        }
    }

    /// Replaces the rows of a linear layer by those of a window over an image or clip.
    pub(crate) fn over(mut self, window: &Window, input: &[usize], output: &[usize], groups: usize) -> Self {
        self.taps = window_pairs(window, input, output);
        self.back = self
            .taps
            .iter()
            .map(|pairs| {
                let mut swapped: Vec<Pair> =
                    pairs.iter().map(|pair| Pair { source: pair.target, target: pair.source }).collect();
                swapped.sort_by_key(|pair| pair.target);
                swapped
            })
            .collect();
        self.rows_in = input.iter().product();
        self.rows_out = output.iter().product();
        self.groups = groups;
        self.narrow = groups == 1 && self.taps.len() > 1 && self.channels <= 16;
        let identity = |rows: usize| (0..rows as u32).map(|row| Pair { source: row, target: row }).collect();
        self.identity = identity(self.rows_out);
        self.rows_in_identity = identity(self.rows_in);
        self
    }

    /// Channels and outputs of one group.
    fn group(&self) -> (usize, usize) {
        (self.channels / self.groups, self.out / self.groups)
    }

    /// Values of the weight.
    pub(crate) fn weight_len(&self) -> usize {
        self.out * self.channels / self.groups * self.taps.len()
    }

    /// Whether weight gradients are stored as the parameter is, `[out, channels]`, rather than `[group, tap, channel, out]`.
    pub(crate) fn natural(&self) -> bool {
        self.taps.len() == 1 && self.standardise.is_none()
    }

    /// Whether the data gradient can read the parameter as it is stored, so that nothing has to be packed.
    fn plain(&self, lanes: Lanes) -> bool {
        self.natural() && self.groups == 1 && self.channels.is_multiple_of(lanes.lanes)
    }

    /// Multiplications of one forward pass over one sample.
    pub(crate) fn multiplications(&self) -> usize {
        let (channels, out) = self.group();
        self.groups * channels * out * self.taps.iter().map(Vec::len).sum::<usize>()
    }

    /// Numbers of scratch that any of the passes needs for `rows` rows of views.
    pub(crate) fn scratch(&self) -> usize {
        if self.narrow { self.rows_out * self.taps.len() * self.channels } else { 0 }
    }

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
        let block = channels * lanes.padded(out);
        let packed =
            if self.narrow { taps * channels * lanes.padded(out) } else { self.groups * taps * block };
        prepared.forward.resize(packed, 0.0);
        if self.narrow {
            // One product over all taps: rows are (tap, channel), so the taps' blocks interleave panel by panel.
            let mut rows = vec![0.0; taps * channels * out];
            for tap in 0..taps {
                for channel in 0..channels {
                    let row = &mut rows[(tap * channels + channel) * out..][..out];
                    for (o, value) in row.iter_mut().enumerate() {
                        *value = source[tap * strides.1 + channel * strides.2 + o * strides.3];
                    }
                }
            }
            pack(lanes, taps * channels, out, &rows, (out, 1), &mut prepared.forward);
        } else {
            prepared.forward.par_chunks_exact_mut(block).enumerate().for_each(|(index, packed)| {
                let start = index / taps * strides.0 + index % taps * strides.1;
                pack(lanes, channels, out, &source[start..], (strides.2, strides.3), packed);
            });
        }
        let block = out * lanes.padded(channels);
        let gradient = gradient && !self.plain(lanes);
        prepared.backward.resize(if gradient { self.groups * taps * block } else { 0 }, 0.0);
        if gradient {
            prepared.backward.par_chunks_exact_mut(block).enumerate().for_each(|(index, packed)| {
                let start = index / taps * strides.0 + index % taps * strides.1;
                pack(lanes, out, channels, &source[start..], (strides.3, strides.2), packed);
            });
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

    /// Rows of one item with its taps gathered: `[rows_out, tap, channel]`.
    fn gather(&self, x: &[f32], columns: &mut [f32]) {
        let (channels, width) = (self.channels, self.taps.len() * self.channels);
        let columns = &mut columns[..self.rows_out * width];
        columns.fill(0.0);
        for (tap, pairs) in self.taps.iter().enumerate() {
            for pair in pairs {
                let source = &x[pair.source as usize * channels..][..channels];
                columns[pair.target as usize * width + tap * channels..][..channels].copy_from_slice(source);
            }
        }
    }

    /// `y = x * w + b`, for a range of items; `strides` are the numbers between items of `x` and `y`.
    pub(crate) fn forward(
        &self,
        prepared: &Prepared,
        x: &[f32],
        y: &mut [f32],
        strides: (usize, usize),
        run: &mut Run<'_>,
    ) {
        let len = self.rows_out * self.out;
        for item in run.items.clone() {
            let y = &mut y[item * strides.1..][..len];
            if prepared.bias.is_empty() {
                y.fill(0.0);
            } else {
                y.chunks_exact_mut(self.out).for_each(|row| row.copy_from_slice(&prepared.bias));
            }
        }
        if self.narrow {
            let width = self.taps.len() * self.channels;
            for item in run.items.clone() {
                self.gather(&x[item * strides.0..], run.scratch);
                let columns = Rows { data: run.scratch, shape: RowShape { item: 0, row: width, column: 0 } };
                let y = &mut y[item * strides.1..][..len];
                let right = Right::Packed(&prepared.forward);
                row_product(
                    columns,
                    width,
                    right,
                    (self.out, 0),
                    self.out,
                    y,
                    0,
                    &self.identity,
                    1,
                    run.parallel,
                );
            }
        } else {
            let (channels, out) = self.group();
            let block = prepared.forward.len() / (self.groups * self.taps.len());
            for group in 0..self.groups {
                for (tap, pairs) in self.taps.iter().enumerate() {
                    let shape = RowShape { item: strides.0, row: self.channels, column: group * channels };
                    let source = Rows { data: &x[run.items.start * strides.0..], shape };
                    let right =
                        Right::Packed(&prepared.forward[(group * self.taps.len() + tap) * block..][..block]);
                    let y = &mut y[run.items.start * strides.1..];
                    let target = (self.out, group * out);
                    row_product(
                        source,
                        channels,
                        right,
                        target,
                        out,
                        y,
                        strides.1,
                        pairs,
                        run.items.len(),
                        run.parallel,
                    );
                }
            }
        }
        if self.relu {
            for item in run.items.clone() {
                super::pointwise::relu(&mut y[item * strides.1..][..len]);
            }
        }
    }

    /// Adds the data gradient to `dx` (or writes it, unless `accumulate`).
    #[expect(clippy::too_many_arguments, reason = "each is another tensor of the same operation")]
    pub(crate) fn backward_data(
        &self,
        lanes: Lanes,
        prepared: &Prepared,
        weight: &[f32],
        g: &[f32],
        dx: &mut [f32],
        strides: (usize, usize),
        accumulate: bool,
        run: &Run<'_>,
    ) {
        if !accumulate {
            for item in run.items.clone() {
                dx[item * strides.1..][..self.rows_in * self.channels].fill(0.0);
            }
        }
        let (channels, out) = self.group();
        let block = prepared.backward.len() / (self.groups * self.taps.len());
        for group in 0..self.groups {
            for (tap, pairs) in self.back.iter().enumerate() {
                let shape = RowShape { item: strides.0, row: self.out, column: group * out };
                let source = Rows { data: &g[run.items.start * strides.0..], shape };
                let right = match self.plain(lanes) {
                    true => Right::Plain(weight, self.channels),
                    false => {
                        Right::Packed(&prepared.backward[(group * self.taps.len() + tap) * block..][..block])
                    }
                };
                let dx = &mut dx[run.items.start * strides.1..];
                let target = (self.channels, group * channels);
                row_product(
                    source,
                    out,
                    right,
                    target,
                    channels,
                    dx,
                    strides.1,
                    pairs,
                    run.items.len(),
                    run.parallel,
                );
            }
        }
    }

    /// Adds the weight gradient of some items, in the stored order, to `sum`.
    pub(crate) fn backward_weight(
        &self,
        items: &[(&[f32], &[f32])],
        sum: &mut [f32],
        scratch: &mut [f32],
        parallel: usize,
    ) {
        let (channels, out) = self.group();
        if self.narrow {
            let width = self.taps.len() * self.channels;
            for (x, g) in items {
                self.gather(x, scratch);
                let pair = [(&*scratch, *g)];
                outer(
                    &pair,
                    &self.identity,
                    (width, 0),
                    (self.out, 0),
                    (width, self.out),
                    sum,
                    false,
                    parallel,
                );
            }
            return;
        }
        let size = channels * out;
        for group in 0..self.groups {
            for (tap, pairs) in self.taps.iter().enumerate() {
                let sum = &mut sum[(group * self.taps.len() + tap) * size..][..size];
                let left = (self.channels, group * channels);
                let right = (self.out, group * out);
                if self.natural() {
                    outer(items, pairs, right, left, (out, channels), sum, true, parallel);
                } else {
                    outer(items, pairs, left, right, (channels, out), sum, false, parallel);
                }
            }
        }
    }

    /// Moves a weight gradient from the stored order into the parameter's, through the standardisation if there is one; adds to `to`.
    pub(crate) fn export(&self, prepared: &Prepared, sum: &[f32], to: &mut [f32]) {
        if self.natural() {
            to.iter_mut().zip(sum).for_each(|(to, value)| *to += value);
            return;
        }
        let (channels, out) = self.group();
        let taps = self.taps.len();
        let size = channels * taps;
        // Eight filters at a time: neighbours in the sum, so every cache line that is read is used.
        to.par_chunks_mut(8 * size).enumerate().for_each(|(block, to)| {
            let filters = to.len() / size;
            for channel in 0..channels {
                for tap in 0..taps {
                    for f in 0..filters {
                        let (group, o) = ((block * 8 + f) / out, (block * 8 + f) % out);
                        let index = ((group * taps + tap) * channels + channel) * out + o;
                        to[f * size + channel * taps + tap] += sum[index];
                    }
                }
            }
            if self.standardise.is_some() {
                for f in 0..filters {
                    let filter = block * 8 + f;
                    let (group, o) = (filter / out, filter % out);
                    let used = |i: usize| {
                        let (channel, tap) = (i / taps, i % taps);
                        f64::from(prepared.used[((group * taps + tap) * channels + channel) * out + o])
                    };
                    let values = &mut to[f * size..][..size];
                    let n = size as f64;
                    let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
                    let along =
                        values.iter().enumerate().map(|(i, &v)| used(i) * f64::from(v)).sum::<f64>() / n;
                    let inverse = f64::from(prepared.filters[filter].0);
                    for (i, value) in values.iter_mut().enumerate() {
                        *value = ((f64::from(*value) - mean - used(i) * along) * inverse) as f32;
                    }
                }
            }
        });
    }
}

/// What a kernel call works on: a range of items, scratch, and the threads it may use inside an item.
pub(crate) struct Run<'a> {
    pub(crate) items: std::ops::Range<usize>,
    pub(crate) scratch: &'a mut [f32],
    pub(crate) parallel: usize,
}

fn outer(
    items: &[(&[f32], &[f32])],
    pairs: &[Pair],
    left: (usize, usize),
    right: (usize, usize),
    (rows, columns): (usize, usize),
    out: &mut [f32],
    swapped: bool,
    parallel: usize,
) {
    if parallel <= 1 || rows < 2 * parallel {
        OuterProduct { items, pairs, left, right, rows: (0, rows), columns, out, swapped }.run();
        return;
    }
    // Whole tiles of six rows per thread.
    let chunk = rows.div_ceil(4 * parallel).next_multiple_of(6);
    out[..rows * columns].par_chunks_mut(chunk * columns).enumerate().for_each(|(index, out)| {
        let rows = (index * chunk, out.len() / columns);
        OuterProduct { items, pairs, left, right, rows, columns, out, swapped }.run();
    });
}

/// A row product, split over threads by target rows where a single item has to fill them all.
#[expect(clippy::too_many_arguments, reason = "a product has many dimensions")]
fn row_product(
    source: Rows<'_>,
    inner: usize,
    right: Right<'_>,
    (row, column): (usize, usize),
    columns: usize,
    target: &mut [f32],
    target_item: usize,
    pairs: &[Pair],
    items: usize,
    parallel: usize,
) {
    let shape = RowShape { item: target_item, row, column };
    let rows = pairs.last().map_or(0, |pair| pair.target as usize + 1);
    if parallel <= 1 || items != 1 || rows < 2 * parallel {
        RowProduct { source, inner, right, columns, target, target_shape: shape, pairs, first_row: 0, items }
            .run();
        return;
    }
    let chunk = rows.div_ceil(parallel);
    target[..rows * row].par_chunks_mut(chunk * row).enumerate().for_each(|(index, target)| {
        let first = (index * chunk) as u32;
        let start = pairs.partition_point(|pair| pair.target < first);
        let end = pairs.partition_point(|pair| pair.target < first + chunk as u32);
        let pairs = &pairs[start..end];
        RowProduct {
            source,
            inner,
            right,
            columns,
            target,
            target_shape: shape,
            pairs,
            first_row: first,
            items: 1,
        }
        .run();
    });
}

/// For every tap of a window, the input row read and the output row written, wherever the tap falls inside the input.
pub(crate) fn window_pairs(window: &Window, input: &[usize], output: &[usize]) -> Vec<Vec<Pair>> {
    let rank = input.len();
    let index = |mut flat: usize, shape: &[usize]| -> Vec<usize> {
        let mut index = vec![0; rank];
        for axis in (0..rank).rev() {
            index[axis] = flat % shape[axis];
            flat /= shape[axis];
        }
        index
    };
    let positions: Vec<Vec<usize>> = (0..output.iter().product()).map(|flat| index(flat, output)).collect();
    (0..window.taps())
        .map(|tap| {
            let tap = index(tap, &window.kernel);
            let mut pairs = Vec::new();
            for (target, position) in positions.iter().enumerate() {
                let mut source = 0;
                let inside = (0..rank).all(|axis| {
                    let padded = position[axis] * window.stride[axis] + tap[axis] * window.dilation[axis];
                    let place = padded.wrapping_sub(window.padding[axis]);
                    source = source * input[axis] + place.min(input[axis]);
                    place < input[axis]
                });
                if inside {
                    pairs.push(Pair { source: source as u32, target: target as u32 });
                }
            }
            pairs
        })
        .collect()
}
