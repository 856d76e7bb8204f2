//! Norms of weight gradients that are never written down.
//!
//! The gradient of a layer's weight is `d = sum over positions p of a_p g_p^T`, with `a_p` the inputs that position `p` reads and `g_p`
//! the gradient of its output. Its squared norm is `sum over p, q of (a_p . a_q)(g_p . g_q)` (Goodfellow 2015; Li et al. 2021), and the
//! sum of clipped gradients is one product over all positions of all samples. Where positions are few and weights are many, this is far
//! cheaper than one gradient per sample.
//!
//! Where positions or views nearly cancel, an error of the inner products is not a share of the norm but of
//! `S = sum over p of |a_p||g_p|`, which may be larger by any factor. So the norm is taken as an upper bound, with every error counted:
//!
//! - Inner products are made in double precision, of exact products. A result of `n` operations in all is off by at most
//!   `gamma S^2`, `gamma = 16 n 2^-53`: each operation errs by 2^-53 of the sum of the sizes of its terms, and
//!   `|sum over p, q of |a_p||a_q||g_p||g_q|| = S^2`. (Sixteen times, which covers the
//!   products of such errors, the terms of the means below, and the rounding of `S`.)
//! - What is added to the sum is not `d` but a chain of additions in single precision, off by at most `eta S`
//!   ([`Gemm::deferred_rounding`]).
//!
//! So `N = sqrt(max(0, computed) + gamma S^2) + eta S` bounds the norm of what is added, whatever the input. With a weight that is
//! standardised, a filter's gradient is added less its mean and times one over the filter's deviation: the same holds with `g` times those
//! factors, and `(d - m)^2 = d^2 - 2 m (sum of d) + n m^2` for any number `m`, the sum being `sum over p of (sum of a_p) g_p`.

use super::{Gemm, PreparedWeights};
use crate::cpu::kernel::{Gram, pitch, widen};
use crate::cpu::pointwise::{squared_norm, squared_norm_rounding};
use pulp::Arch;

/// Rough speeds of this kind of machine, for choosing between the two ways: products in double precision that a core makes in a second,
/// and bytes it moves.
const PRODUCTS: f64 = 40e9;
const BYTES: f64 = 16e9;

/// What a layer has kept of a sample's views: values of the first, and numbers from one view to the next.
pub(crate) struct SampleViews<'a> {
    pub(crate) count: usize,
    pub(crate) inputs: (&'a [f32], usize),
    pub(crate) gradients: (&'a [f32], usize),
}

/// Places in the scratch of a norm.
struct Places {
    /// Rows of inputs or gradients in double precision.
    wide: usize,
    inputs: usize,
    columns: usize,
    gradients: usize,
    /// Sums of input rows, of what positions read, of filters.
    sums: [usize; 3],
}

impl Gemm {
    /// Whether the norm is cheaper by inner products than by writing down one gradient per sample.
    pub(crate) fn prefers_ghost(&self, views: usize) -> bool {
        if self.groups != 1 || self.narrow {
            return false;
        }
        let (rows_in, rows_out) = ((self.rows_in * views) as f64, (self.rows_out * views) as f64);
        let spread =
            if self.taps.len() > 1 { 8.0 * self.taps.len() as f64 * rows_out * rows_out } else { 0.0 };
        let inner = rows_in * rows_in * self.channels as f64 + rows_out * rows_out * self.out as f64;
        // Written once, read for the norm, read and added to a sum that is read and written.
        let moved = 16.0 * self.weight_len() as f64;
        (inner + spread) / PRODUCTS < moved / BYTES
    }

    fn places(&self, views: usize) -> Places {
        let (rows_in, rows_out) = (self.rows_in * views, self.rows_out * views);
        Places {
            wide: (rows_in * pitch(self.channels)).max(rows_out * pitch(self.out)),
            inputs: rows_in * rows_in,
            columns: rows_out * rows_out,
            gradients: rows_out * rows_out,
            sums: [rows_in, rows_out, self.out],
        }
    }

    /// Numbers of scratch that [`Gemm::ghost_norm`] needs.
    pub(crate) fn ghost_scratch(&self, views: usize) -> usize {
        let Places { wide, inputs, columns, gradients, sums } = self.places(views);
        wide + inputs + columns + gradients + sums.iter().sum::<usize>()
    }

    /// Squared norm of what a sample's views add to the sum of the parameter's gradients. Where the weight is standardised, `means` gets
    /// what is to be taken off each filter's gradient.
    ///
    /// # Guarantee
    /// Never less than the squared norm of the values that [`Gemm::count_weight`] turns into whole numbers, divided by the factor; not
    /// finite if one of them is not.
    pub(crate) fn ghost_norm(
        &self,
        prepared: &PreparedWeights,
        views: &SampleViews<'_>,
        means: &mut [f32],
        scratch: &mut [f64],
    ) -> f64 {
        let len_in = self.rows_in * self.channels;
        let len_out = self.rows_out * self.out;
        let count = views.count;
        let input = |view: usize| &views.inputs.0[view * views.inputs.1..][..len_in];
        let gradient = |view: usize| &views.gradients.0[view * views.gradients.1..][..len_out];
        let standardised = self.standardise.is_some();
        if (count, self.rows_in, self.rows_out, self.taps.len(), standardised) == (1, 1, 1, 1, false) {
            // One position: S is the norm itself.
            let square = |values: &[f32]| squared_norm_rounding(values.len(), squared_norm(values));
            return square(input(0)) * square(gradient(0)) * (1.0 + 3.0 * self.deferred_rounding(1));
        }
        let places = self.places(count);
        let (rows_in, rows_out) = (self.rows_in * count, self.rows_out * count);
        let (wide, rest) = scratch.split_at_mut(places.wide);
        let (inputs, rest) = rest.split_at_mut(places.inputs);
        let (columns, rest) = rest.split_at_mut(places.columns);
        let (gradients, rest) = rest.split_at_mut(places.gradients);
        let (row_sums, rest) = rest.split_at_mut(places.sums[0]);
        let (reached, rest) = rest.split_at_mut(places.sums[1]);
        let totals = &mut rest[..places.sums[2]];

        let channels = pitch(self.channels);
        for (view, wide) in wide.chunks_mut(self.rows_in * channels).take(count).enumerate() {
            widen(input(view), self.channels, None, wide);
        }
        if standardised {
            for (sum, row) in row_sums.iter_mut().zip(wide.chunks_exact(channels)) {
                *sum = row.iter().sum();
            }
        }
        Gram { rows: wide, count: rows_in, pitch: channels, out: inputs }.run();
        self.column_products(count, inputs, columns);
        let out = pitch(self.out);
        let factors = standardised.then_some(&prepared.inverses[..]);
        for (view, wide) in wide.chunks_mut(self.rows_out * out).take(count).enumerate() {
            widen(gradient(view), self.out, factors, wide);
        }
        Gram { rows: wide, count: rows_out, pitch: out, out: gradients }.run();

        let mut square: f64 = columns.iter().zip(&*gradients).map(|(a, g)| a * g).sum();
        let of = |position: usize| columns[position * (rows_out + 1)] * gradients[position * (rows_out + 1)];
        let sizes: f64 = (0..rows_out).map(|position| positive(of(position)).sqrt()).sum();
        if standardised {
            reached.fill(0.0);
            for (view, reached) in reached.chunks_exact_mut(self.rows_out).enumerate() {
                for pair in self.taps.iter().flatten() {
                    reached[pair.target as usize] += row_sums[view * self.rows_in + pair.source as usize];
                }
            }
            // Sums of the filters' gradients, times their factors.
            totals.fill(0.0);
            for (&reached, row) in reached.iter().zip(wide.chunks_exact(out)) {
                totals.iter_mut().zip(row).for_each(|(total, g)| *total += reached * g);
            }
            square += self.without_means(prepared, totals, means);
        }
        // Additions of one inner product of each kind, of the taps, of all pairs, of the sums, and some more.
        let operations =
            self.channels + self.out + self.taps.len() + rows_out * (rows_out + 2 * self.taps.len()) + 32;
        let gamma = 8.0 * operations as f64 * f64::EPSILON;
        // Products below what single precision can hold are lost by 2^-149 each.
        let lost = (self.weight_len() as f64).sqrt() * 2f64.powi(-100);
        let norm =
            (positive(square) + gamma * sizes * sizes).sqrt() + self.deferred_rounding(count) * sizes + lost;
        norm * norm
    }

    /// Chooses what is taken off each filter, the mean in single precision, from sums that already have the filters' factors; what that
    /// changes the squared norm by.
    fn without_means(&self, prepared: &PreparedWeights, totals: &[f64], means: &mut [f32]) -> f64 {
        let n = (self.channels / self.groups * self.taps.len()) as f64;
        let mut change = 0.0;
        for ((mean, &total), &inverse) in means.iter_mut().zip(totals).zip(&prepared.inverses) {
            let inverse = f64::from(inverse);
            *mean = (total / (n * inverse)) as f32;
            let off = f64::from(*mean) * inverse;
            change += off * (n * off - 2.0 * total);
        }
        change
    }

    /// `columns[p, q] = a_p . a_q`, the sum over taps of `inputs[source(p), source(q)]`.
    fn column_products(&self, views: usize, inputs: &[f64], columns: &mut [f64]) {
        let (rows_in, rows_out) = (self.rows_in * views, self.rows_out * views);
        columns.fill(0.0);
        for first in 0..views {
            for second in 0..views {
                let from = &inputs[first * self.rows_in * rows_in + second * self.rows_in..];
                let to = &mut columns[first * self.rows_out * rows_out + second * self.rows_out..];
                Arch::new().dispatch(
                    #[inline(always)]
                    || self.add_columns(from, rows_in, to, rows_out),
                );
            }
        }
    }

    /// Adds, for the positions of two views, the inner products of their columns.
    #[inline(always)]
    fn add_columns(&self, inputs: &[f64], wide: usize, columns: &mut [f64], row: usize) {
        for (pairs, runs) in self.taps.iter().zip(&self.pair_runs) {
            for p in pairs {
                let from = &inputs[p.source as usize * wide..][..self.rows_in];
                let to = &mut columns[p.target as usize * row..][..self.rows_out];
                for (start, len) in runs {
                    let to = &mut to[start.target as usize..][..*len];
                    let from = &from[start.source as usize..][..*len];
                    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
                }
            }
        }
    }

    /// Squared norm of what a sample's written weight gradient, in the stored order, adds to the sum of the parameter's gradients. Where the
    /// weight is standardised, `means` gets what is to be taken off each filter's gradient.
    ///
    /// # Guarantee
    /// Never less than the squared norm of the numbers that are turned into whole ones, divided by the factor.
    pub(crate) fn stored_norm(
        &self,
        prepared: &PreparedWeights,
        gradient: &[f32],
        means: &mut [f32],
        scratch: &mut [f64],
    ) -> f64 {
        if self.standardise.is_none() {
            return squared_norm_rounding(gradient.len(), squared_norm(gradient));
        }
        let out = self.out / self.groups;
        let (squares, rest) = scratch.split_at_mut(self.out);
        let totals = &mut rest[..self.out];
        squares.fill(0.0);
        totals.fill(0.0);
        let size = gradient.len() / self.groups;
        for (group, gradient) in gradient.chunks_exact(size).enumerate() {
            let columns = group * out..(group + 1) * out;
            let (squares, totals) = (&mut squares[columns.clone()], &mut totals[columns]);
            Arch::new().dispatch(
                #[inline(always)]
                || column_sums(gradient, squares, totals),
            );
        }
        for ((total, square), &inverse) in totals.iter_mut().zip(&mut *squares).zip(&prepared.inverses) {
            *total *= f64::from(inverse);
            *square *= f64::from(inverse).powi(2);
        }
        let sizes: f64 = squares.iter().sum();
        let square = sizes + self.without_means(prepared, totals, means);
        // Each sum is off by 2^-53 of its terms for each of them, and (sum of d)^2 <= n (sum of d^2).
        let n = self.channels / self.groups * self.taps.len();
        positive(square) + 8.0 * (n + 32) as f64 * f64::EPSILON * sizes + n as f64 * 2f64.powi(-140)
    }
}

/// A number, or zero if it is below; what is no number stays none, so that nobody takes it for a norm, which `f64::max` would allow.
fn positive(value: f64) -> f64 {
    if value < 0.0 { 0.0 } else { value }
}

/// Adds up, per column, the squares of `d` and `d` itself: as many columns at a time as registers hold sums of.
#[inline(always)]
fn column_sums(d: &[f32], squares: &mut [f64], totals: &mut [f64]) {
    let columns = squares.len();
    let mut first = 0;
    while first + WIDTH <= columns {
        let (mut square, mut total) = ([0.0f64; WIDTH], [0.0f64; WIDTH]);
        for d in d.chunks_exact(columns) {
            let Some(d) = d[first..].first_chunk::<WIDTH>() else { break };
            for o in 0..WIDTH {
                let d = f64::from(d[o]);
                square[o] += d * d;
                total[o] += d;
            }
        }
        squares[first..first + WIDTH].copy_from_slice(&square);
        totals[first..first + WIDTH].copy_from_slice(&total);
        first += WIDTH;
    }
    for o in first..columns {
        for d in d[o..].iter().step_by(columns) {
            squares[o] += f64::from(*d) * f64::from(*d);
            totals[o] += f64::from(*d);
        }
    }
}

/// Columns summed together.
const WIDTH: usize = 32;
