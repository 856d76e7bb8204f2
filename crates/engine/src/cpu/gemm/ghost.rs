//! Norms of weight gradients that are never written down.
//!
//! The gradient of a layer's weight is `sum over positions p of col_p g_p^T`, with `col_p` the inputs that position `p` reads and `g_p`
//! the gradient of its output. Its squared norm is `sum over p, q of (col_p . col_q)(g_p . g_q)` (Goodfellow 2015; Li et al. 2021), and the
//! sum of clipped gradients is one product over all positions of all samples with the clipping factors folded into `g` (Bu et al. 2022).
//! Where positions are few and weights are many, this is far cheaper than one gradient per sample.

use super::{Gemm, Prepared};
use crate::cpu::kernel::{Lanes, Right, RowProduct, RowShape, Rows, Start, pack};
use crate::cpu::pointwise::squared_norm;
use pulp::{Simd, WithSimd};

/// Rough speeds of this kind of machine, for choosing between the two ways: products a core makes in a second, and bytes it moves.
const PRODUCTS: f64 = 80e9;
const BYTES: f64 = 16e9;

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
        let (rows_in, rows_out) = (self.rows_in * views, self.rows_out * views);
        let packed = (self.channels * lanes.padded(self.rows_in)).max(self.rows_out * lanes.padded(self.out));
        packed
            + rows_in * rows_in
            + rows_out * rows_out
            + rows_out * self.out
            + self.rows_in
            + self.rows_out
            + 3 * self.out
    }

    /// Squared norm of the parameter's gradient from the inputs, outputs and output gradients of a sample's views.
    pub(crate) fn ghost_norm(
        &self,
        lanes: Lanes,
        prepared: &Prepared,
        views: &[(&[f32], &[f32])],
        outputs: &[&[f32]],
        scratch: &mut [f32],
    ) -> f64 {
        let len_in = self.rows_in * self.channels;
        let len_out = self.rows_out * self.out;
        if let ([(x, g)], 1, 1) = (views, self.rows_in, self.taps.len()) {
            return squared_norm(&x[..len_in]) * squared_norm(&g[..len_out]);
        }
        let (rows_in, rows_out) = (self.rows_in * views.len(), self.rows_out * views.len());
        let packed_len =
            (self.channels * lanes.padded(self.rows_in)).max(self.rows_out * lanes.padded(self.out));
        let (packed, rest) = scratch.split_at_mut(packed_len);
        let (inputs, rest) = rest.split_at_mut(rows_in * rows_in);
        let (columns, rest) = rest.split_at_mut(rows_out * rows_out);
        let (products, rest) = rest.split_at_mut(rows_out * self.out);

        // inputs[i, j] = x_i . x_j
        for (second, (right, _)) in views.iter().enumerate() {
            pack(lanes, (1, self.channels, self.rows_in), &right[..len_in], (0, 1, self.channels), packed);
            for (first, (left, _)) in views.iter().enumerate() {
                RowProduct {
                    source: Rows { data: left, shape: RowShape { item: 0, row: self.channels, column: 0 } },
                    inner: self.channels,
                    right: Right::Packed(packed),
                    taps: 1,
                    columns: self.rows_in,
                    start: Start::Zero,
                    classes: &self.identity_rows_in,
                    target: &mut inputs[first * self.rows_in * rows_in..],
                    target_shape: RowShape { item: 0, row: rows_in, column: second * self.rows_in },
                    rows: 0..self.rows_in as u32,
                    items: 1,
                }
                .run();
            }
        }
        // columns[p, q] = col_p . col_q = sum over taps of inputs[source(p), source(q)]
        columns.fill(0.0);
        for first in 0..views.len() {
            for second in 0..views.len() {
                for (pairs, runs) in self.taps.iter().zip(&self.pair_runs) {
                    for p in pairs {
                        let from =
                            (first * self.rows_in + p.source as usize) * rows_in + second * self.rows_in;
                        let to =
                            (first * self.rows_out + p.target as usize) * rows_out + second * self.rows_out;
                        let (from, to) =
                            (&inputs[from..][..self.rows_in], &mut columns[to..][..self.rows_out]);
                        for (start, len) in runs {
                            let to = &mut to[start.target as usize..][..*len];
                            let from = &from[start.source as usize..][..*len];
                            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
                        }
                    }
                }
            }
        }
        // products[p] = sum over q of columns[p, q] g_q
        for (second, (_, g)) in views.iter().enumerate() {
            let right = if self.out.is_multiple_of(lanes.lanes) {
                Right::Plain(g, self.out)
            } else {
                pack(lanes, (1, self.rows_out, self.out), &g[..len_out], (0, self.out, 1), packed);
                Right::Packed(packed)
            };
            for first in 0..views.len() {
                RowProduct {
                    source: Rows {
                        data: &columns[first * self.rows_out * rows_out..],
                        shape: RowShape { item: 0, row: rows_out, column: second * self.rows_out },
                    },
                    inner: self.rows_out,
                    right,
                    taps: 1,
                    columns: self.out,
                    start: if second == 0 { Start::Zero } else { Start::Existing },
                    classes: &self.identity_rows,
                    target: &mut products[first * len_out..],
                    target_shape: RowShape { item: 0, row: self.out, column: 0 },
                    rows: 0..self.rows_out as u32,
                    items: 1,
                }
                .run();
            }
        }
        if self.standardise.is_none() {
            let view = |(index, (_, g)): (usize, &(&[f32], &[f32]))| {
                dot(&products[index * len_out..][..len_out], &g[..len_out])
            };
            return views.iter().enumerate().map(view).sum();
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
        for (view, (x, g)) in views.iter().enumerate() {
            for (sum, row) in sums.iter_mut().zip(x[..len_in].chunks_exact(self.channels)) {
                *sum = row.iter().sum();
            }
            reached.fill(0.0);
            for pair in self.taps.iter().flatten() {
                reached[pair.target as usize] += sums[pair.source as usize];
            }
            let rows = FilterRows {
                products: &products[view * len_out..][..len_out],
                g: &g[..len_out],
                y: &outputs[view][..len_out],
                reached,
                bias: &prepared.bias,
                squares,
                totals,
                along,
            };
            pulp::Arch::new().dispatch(rows);
        }
        self.standardised_norm(prepared, squares, totals, along)
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
            pulp::Arch::new().dispatch(
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

/// Adds up, per column, the squares of `d`, `d` itself, and `d` times `used`.
#[inline(always)]
fn column_sums(d: &[f32], used: &[f32], [squares, totals, along]: [&mut [f32]; 3]) {
    let columns = squares.len();
    let (totals, along) = (&mut totals[..columns], &mut along[..columns]);
    for (d, used) in d.chunks_exact(columns).zip(used.chunks_exact(columns)) {
        for o in 0..columns {
            squares[o] += d[o] * d[o];
            totals[o] += d[o];
            along[o] += d[o] * used[o];
        }
    }
}

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
