//! Norms of weight gradients that are never written down.
//!
//! The gradient of a layer's weight is `d = sum over positions p of a_p g_p^T`, where `a_p` are the inputs that position `p` reads and `g_p`
//! is the gradient of its output. Its squared norm is `sum over p, q of (a_p . a_q)(g_p . g_q)` (Goodfellow 2015; Li et al. 2021), and the
//! sum of clipped gradients is one product over all positions of all samples. If positions are few and weights are many, this is far
//! cheaper than writing down one gradient for each sample.
//!
//! If positions or views nearly cancel, an error of the inner products is not a share of the norm but of
//! `S = sum over p of |a_p||g_p|`, which may be larger by any factor. So we compute an upper bound on the norm, in which every error counts:
//!
//! - Inner products are added in double precision, from exact products. A result of `n` operations in all is off by at most
//!   `gamma S^2` with `gamma = 16 n 2^-53`, because each operation errs by 2^-53 of the sum of the sizes of its terms, and
//!   `sum over p, q of |a_p||a_q||g_p||g_q| = S^2`. The factor sixteen covers the products of such errors, the terms of the means below,
//!   and the rounding of `S`.
//! - What is added to the sum is not `d` itself but the result of a chain of additions in single precision, which is off by at most
//!   `eta S` ([`Gemm::deferred_rounding`]).
//!
//! So `N = sqrt(max(0, computed) + gamma S^2) + eta S` bounds the norm of what is added, whatever the input. If the weight is
//! standardised, a filter's gradient is added less its mean and divided by the filter's deviation. Then the same holds with `g` divided by
//! these deviations, and `(d - m)^2 = d^2 - 2 m (sum of d) + n m^2` for any number `m`, where the sum of `d` is
//! `sum over p of (sum of a_p) g_p`.

use super::{Gemm, PreparedWeights};
use crate::cpu::kernel::{Gram, pitch, widen};
use crate::cpu::pointwise::{squared_norm, squared_norm_rounding};
use pulp::Arch;

/// Rough speeds of a core, for choosing between the two ways: how many products in double precision it makes in a second, and how many
/// bytes it moves.
const PRODUCTS: f64 = 40e9;
const BYTES: f64 = 16e9;

/// What a layer has kept of a sample's views: the values from the first view on, and the distance from one view to the next.
pub(crate) struct SampleViews<'a> {
    pub(crate) count: usize,
    pub(crate) inputs: (&'a [f32], usize),
    pub(crate) gradients: (&'a [f32], usize),
}

/// How much of a norm's scratch each of its parts takes.
struct Places {
    /// Rows of inputs or gradients in double precision.
    wide: usize,
    inputs: usize,
    columns: usize,
    gradients: usize,
    /// The sums of input rows, the sums of what positions read, and the sums of filters.
    sums: [usize; 3],
}

impl Gemm {
    /// Whether the norm is cheaper to get by inner products than by writing down one gradient for each sample.
    pub(crate) fn prefers_ghost(&self, views: usize) -> bool {
        if self.groups != 1 || self.narrow {
            return false;
        }
        let (rows_in, rows_out) = ((self.rows_in * views) as f64, (self.rows_out * views) as f64);
        let spread =
            if self.taps.len() > 1 { 8.0 * self.taps.len() as f64 * rows_out * rows_out } else { 0.0 };
        let inner = rows_in * rows_in * self.channels as f64 + rows_out * rows_out * self.out as f64;
        // A written gradient is read for the norm, and again to be added to a sum, which makes about sixteen bytes for each weight.
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

    /// How many numbers of scratch [`Gemm::ghost_norm`] needs.
    pub(crate) fn ghost_scratch(&self, views: usize) -> usize {
        let Places { wide, inputs, columns, gradients, sums } = self.places(views);
        wide + inputs + columns + gradients + sums.iter().sum::<usize>()
    }

    /// The squared norm of what a sample's views add to the sum of the parameter's gradients. If the weight is standardised, `means`
    /// receives what is to be taken off each filter's gradient.
    ///
    /// # Guarantee
    /// The result is never less than the squared norm of the values that [`Gemm::count_weight`] multiplies by the clipping factor and turns
    /// into whole numbers, and it is not finite if one of them is not.
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
            // With a single position, S is the norm itself.
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
            // The sums of the filters' gradients, each over its filter's deviation.
            totals.fill(0.0);
            for (&reached, row) in reached.iter().zip(wide.chunks_exact(out)) {
                totals.iter_mut().zip(row).for_each(|(total, g)| *total += reached * g);
            }
            square += self.without_means(prepared, totals, means);
        }
        // The additions of one inner product of each kind, of the taps, of all pairs and of the sums, and some more to be safe.
        let operations =
            self.channels + self.out + self.taps.len() + rows_out * (rows_out + 2 * self.taps.len()) + 32;
        let gamma = 8.0 * operations as f64 * f64::EPSILON;
        // A product that is too small for single precision loses at most 2^-149.
        let lost = (self.weight_len() as f64).sqrt() * 2f64.powi(-100);
        let norm =
            (positive(square) + gamma * sizes * sizes).sqrt() + self.deferred_rounding(count) * sizes + lost;
        norm * norm
    }

    /// Chooses what is taken off each filter's gradient, its mean in single precision, and returns by how much that changes the squared
    /// norm. `totals` are the sums of the filters' gradients, already over the deviations.
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

    /// Fills `columns[p, q] = a_p . a_q`, which is the sum over taps of `inputs[source(p), source(q)]`.
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

    /// Adds the inner products of the columns for all pairs of positions of two views.
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

    /// The squared norm of what a sample's written weight gradient, in the stored order, adds to the sum of the parameter's gradients. If
    /// the weight is standardised, `means` receives what is to be taken off each filter's gradient.
    ///
    /// # Guarantee
    /// The result is never less than the squared norm of the numbers that are multiplied by the clipping factor and turned into whole ones.
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
        // A sum of n terms is off by at most n 2^-53 of the sum of their sizes, and (sum of d)^2 <= n (sum of d^2).
        let n = self.channels / self.groups * self.taps.len();
        positive(square) + 8.0 * (n + 32) as f64 * f64::EPSILON * sizes + n as f64 * 2f64.powi(-140)
    }
}

/// The number itself, or zero if it is negative. What is not a number stays none; `f64::max` would turn it into a zero that passes for a
/// norm.
fn positive(value: f64) -> f64 {
    if value < 0.0 { 0.0 } else { value }
}

/// Adds up the squares of `d` and `d` itself for each column, as many columns at a time as registers can hold the sums of.
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

/// How many columns are summed together.
const WIDTH: usize = 32;
