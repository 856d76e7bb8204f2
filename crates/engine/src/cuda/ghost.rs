//! Norms of weight gradients that are never written down, as upper bounds.
//!
//! The gradient of a layer's weight is `d = sum over positions p of a_p g_p^T`, with `a_p` the inputs that position `p` reads and `g_p` the
//! gradient of its output. Its squared norm is `sum over p, q of (a_p . a_q)(g_p . g_q)` (Goodfellow 2015; Li et al. 2021). Where positions or
//! views nearly cancel, an error of the inner products is not a share of the norm but of `S = sum over p of |a_p||g_p|`, which may be larger
//! by any factor. So the norm is taken as `N = sqrt(max(0, computed) + gamma S^2) + eta S`:
//!
//! - Inner products are made in double precision, of exact products. A result of `n` operations in all is off by at most `gamma S^2`,
//!   `gamma = 16 n 2^-53`: each errs by 2^-53 of the sum of the sizes of its terms, and the sizes of all add up to `S^2`.
//! - What is added is not `d` but what the sum's kernel makes of the same numbers, off by at most `eta S`:
//!   - Linear layers add up in a chain of fused additions in single precision: 2^-24 for each row, twice for safety.
//!   - Convolutions multiply on the tensor cores ([`Precision`]). In F32 factors are split into 11 bits and a rest that is cut to 11 bits, which
//!     loses 2^-20 of a product; in TF32 both factors are cut to 11 bits, which loses 2^-9; in bf16 both are rounded to 8 bits, 2^-8. Then
//!     eight products at a time are added to the sum, three times where factors are split, and what does not fit 24 bits is cut off.
//!     **How tensor cores add is not documented.** `(positions + 8) 2^-20` is the stated assumption: five times what follows if each of
//!     the nine terms of an addition is cut off behind the 24th bit of the largest.
//!
//! With a weight that is standardised, a filter's gradient is added less its mean and times one over the filter's deviation: the same holds
//! with `g` times those factors, and `(d - m)^2 = d^2 - 2 m (sum of d) + n m^2` for any number `m`.

use super::device::{Grid, Pointer, arguments};
use super::error::CudaError;
use super::kind::Conv;
use super::options::Precision;
use super::run::Run;
use crate::layout::Layout;

/// Inner products are made in tiles of as many rows and columns, as their kernel has it.
const TILE: usize = 64;

/// What a bound is raised by: a share of `S^2` for the inner products, one of `S` for the sum's own rounding, and what products too small
/// for single precision lose, 2^-149 each.
struct Errors {
    gamma: f64,
    eta: f64,
    lost: f64,
}

impl Errors {
    fn new(operations: usize, eta: f64, weights: usize) -> Self {
        let gamma = 8.0 * (operations + 32) as f64 * f64::EPSILON;
        Self { gamma, eta, lost: (weights as f64).sqrt() * 2f64.powi(-100) }
    }
}

/// `eta` of a linear layer's sum over so many rows.
fn chained(rows: usize) -> f64 {
    2.0 * rows as f64 * 2f64.powi(-24)
}

/// `eta` of a convolution's sum over so many positions.
fn multiplied(precision: Precision, positions: usize) -> f64 {
    let factors = match precision {
        Precision::F32 => 0.0,
        Precision::Tf32 => 2f64.powi(-9),
        Precision::Bf16 => 2f64.powi(-7),
    };
    factors + (positions + 8) as f64 * 2f64.powi(-20)
}

/// The rows of a Gram matrix: where a sample's first lies, values of each, numbers from row to row and from value to value.
struct Rows {
    start: Pointer,
    count: usize,
    inner: usize,
    steps: (usize, usize),
}

impl Run<'_> {
    /// A bound on the norm of a linear layer's weight gradient over so many rows of `x` and of `g`.
    ///
    /// # Guarantee
    /// Never less than the norm of what [`Run::linear_sum`] turns into whole numbers, divided by the factor; not finite if one of them is
    /// not.
    pub(super) fn linear_norm(
        &self,
        rows: usize,
        (x, features): (Pointer, usize),
        (g, out): (Pointer, usize),
        partials: Pointer,
    ) -> Result<(), CudaError> {
        let (device, samples, stride) = (self.device, self.samples, self.program.partials);
        let errors = Errors::new(features + out + rows * (rows + 2), chained(rows), features * out);
        if rows == 1 {
            let Errors { gamma, eta, lost } = errors;
            let list = arguments![x, g, features, out, gamma, eta, lost, partials, stride];
            return device.launch("outer_norm", Grid::blocks(samples, 128), list);
        }
        let of = |start, inner| Rows { start, count: rows, inner, steps: (inner, 1) };
        self.ghost_norm((of(x, features), of(g, out)), None, errors, (partials, self.work.workspace))
    }

    /// A bound on the norm of a convolution's weight gradient.
    ///
    /// # Guarantee
    /// Never less than the norm of what [`Run::convolution_sum`] turns into whole numbers, divided by the factor, if tensor cores round as
    /// assumed; not finite if one of them is not.
    pub(super) fn convolution_norm(
        &self,
        conv: &Conv,
        x: Pointer,
        g: Pointer,
        layout: &Layout,
    ) -> Result<(), CudaError> {
        let (geometry, _) = conv.deferred();
        let (x, workspace) = self.read_positions(conv, x)?;
        let (inside, outside, taps) = (geometry.positions_in(), geometry.positions(), geometry.taps());
        let operations = geometry.channels + geometry.out + taps + outside * (outside + 2 * taps);
        let eta = multiplied(self.device.precision, outside);
        let errors = Errors::new(operations, eta, geometry.weight_len());
        let of = |start, count: usize, inner| Rows { start, count, inner, steps: (1, count) };
        let rows = (of(x, inside, geometry.channels), of(g, outside, geometry.out));
        self.ghost_norm(rows, Some((conv, layout)), errors, (self.partials(layout, conv.weight), workspace))
    }

    /// The input of a deferred convolution, and the workspace that is left: where positions are passed by, those that are read lie there.
    pub(super) fn read_positions(&self, conv: &Conv, x: Pointer) -> Result<(Pointer, Pointer), CudaError> {
        let (workspace, n) = (self.work.workspace, self.samples * conv.read_len());
        if n == 0 {
            return Ok((x, workspace));
        }
        let list = arguments![x, workspace, self.model.tables.at(conv.windows.0), n];
        self.device.launch("average_pool", Grid::each(n), list)?;
        Ok((workspace, workspace.at(n.next_multiple_of(2))))
    }

    fn ghost_norm(
        &self,
        (x, g): (Rows, Rows),
        conv: Option<(&Conv, &Layout)>,
        Errors { gamma, eta, lost }: Errors,
        (partials, inputs): (Pointer, Pointer),
    ) -> Result<(), CudaError> {
        let (device, samples) = (self.device, self.samples);
        let gradients = inputs.at(2 * samples * x.count * x.count);
        let used = conv.and_then(|(conv, _)| conv.used);
        let inverses = used.map_or(Pointer::NULL, |(_, start)| self.model.inverses.at(start));
        let tiles = x.count.max(g.count).div_ceil(TILE);
        for (kernel, blocks) in [("gram", tiles), ("gram_pairs", tiles * (tiles - 1) / 2)] {
            if blocks == 0 {
                continue;
            }
            let list = arguments![
                x.start, x.count, x.inner, x.steps.0, x.steps.1, g.start, inverses, g.count, g.inner,
                g.steps.0, g.steps.1, inputs, gradients,
            ];
            let blocks = (blocks as u32, samples as u32, 2);
            device.launch(kernel, Grid { blocks, threads: 256, shared: 0 }, list)?;
        }
        let sources = conv.map_or(Pointer::NULL, |(conv, _)| self.table(conv.sources));
        let taps = conv.map_or(1, |(conv, _)| conv.deferred().0.taps());
        let means = conv.map_or(Pointer::NULL, |(conv, layout)| self.means(layout, conv.weight));
        let shared = if used.is_some() { 8 * (x.count + g.count) } else { 0 };
        device.launch(
            "ghost_norm",
            Grid { shared: shared as u32, ..Grid::blocks(samples, 1024) },
            arguments![
                inputs,
                gradients,
                sources,
                x.count,
                g.count,
                taps,
                x.start,
                g.start,
                inverses,
                x.inner,
                g.inner,
                means,
                self.program.means,
                gamma,
                eta,
                lost,
                partials,
                self.program.partials,
            ],
        )
    }
}
