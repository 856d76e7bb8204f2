//! Norms of weight gradients that are never written down, as upper bounds.
//!
//! The gradient of a layer's weight is `d = sum over positions p of a_p g_p^T`, where `a_p` are the inputs that position `p` reads and `g_p`
//! is the gradient of its output. Its squared norm is `sum over p, q of (a_p . a_q)(g_p . g_q)` (Goodfellow 2015; Li et al. 2021). If
//! positions or views nearly cancel, an error of the inner products is not a share of the norm but of `S = sum over p of |a_p||g_p|`, which
//! may be larger by any factor. So we take `N = sqrt(max(0, computed) + gamma S^2) + eta S` as the norm, in which every error counts:
//!
//! - Inner products are added in double precision, from exact products. A result of `n` operations in all is off by at most `gamma S^2` with
//!   `gamma = 16 n 2^-53`, because each operation errs by 2^-53 of the sum of the sizes of its terms, and all sizes add up to `S^2`.
//! - What is added to the sum is not `d` itself but what the sum's kernel makes of the same numbers, which is off by at most `eta S`:
//!   - Linear layers add in a chain of fused additions in single precision, which err by 2^-24 for each row. That is doubled for safety.
//!   - Convolutions multiply on the tensor cores ([`Precision`]). In F32 factors are split into 11 bits and a rest that is cut to 11 bits,
//!     which loses 2^-20 of a product; in TF32 both factors are cut to 11 bits, which loses 2^-9; in bf16 both are rounded to 8 bits, which
//!     loses 2^-7. Then eight products at a time are added to the sum, three times if factors are split, and what does not fit 24 bits is
//!     cut off. **How tensor cores add is not documented.** The stated assumption is `(positions + 8) 2^-20`, which includes the loss of
//!     F32's factors and is five times what follows if each of the nine terms of an addition is cut off after the 24th bit of the largest.
//!
//! If the weight is standardised, a filter's gradient is added less its mean and divided by the filter's deviation. Then the same holds with
//! `g` divided by these deviations, and `(d - m)^2 = d^2 - 2 m (sum of d) + n m^2` for any number `m`.

use super::error::CudaError;
use super::kernels::{AveragePool, GhostNorm, Gram, OuterNorm};
use super::launch::LaunchGrid;
use super::options::Precision;
use super::run::CardRun;
use super::slice::DeviceSlice;
use crate::layout::Layout;
use crate::op::conv::CudaConvKernel;

/// How many rows and columns a tile of inner products has, the same as in its kernel.
const TILE: usize = 64;

/// What a bound is raised by: a share of `S^2` for the inner products, a share of `S` for the sum's own rounding, and what is lost by
/// products that are too small for single precision, 2^-149 each.
struct NormErrors {
    gamma: f64,
    eta: f64,
    lost: f64,
}

impl NormErrors {
    fn new(operations: usize, eta: f64, weights: usize) -> Self {
        let gamma = 8.0 * (operations + 32) as f64 * f64::EPSILON;
        Self { gamma, eta, lost: (weights as f64).sqrt() * 2f64.powi(-100) }
    }
}

/// The `eta` of a linear layer's sum over this many rows.
fn chained(rows: usize) -> f64 {
    2.0 * rows as f64 * 2f64.powi(-24)
}

/// The `eta` of a convolution's sum over this many positions.
fn multiplied(precision: Precision, positions: usize) -> f64 {
    let factors = match precision {
        Precision::F32 => 0.0,
        Precision::Tf32 => 2f64.powi(-9),
        Precision::Bf16 => 2f64.powi(-7),
    };
    factors + (positions + 8) as f64 * 2f64.powi(-20)
}

/// The rows of a Gram matrix: where those of the first sample begin, how many there are, how many values each has, and the distances from
/// row to row and from value to value.
struct GramRows<'r> {
    start: DeviceSlice<'r, f32>,
    count: usize,
    inner: usize,
    steps: (usize, usize),
}

impl CardRun<'_> {
    /// Computes a bound on the squared norm of a linear layer's weight gradient over `rows` rows of `x` and of `g`.
    ///
    /// # Guarantee
    /// The bound is never less than the squared norm of the values that [`CardRun::linear_sum`] multiplies by the clipping factor and turns
    /// into whole numbers, and it is not finite if one of them is not.
    pub(crate) fn linear_norm(
        &self,
        rows: usize,
        (x, features): (DeviceSlice<'_, f32>, usize),
        (g, out): (DeviceSlice<'_, f32>, usize),
        partials: DeviceSlice<'_, f64>,
    ) -> Result<(), CudaError> {
        let (samples, partial_stride) = (self.samples, self.program.partials);
        let errors = NormErrors::new(features + out + rows * (rows + 2), chained(rows), features * out);
        if rows == 1 {
            let NormErrors { gamma, eta, lost } = errors;
            return OuterNorm { samples, x, g, features, out, gamma, eta, lost, partials, partial_stride }
                .launch(self.device);
        }
        let x = GramRows { start: x, count: rows, inner: features, steps: (features, 1) };
        let g = GramRows { start: g, count: rows, inner: out, steps: (out, 1) };
        self.ghost_norm((x, g), None, errors, (partials, self.work.workspace()))
    }

    /// Computes a bound on the squared norm of a convolution's weight gradient.
    ///
    /// # Guarantee
    /// If tensor cores round as assumed, the bound is never less than the squared norm of the values that [`CardRun::convolution_sum`]
    /// multiplies by the clipping factor and turns into whole numbers. It is not finite if one of them is not.
    pub(crate) fn convolution_norm(
        &self,
        conv: &CudaConvKernel,
        x: DeviceSlice<'_, f32>,
        g: DeviceSlice<'_, f32>,
        layout: &Layout,
    ) -> Result<(), CudaError> {
        let (geometry, _) = conv.deferred();
        let (x, workspace) = self.read_positions(conv, x)?;
        let (inside, outside, taps) = (geometry.positions_in(), geometry.positions(), geometry.taps());
        let operations = geometry.channels + geometry.out + taps + outside * (outside + 2 * taps);
        let eta = multiplied(self.device.precision, outside);
        let errors = NormErrors::new(operations, eta, geometry.weight_len());
        let x = GramRows { start: x, count: inside, inner: geometry.channels, steps: (1, inside) };
        let g = GramRows { start: g, count: outside, inner: geometry.out, steps: (1, outside) };
        self.ghost_norm((x, g), Some((conv, layout)), errors, (self.partials(layout, conv.weight), workspace))
    }

    /// The input of a deferred convolution, and the workspace that is left. If the convolution skips positions, those that it reads are
    /// gathered at the front of the workspace.
    pub(crate) fn read_positions<'x>(
        &'x self,
        conv: &CudaConvKernel,
        x: DeviceSlice<'x, f32>,
    ) -> Result<(DeviceSlice<'x, f32>, DeviceSlice<'x, f32>), CudaError> {
        let (workspace, n) = (self.work.workspace(), self.samples * conv.read_len());
        if n == 0 {
            return Ok((x, workspace));
        }
        let read = AveragePool { x, y: workspace, table: self.table(conv.windows.0), n };
        // SAFETY: the table is of the convolution's own window, which reads one position of its input for each of its output.
        unsafe { read.launch(self.device)? };
        Ok((workspace, workspace.after(n.next_multiple_of(2))))
    }

    fn ghost_norm(
        &self,
        (x, g): (GramRows<'_>, GramRows<'_>),
        conv: Option<(&CudaConvKernel, &Layout)>,
        NormErrors { gamma, eta, lost }: NormErrors,
        (partials, workspace): (DeviceSlice<'_, f64>, DeviceSlice<'_, f32>),
    ) -> Result<(), CudaError> {
        let (device, samples) = (self.device, self.samples);
        let inputs = workspace.cast::<f64>();
        let gradients = inputs.after(samples * x.count * x.count);
        let used = conv.and_then(|(conv, _)| conv.used);
        let inverses = used.map(|(_, start)| self.model.inverses().after(start));
        let tiles = x.count.max(g.count).div_ceil(TILE);
        for (pairs, blocks) in [tiles, tiles * (tiles - 1) / 2].into_iter().enumerate() {
            Gram {
                pairs,
                grid: LaunchGrid { blocks: [blocks, samples, 2], threads: 256, shared: 0 },
                x: x.start,
                x_count: x.count,
                x_inner: x.inner,
                x_along: x.steps.0,
                x_across: x.steps.1,
                g: g.start,
                scales: inverses,
                g_count: g.count,
                g_inner: g.inner,
                g_along: g.steps.0,
                g_across: g.steps.1,
                inputs,
                gradients,
            }
            .launch(device)?;
        }
        let norm = GhostNorm {
            samples,
            inputs,
            gradients,
            sources: conv.map(|(conv, _)| self.table(conv.sources)),
            positions_in: x.count,
            positions: g.count,
            taps: conv.map_or(1, |(conv, _)| conv.deferred().0.taps()),
            x: x.start,
            g: g.start,
            inverses,
            channels: x.inner,
            out: g.inner,
            means: conv.and_then(|(conv, layout)| self.means(layout, conv.weight)),
            mean_stride: self.program.means,
            gamma,
            eta,
            lost,
            partials,
            partial_stride: self.program.partials,
        };
        // SAFETY: a geometry lists no source after its last input position.
        unsafe { norm.launch(device) }
    }
}
