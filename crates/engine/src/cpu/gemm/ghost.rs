//! Norms of weight gradients that are never written down.
//!
//! The gradient of a layer's weight is `sum over positions p of col_p g_p^T`, with `col_p` the inputs that position `p` reads and `g_p`
//! the gradient of its output. Its squared norm is `sum over p, q of (col_p . col_q)(g_p . g_q)` (Goodfellow 2015; Li et al. 2021), and the
//! sum of clipped gradients is one product over all positions of all samples with the clipping factors folded into `g` (Bu et al. 2022).
//! Where positions are few and weights are many, this is far cheaper than one gradient per sample.

use super::{Gemm, Prepared};
use crate::cpu::kernel::{Lanes, Right, RowProduct, RowShape, Rows, Start, pack};
use crate::cpu::pointwise::squared_norm;
use pulp::{Arch, Simd, WithSimd};

/// Rough speeds of this kind of machine, for choosing between the two ways: products a core makes in a second, and bytes it moves.
const PRODUCTS: f64 = 80e9;
const BYTES: f64 = 16e9;

/// What a layer has kept of a sample's views: values of the first, and numbers from one view to the next.
pub(crate) struct Views<'a> {
    pub(crate) count: usize,
    pub(crate) inputs: (&'a [f32], usize),
    /// Read only through weight standardisation.
    pub(crate) outputs: (&'a [f32], usize),
    pub(crate) gradients: (&'a [f32], usize),
}

/// Rows of a symmetric product that are made together, from the diagonal on: whole vectors of any machine.
const ROWS: usize = 16;

impl Gemm {
    /// Whether the norm is cheaper by inner products than by writing down one gradient per sample.
    pub(crate) fn prefers_ghost(&self, views: usize) -> bool {
        if self.groups != 1 || self.narrow {
            return false;
        }
        let (rows_in, rows_out) = ((self.rows_in * views) as f64, (self.rows_out * views) as f64);
        let spread =
            if self.taps.len() > 1 { 8.0 * self.taps.len() as f64 * rows_out * rows_out } else { 0.0 };
        let inner =
            2.0 * rows_in * rows_in * self.channels as f64 + 2.0 * rows_out * rows_out * self.out as f64;
        // Written once, read for the norm, read and added to a sum that is read and written.
        let moved = 16.0 * self.weight_len() as f64;
        (inner + spread) / PRODUCTS < moved / BYTES
    }

    /// Numbers of scratch that [`Gemm::ghost_norm`] needs.
    pub(crate) fn ghost_scratch(&self, lanes: Lanes, views: usize) -> usize {
        let rows_out = self.rows_out * views;
        let wide = lanes.padded(self.rows_in);
        let packed = (self.channels * wide).max(self.rows_out * lanes.padded(self.out));
        packed
            + self.rows_in * wide
            + rows_out * rows_out
            + rows_out * self.out
            + self.rows_in
            + self.rows_out
            + 3 * self.out
    }

    /// Squared norm of the parameter's gradient from a sample's views.
    pub(crate) fn ghost_norm(
        &self,
        lanes: Lanes,
        prepared: &Prepared,
        views: &Views<'_>,
        scratch: &mut [f32],
    ) -> f64 {
        let len_in = self.rows_in * self.channels;
        let len_out = self.rows_out * self.out;
        let count = views.count;
        let input = |view: usize| &views.inputs.0[view * views.inputs.1..][..len_in];
        let gradient = |view: usize| &views.gradients.0[view * views.gradients.1..][..len_out];
        if (count, self.rows_in, self.taps.len()) == (1, 1, 1) {
            return squared_norm(input(0)) * squared_norm(gradient(0));
        }
        let rows_out = self.rows_out * count;
        let wide = lanes.padded(self.rows_in);
        let packed_len = (self.channels * wide).max(self.rows_out * lanes.padded(self.out));
        let (packed, rest) = scratch.split_at_mut(packed_len);
        let (inputs, rest) = rest.split_at_mut(self.rows_in * wide);
        let (columns, rest) = rest.split_at_mut(rows_out * rows_out);
        let (products, rest) = rest.split_at_mut(rows_out * self.out);

        // columns[p, q] = col_p . col_q = sum over taps of inputs[source(p), source(q)], with inputs[i, j] = x_i . x_j. They are
        // symmetric: only pairs p <= q are made, and those with p < q counted twice.
        columns.fill(0.0);
        for second in 0..count {
            let plain = Lanes { panel: wide, ..lanes };
            pack(plain, (1, self.channels, self.rows_in), input(second), (0, 1, self.channels), packed);
            for first in 0..=second {
                let diagonal = first == second;
                for start in (0..self.rows_in).step_by(if diagonal { ROWS } else { self.rows_in }) {
                    let end = if diagonal { self.rows_in.min(start + ROWS) } else { self.rows_in };
                    RowProduct {
                        source: Rows {
                            data: input(first),
                            shape: RowShape { item: 0, row: self.channels, column: 0 },
                        },
                        inner: self.channels,
                        right: Right::Plain(&packed[start..self.channels * wide], wide),
                        taps: 1,
                        columns: wide - start,
                        start: Start::Zero,
                        classes: &self.identity_rows_in,
                        target: &mut inputs[start * wide..],
                        target_shape: RowShape { item: 0, row: wide, column: start },
                        rows: start as u32..end as u32,
                        items: 1,
                    }
                    .run();
                }
                let corner = first * self.rows_out * rows_out + second * self.rows_out;
                let (inputs, columns) = (&*inputs, &mut columns[corner..]);
                Arch::new().dispatch(
                    #[inline(always)]
                    || self.add_columns(inputs, wide, columns, rows_out, diagonal),
                );
            }
        }
        // products[p] = sum over q of columns[p, q] g_q
        for second in 0..count {
            let whole = self.out.is_multiple_of(lanes.lanes);
            if !whole {
                pack(lanes, (1, self.rows_out, self.out), gradient(second), (0, self.out, 1), packed);
            }
            for first in 0..=second {
                let step = if first == second && whole { ROWS } else { self.rows_out };
                for start in (0..self.rows_out).step_by(step) {
                    // Rows from `start` on have no columns before it.
                    RowProduct {
                        source: Rows {
                            data: &columns[first * self.rows_out * rows_out..],
                            shape: RowShape {
                                item: 0,
                                row: rows_out,
                                column: second * self.rows_out + start,
                            },
                        },
                        inner: self.rows_out - start,
                        right: match whole {
                            true => Right::Plain(&gradient(second)[start * self.out..], self.out),
                            false => Right::Packed(packed),
                        },
                        taps: 1,
                        columns: self.out,
                        start: if second == first { Start::Zero } else { Start::Existing },
                        classes: &self.identity_rows,
                        target: &mut products[first * len_out + start * self.out..],
                        target_shape: RowShape { item: 0, row: self.out, column: 0 },
                        rows: start as u32..self.rows_out.min(start + step) as u32,
                        items: 1,
                    }
                    .run();
                }
            }
        }
        if self.standardise.is_none() {
            let view = |view: usize| dot(&products[view * len_out..][..len_out], gradient(view));
            return (0..count).map(view).sum();
        }

        // Through the standardisation, each filter's gradient d becomes (d - mean d - hat mean(hat d)) / deviation.
        let (sums, rest) = rest.split_at_mut(self.rows_in);
        let (reached, rest) = rest.split_at_mut(self.rows_out);
        let (squares, rest) = rest.split_at_mut(self.out);
        let (totals, rest) = rest.split_at_mut(self.out);
        let along = &mut rest[..self.out];
        squares.fill(0.0);
        totals.fill(0.0);
        along.fill(0.0);
        for view in 0..count {
            Arch::new().dispatch(
                #[inline(always)]
                || row_sums(input(view), self.channels, sums),
            );
            reached.fill(0.0);
            for pair in self.taps.iter().flatten() {
                reached[pair.target as usize] += sums[pair.source as usize];
            }
            let rows = FilterRows {
                products: &products[view * len_out..][..len_out],
                g: gradient(view),
                y: &views.outputs.0[view * views.outputs.1..][..len_out],
                reached,
                bias: &prepared.bias,
                squares,
                totals,
                along,
            };
            Arch::new().dispatch(rows);
        }
        self.standardised_norm(prepared, squares, totals, along)
    }

    /// Adds, for the positions of two views, the inner products of their columns; above the diagonal only where the views are the same.
    #[inline(always)]
    fn add_columns(&self, inputs: &[f32], wide: usize, columns: &mut [f32], row: usize, diagonal: bool) {
        for (pairs, runs) in self.taps.iter().zip(&self.pair_runs) {
            for p in pairs {
                let from = &inputs[p.source as usize * wide..][..wide];
                let to = &mut columns[p.target as usize * row..][..self.rows_out];
                for (start, len) in runs {
                    let target = start.target as usize;
                    let skip = if diagonal { (p.target as usize).saturating_sub(target) } else { 0 };
                    if skip < *len {
                        let to = &mut to[target + skip..target + len];
                        let from = &from[start.source as usize + skip..][..to.len()];
                        to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
                    }
                }
            }
        }
        for (p, columns) in columns.chunks_mut(row).take(self.rows_out).enumerate() {
            let twice = if diagonal { p + 1 } else { 0 };
            columns[twice..self.rows_out].iter_mut().for_each(|column| *column *= 2.0);
        }
    }

    /// Squared norm through the standardisation, from each filter's sum of squares, sum, and sum along the standardised filter.
    pub(crate) fn standardised_norm(
        &self,
        prepared: &Prepared,
        squares: &[f32],
        totals: &[f32],
        along: &[f32],
    ) -> f64 {
        let n = (self.channels / self.groups * self.taps.len()) as f64;
        let terms = prepared.filters.iter().enumerate().map(|(o, &(inverse, hat))| {
            let (square, total, along) = (f64::from(squares[o]), f64::from(totals[o]), f64::from(along[o]));
            let norm = square - total * total / n - along * along * (2.0 / n - hat / (n * n));
            norm.max(0.0) * f64::from(inverse).powi(2)
        });
        terms.sum()
    }

    /// Squared norm of the parameter's gradient from a weight gradient in the stored order.
    pub(crate) fn stored_norm(&self, prepared: &Prepared, gradient: &[f32], scratch: &mut [f32]) -> f64 {
        if self.standardise.is_none() {
            return squared_norm(gradient);
        }
        let out = self.out / self.groups;
        let (squares, rest) = scratch.split_at_mut(self.out);
        let (totals, rest) = rest.split_at_mut(self.out);
        let along = &mut rest[..self.out];
        squares.fill(0.0);
        totals.fill(0.0);
        along.fill(0.0);
        let size = gradient.len() / self.groups;
        for group in 0..self.groups {
            let columns = group * out..(group + 1) * out;
            let sums = [&mut squares[columns.clone()], &mut totals[columns.clone()], &mut along[columns]];
            let (gradient, used) =
                (&gradient[group * size..][..size], &prepared.used[group * size..][..size]);
            Arch::new().dispatch(
                #[inline(always)]
                || column_sums(gradient, used, sums),
            );
        }
        self.standardised_norm(prepared, squares, totals, along)
    }
}

/// Sums per filter over the positions of one view: of squares, of the gradient itself, and along the filter.
struct FilterRows<'a> {
    /// Inner products of columns, applied to the output gradient.
    products: &'a [f32],
    g: &'a [f32],
    y: &'a [f32],
    /// Sum of the inputs that each position reads.
    reached: &'a [f32],
    bias: &'a [f32],
    squares: &'a mut [f32],
    totals: &'a mut [f32],
    along: &'a mut [f32],
}

impl WithSimd for FilterRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let out = self.squares.len();
        let (totals, along) = (&mut self.totals[..out], &mut self.along[..out]);
        for (position, &reached) in self.reached.iter().enumerate() {
            let row = position * out..(position + 1) * out;
            let (product, g, y) = (&self.products[row.clone()], &self.g[row.clone()], &self.y[row]);
            for o in 0..out {
                self.squares[o] += product[o] * g[o];
                totals[o] += reached * g[o];
                along[o] += g[o] * y[o];
            }
            // The filter's own part of the output is what is left without the bias.
            for (along, (g, bias)) in along.iter_mut().zip(g.iter().zip(self.bias)) {
                *along -= g * bias;
            }
        }
    }
}

/// Adds up, per column, the squares of `d`, `d` itself, and `d` times `used`: as many columns at a time as registers hold sums of.
#[inline(always)]
fn column_sums(d: &[f32], used: &[f32], [squares, totals, along]: [&mut [f32]; 3]) {
    let columns = squares.len();
    let mut first = 0;
    while first + WIDTH <= columns {
        let (mut square, mut total, mut product) = ([0.0f32; WIDTH], [0.0f32; WIDTH], [0.0f32; WIDTH]);
        for (d, used) in d.chunks_exact(columns).zip(used.chunks_exact(columns)) {
            let (Some(d), Some(used)) =
                (d[first..].first_chunk::<WIDTH>(), used[first..].first_chunk::<WIDTH>())
            else {
                break;
            };
            for o in 0..WIDTH {
                square[o] += d[o] * d[o];
                total[o] += d[o];
                product[o] += d[o] * used[o];
            }
        }
        squares[first..first + WIDTH].copy_from_slice(&square);
        totals[first..first + WIDTH].copy_from_slice(&total);
        along[first..first + WIDTH].copy_from_slice(&product);
        first += WIDTH;
    }
    for o in first..columns {
        for (d, used) in d[o..].iter().step_by(columns).zip(used[o..].iter().step_by(columns)) {
            squares[o] += d * d;
            totals[o] += d;
            along[o] += d * used;
        }
    }
}

/// The sum of every row, in sixteen sums that do not wait for each other.
#[inline(always)]
fn row_sums(rows: &[f32], len: usize, sums: &mut [f32]) {
    for (sum, row) in sums.iter_mut().zip(rows.chunks_exact(len)) {
        let mut lanes = [0.0f32; 16];
        let (chunks, rest) = row.as_chunks::<16>();
        for chunk in chunks {
            for (lane, value) in lanes.iter_mut().zip(chunk) {
                *lane += value;
            }
        }
        *sum = lanes.iter().sum::<f32>() + rest.iter().sum::<f32>();
    }
}

/// Columns summed together.
const WIDTH: usize = 64;

fn dot(a: &[f32], b: &[f32]) -> f64 {
    let mut total = 0.0f64;
    for (a, b) in a.chunks(1024).zip(b.chunks(1024)) {
        let mut lanes = [0.0f32; 16];
        let (a_chunks, a_rest) = a.as_chunks::<16>();
        let (b_chunks, b_rest) = b.as_chunks::<16>();
        for (a, b) in a_chunks.iter().zip(b_chunks) {
            for i in 0..16 {
                lanes[i] += a[i] * b[i];
            }
        }
        total += lanes.iter().map(|&lane| f64::from(lane)).sum::<f64>();
        total += a_rest.iter().zip(b_rest).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    }
    total
}
