//! Group norm, layer norm and frozen batch norm over channels-last rows, with an activation folded in.

use dapple_graph::{Affine, ParameterId};
use pulp::{Arch, Simd, WithSimd};

/// A normalisation of one sample's `positions x channels`.
#[derive(Debug, Clone)]
pub(crate) struct Norm {
    pub(crate) kind: Kind,
    pub(crate) eps: f32,
    pub(crate) affine: Option<Affine>,
    pub(crate) positions: usize,
    pub(crate) channels: usize,
    pub(crate) relu: bool,
}

/// What shares statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A group of channels over all positions.
    Group(usize),
    /// The channels of one position.
    Layer,
    /// Stored statistics.
    Batch { mean: ParameterId, variance: ParameterId },
}

/// Gradients of scale and shift, where they are wanted.
pub(crate) type AffineGradients<'a> = (Option<&'a mut [f32]>, Option<&'a mut [f32]>);

/// Rows whose sums are taken in single precision before they join a double-precision total.
const BLOCK: usize = 32;
/// Groups whose double-precision totals are held at a time.
const GROUPS: usize = 64;

/// The data gradient of a group norm, per channel: `g gain + x slope + offset`, with `g` passing where `x scale + shift > floor`.
struct GroupDataGradient<'a> {
    scale: &'a [f32],
    shift: &'a [f32],
    gain: &'a [f32],
    slope: &'a [f32],
    offset: &'a [f32],
    floor: f32,
    x: &'a [f32],
    g: &'a [f32],
    dx: &'a mut [f32],
    accumulate: bool,
}

impl WithSimd for GroupDataGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let channels = self.scale.len();
        let (scale, shift) = (&self.scale[..channels], &self.shift[..channels]);
        let (gain, slope, offset) =
            (&self.gain[..channels], &self.slope[..channels], &self.offset[..channels]);
        let rows = self.x.chunks_exact(channels).zip(self.g.chunks_exact(channels));
        for (dx, (x, g)) in self.dx.chunks_exact_mut(channels).zip(rows) {
            let term = |c: usize| {
                let g = if x[c] * scale[c] + shift[c] > self.floor { g[c] } else { 0.0 };
                g * gain[c] + x[c] * slope[c] + offset[c]
            };
            if self.accumulate {
                dx.iter_mut().enumerate().for_each(|(c, dx)| *dx += term(c));
            } else {
                dx.iter_mut().enumerate().for_each(|(c, dx)| *dx = term(c));
            }
        }
    }
}

impl Norm {
    /// Numbers kept from the forward pass: mean and one over the deviation of every set.
    pub(crate) fn saved(&self) -> usize {
        2 * match self.kind {
            Kind::Group(groups) => groups,
            Kind::Layer => self.positions,
            Kind::Batch { .. } => 0,
        }
    }

    /// Numbers of scratch: eight vectors of channels.
    pub(crate) fn scratch(&self) -> usize {
        8 * self.channels
    }

    /// `y = x * scale + shift` per channel; fills `scale` and `shift`.
    fn coefficients<'p>(
        &self,
        parameters: &impl Fn(ParameterId) -> &'p [f32],
        saved: &[f32],
        scale: &mut [f32],
        shift: &mut [f32],
    ) {
        let weight = |c: usize| self.affine.map_or(1.0, |a| parameters(a.weight)[c]);
        let bias = |c: usize| self.affine.map_or(0.0, |a| parameters(a.bias)[c]);
        for c in 0..self.channels {
            let (mean, inverse) = match self.kind {
                Kind::Group(groups) => {
                    let group = c / (self.channels / groups);
                    (saved[2 * group], saved[2 * group + 1])
                }
                Kind::Batch { mean, variance } => {
                    (parameters(mean)[c], 1.0 / (parameters(variance)[c] + self.eps).sqrt())
                }
                Kind::Layer => (0.0, 1.0),
            };
            scale[c] = weight(c) * inverse;
            shift[c] = bias(c) - mean * scale[c];
        }
    }

    pub(crate) fn forward<'p>(
        &self,
        parameters: &impl Fn(ParameterId) -> &'p [f32],
        x: &[f32],
        y: &mut [f32],
        saved: &mut [f32],
        scratch: &mut [f32],
    ) {
        let channels = self.channels;
        let (scale, rest) = scratch.split_at_mut(channels);
        let (shift, rest) = rest.split_at_mut(channels);
        match self.kind {
            Kind::Layer => {
                self.coefficients(parameters, saved, scale, shift);
                self.layer_forward(x, y, saved, scale, shift);
                return;
            }
            Kind::Group(groups) => self.group_statistics(groups, x, saved, rest),
            Kind::Batch { .. } => {}
        }
        self.coefficients(parameters, saved, scale, shift);
        let relu = self.relu;
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for (y, x) in y.chunks_exact_mut(channels).zip(x.chunks_exact(channels)) {
                    let terms = x.iter().zip(&*scale).zip(&*shift).map(|((x, a), b)| x * a + b);
                    if relu {
                        y.iter_mut().zip(terms).for_each(|(y, term)| *y = term.max(0.0));
                    } else {
                        y.iter_mut().zip(terms).for_each(|(y, term)| *y = term);
                    }
                }
            },
        );
    }

    /// Mean and one over the deviation of every group.
    fn group_statistics(&self, groups: usize, x: &[f32], saved: &mut [f32], scratch: &mut [f32]) {
        let channels = self.channels;
        let size = channels / groups;
        let (sums, rest) = scratch.split_at_mut(channels);
        for first in (0..groups).step_by(GROUPS) {
            let groups = first..groups.min(first + GROUPS);
            let window = groups.start * size..groups.end * size;
            let (sums, squares) = (&mut sums[window.clone()], &mut rest[window.clone()]);
            // The statistics are taken around the first position, so that a large common offset costs no precision.
            let centre = &x[window.clone()];
            let mut totals = [(0.0f64, 0.0f64); GROUPS];
            for block in x.chunks(BLOCK * channels) {
                sums.fill(0.0);
                squares.fill(0.0);
                Arch::new().dispatch(
                    #[inline(always)]
                    || {
                        for row in block.chunks_exact(channels) {
                            let row = &row[window.clone()];
                            for (((sum, square), x), centre) in
                                sums.iter_mut().zip(squares.iter_mut()).zip(row).zip(centre)
                            {
                                let d = x - centre;
                                *sum += d;
                                *square += d * d;
                            }
                        }
                    },
                );
                let rows = (block.len() / channels) as f64;
                let parts =
                    sums.chunks_exact(size).zip(squares.chunks_exact(size)).zip(centre.chunks_exact(size));
                for (total, ((sums, squares), centre)) in totals.iter_mut().zip(parts) {
                    for ((sum, square), centre) in sums.iter().zip(squares).zip(centre) {
                        // Back from the channel's own centre to zero.
                        let (s, q, m) = (f64::from(*sum), f64::from(*square), f64::from(*centre));
                        total.0 += s + rows * m;
                        total.1 += q + 2.0 * m * s + rows * m * m;
                    }
                }
            }
            let count = (size * self.positions) as f64;
            for (group, (sum, square)) in groups.zip(totals) {
                let mean = sum / count;
                let variance = (square / count - mean * mean).max(0.0);
                saved[2 * group] = mean as f32;
                saved[2 * group + 1] = (1.0 / (variance + f64::from(self.eps)).sqrt()) as f32;
            }
        }
    }

    fn layer_forward(&self, x: &[f32], y: &mut [f32], saved: &mut [f32], scale: &[f32], shift: &[f32]) {
        let n = self.channels as f32;
        for ((x, y), saved) in x
            .chunks_exact(self.channels)
            .zip(y.chunks_exact_mut(self.channels))
            .zip(saved.chunks_exact_mut(2))
        {
            let mean = x.iter().sum::<f32>() / n;
            let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / n;
            let inverse = 1.0 / (variance + self.eps).sqrt();
            saved.copy_from_slice(&[mean, inverse]);
            for ((y, x), (a, b)) in y.iter_mut().zip(x).zip(scale.iter().zip(shift)) {
                *y = (x - mean) * inverse * a + b;
            }
            if self.relu {
                y.iter_mut().for_each(|y| *y = y.max(0.0));
            }
        }
    }

    /// Adds the gradients of scale and shift, and writes or adds the data gradient if it is wanted.
    #[expect(clippy::too_many_arguments, reason = "each is another tensor of the same operation")]
    pub(crate) fn backward<'p>(
        &self,
        parameters: &impl Fn(ParameterId) -> &'p [f32],
        x: &[f32],
        y: &[f32],
        saved: &[f32],
        g: &mut [f32],
        affine: AffineGradients<'_>,
        dx: Option<(&mut [f32], bool)>,
        scratch: &mut [f32],
    ) {
        match self.kind {
            Kind::Layer => {
                if self.relu {
                    super::pointwise::mask(y, g);
                }
                self.layer_backward(parameters, x, saved, g, affine, dx);
            }
            Kind::Group(groups) => self.group_backward(groups, parameters, x, saved, g, affine, dx, scratch),
            Kind::Batch { mean, variance } => {
                if self.relu {
                    super::pointwise::mask(y, g);
                }
                let channels = self.channels;
                let (scale, shift) = scratch.split_at_mut(channels);
                self.coefficients(parameters, saved, scale, &mut shift[..channels]);
                let (dw, db) = affine;
                if let Some(dw) = dw {
                    let (mean, variance) = (parameters(mean), parameters(variance));
                    for (x, g) in x.chunks_exact(channels).zip(g.chunks_exact(channels)) {
                        for c in 0..channels {
                            dw[c] += g[c] * (x[c] - mean[c]) / (variance[c] + self.eps).sqrt();
                        }
                    }
                }
                if let Some(db) = db {
                    super::pointwise::add_rows(g, db);
                }
                if let Some((dx, accumulate)) = dx {
                    for (dx, g) in dx.chunks_exact_mut(channels).zip(g.chunks_exact(channels)) {
                        super::pointwise::multiply(g, scale, dx, accumulate);
                    }
                }
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "each is another tensor of the same operation")]
    fn group_backward<'p>(
        &self,
        groups: usize,
        parameters: &impl Fn(ParameterId) -> &'p [f32],
        x: &[f32],
        saved: &[f32],
        g: &[f32],
        affine: AffineGradients<'_>,
        dx: Option<(&mut [f32], bool)>,
        scratch: &mut [f32],
    ) {
        let channels = self.channels;
        let (vectors, _) = scratch.split_at_mut(8 * channels);
        let mut parts = vectors.chunks_exact_mut(channels);
        let mut next = || parts.next().expect("scratch for eight vectors");
        let [scale, shift, sums, products] = [next(), next(), next(), next()];
        let [gain, slope, offset] = [next(), next(), next()];
        self.coefficients(parameters, saved, scale, shift);
        // Without an activation every pre-activation passes.
        let floor = if self.relu { 0.0 } else { f32::NEG_INFINITY };
        let size = channels / groups;
        let count = (size * self.positions) as f64;
        let weight = self.affine.map(|a| parameters(a.weight));
        let (mut dw, mut db) = affine;
        for first in (0..groups).step_by(GROUPS) {
            let window = first * size..groups.min(first + GROUPS) * size;
            let (sums, products) = (&mut sums[window.clone()], &mut products[window.clone()]);
            let (scale, shift) = (&scale[window.clone()], &shift[window.clone()]);
            let mut totals = [(0.0f64, 0.0f64); GROUPS];
            for (x, g) in x.chunks(BLOCK * channels).zip(g.chunks(BLOCK * channels)) {
                sums.fill(0.0);
                products.fill(0.0);
                Arch::new().dispatch(
                    #[inline(always)]
                    || {
                        for (x, g) in x.chunks_exact(channels).zip(g.chunks_exact(channels)) {
                            let (x, g) = (&x[window.clone()], &g[window.clone()]);
                            let sums = sums.iter_mut().zip(products.iter_mut());
                            let affine = scale.iter().zip(shift);
                            for (((sum, product), (a, b)), (x, g)) in sums.zip(affine).zip(x.iter().zip(g)) {
                                let g = if x * a + b > floor { *g } else { 0.0 };
                                *sum += g;
                                *product += g * x;
                            }
                        }
                    },
                );
                for (c, (sum, product)) in window.clone().zip(sums.iter().zip(&*products)) {
                    let group = c / size;
                    let (mean, inverse) = (f64::from(saved[2 * group]), f64::from(saved[2 * group + 1]));
                    let sum = f64::from(*sum);
                    let along = (f64::from(*product) - mean * sum) * inverse;
                    if let Some(dw) = &mut dw {
                        dw[c] += along as f32;
                    }
                    if let Some(db) = &mut db {
                        db[c] += sum as f32;
                    }
                    let w = weight.map_or(1.0, |weight| f64::from(weight[c]));
                    totals[group - first].0 += w * sum;
                    totals[group - first].1 += w * along;
                }
            }
            for c in window {
                // dx = inverse (w g - A - hat B) with A, B the means of w g and w g hat over the group.
                let group = c / size;
                let (mean, inverse) = (f64::from(saved[2 * group]), f64::from(saved[2 * group + 1]));
                let (a, b) = (totals[group - first].0 / count, totals[group - first].1 / count);
                gain[c] = (weight.map_or(1.0, |weight| f64::from(weight[c])) * inverse) as f32;
                slope[c] = (-b * inverse * inverse) as f32;
                offset[c] = (-a * inverse + b * inverse * inverse * mean) as f32;
            }
        }
        let Some((dx, accumulate)) = dx else { return };
        let (scale, shift, gain, slope, offset) = (&*scale, &*shift, &*gain, &*slope, &*offset);
        Arch::new().dispatch(GroupDataGradient {
            scale,
            shift,
            gain,
            slope,
            offset,
            floor,
            x,
            g,
            dx,
            accumulate,
        });
    }

    fn layer_backward<'p>(
        &self,
        parameters: &impl Fn(ParameterId) -> &'p [f32],
        x: &[f32],
        saved: &[f32],
        g: &[f32],
        affine: AffineGradients<'_>,
        mut dx: Option<(&mut [f32], bool)>,
    ) {
        let channels = self.channels;
        let n = channels as f32;
        let weight = self.affine.map(|a| parameters(a.weight));
        let (mut dw, mut db) = affine;
        for (row, (x, g)) in x.chunks_exact(channels).zip(g.chunks_exact(channels)).enumerate() {
            let (mean, inverse) = (saved[2 * row], saved[2 * row + 1]);
            let hat = |c: usize| (x[c] - mean) * inverse;
            let scaled = |c: usize| weight.map_or(g[c], |w| w[c] * g[c]);
            if let Some(dw) = &mut dw {
                dw.iter_mut().enumerate().for_each(|(c, dw)| *dw += g[c] * hat(c));
            }
            if let Some(db) = &mut db {
                db.iter_mut().zip(g).for_each(|(db, g)| *db += g);
            }
            if let Some((dx, accumulate)) = &mut dx {
                let average = (0..channels).map(scaled).sum::<f32>() / n;
                let along = (0..channels).map(|c| scaled(c) * hat(c)).sum::<f32>() / n;
                let dx = &mut dx[row * channels..][..channels];
                for (c, dx) in dx.iter_mut().enumerate() {
                    let term = (scaled(c) - average - hat(c) * along) * inverse;
                    *dx = if *accumulate { *dx + term } else { term };
                }
            }
        }
    }
}
