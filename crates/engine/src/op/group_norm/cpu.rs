//! How the CPU normalises groups of channels, over channels-last rows.

use std::ops::Range;

use dapple_graph::op::GroupNorm;
use pulp::{Arch, Simd, WithSimd};

use crate::cpu::affine::{coefficients, scale_rows};
use crate::cpu::kernel::Lanes;
use crate::cpu::operation::{
    BackwardPass, BackwardReads, CpuKernel, CpuOperation, ForwardItem, ForwardPass, LoweredNode, Order,
};

/// How many rows are summed in single precision before the sum is added to a total in double precision.
const BLOCK: usize = 32;
/// How many groups' totals are held at a time.
const GROUPS: usize = 64;

#[derive(Debug)]
struct GroupNormKernel {
    norm: GroupNorm,
    positions: usize,
    channels: usize,
    /// Whether negative results become zero.
    relu: bool,
}

impl CpuOperation for GroupNorm {
    fn order(&self) -> Order {
        Order::ChannelsLast
    }

    fn folds_relu(&self) -> bool {
        true
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        let (positions, channels) = node.form.positions();
        Box::new(GroupNormKernel { norm: *self, positions, channels, relu: node.relu })
    }
}

impl CpuKernel for GroupNormKernel {
    /// The output is not needed, because the input tells where a ReLU let a value pass.
    fn reads(&self, _: bool) -> BackwardReads {
        BackwardReads::INPUTS
    }

    /// The mean and one over the deviation of every group.
    fn saved(&self) -> usize {
        2 * self.norm.groups
    }

    /// The backward pass needs seven vectors of channels.
    fn scratch(&self, _: Lanes, _: usize) -> usize {
        7 * self.channels
    }

    fn forward(&self, pass: ForwardPass<'_>) {
        pass.for_items(|item| {
            let ForwardItem { values, y, saved, scratch } = item;
            let x = values.input(0);
            let (scale, rest) = scratch.split_at_mut(self.channels);
            let (shift, rest) = rest.split_at_mut(self.channels);
            self.statistics(x, saved, rest);
            coefficients(values.affine(self.norm.affine), |c| self.of_group(saved, c), scale, shift);
            scale_rows(x, scale, shift, self.relu, y);
        });
    }

    fn backward(&self, pass: BackwardPass<'_>) {
        pass.for_items(|mut item| {
            let (channels, groups) = (self.channels, self.norm.groups);
            let (x, saved) = (item.values.input(0), item.values.saved());
            let affine = item.values.affine(self.norm.affine);
            let mut parts = item.scratch.chunks_exact_mut(channels);
            let mut next = || parts.next().expect("the kernel asks for scratch of seven vectors");
            let [scale, shift, sums, products] = [next(), next(), next(), next()];
            let [gain, slope, offset] = [next(), next(), next()];
            coefficients(affine, |c| self.of_group(saved, c), scale, shift);
            // Without a ReLU every value passes.
            let floor = if self.relu { 0.0 } else { f32::NEG_INFINITY };
            let weight = affine.map(|(weight, _)| weight);
            let upstream = Upstream { x, g: item.g, saved, weight, scale, shift, floor };
            let (mut dw, mut db) = item.parameter_gradients.affine(self.norm.affine);
            let size = channels / groups;
            let count = (size * self.positions) as f64;
            for first in (0..groups).step_by(GROUPS) {
                let window = first * size..groups.min(first + GROUPS) * size;
                let parts = (&mut sums[window.clone()], &mut products[window.clone()]);
                let totals = self.totals(&upstream, window.clone(), parts, (&mut dw, &mut db));
                for c in window {
                    // dx = inverse (w g - A - hat B), where A and B are the means of w g and of w g hat over the group.
                    let (mean, inverse) = self.of_group(saved, c);
                    let (mean, inverse) = (f64::from(mean), f64::from(inverse));
                    let (a, b) = totals[c / size - first];
                    let (a, b) = (a / count, b / count);
                    gain[c] = (weight.map_or(1.0, |weight| f64::from(weight[c])) * inverse) as f32;
                    slope[c] = (-b * inverse * inverse) as f32;
                    offset[c] = (-a * inverse + b * inverse * inverse * mean) as f32;
                }
            }
            let Some((dx, accumulate)) = item.input_gradients.part(0) else { return };
            Arch::new().dispatch(DataGradient { upstream, gain, slope, offset, dx, accumulate });
        });
    }
}

impl GroupNormKernel {
    /// The mean and one over the deviation of a channel's group.
    fn of_group(&self, saved: &[f32], channel: usize) -> (f32, f32) {
        let group = channel / (self.channels / self.norm.groups);
        (saved[2 * group], saved[2 * group + 1])
    }

    /// Computes the mean and one over the deviation of every group.
    fn statistics(&self, x: &[f32], saved: &mut [f32], scratch: &mut [f32]) {
        let (channels, groups) = (self.channels, self.norm.groups);
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
                        // The sums were taken around the channel's own centre; these are the sums around zero.
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
                saved[2 * group + 1] = (1.0 / (variance + f64::from(self.norm.eps)).sqrt()) as f32;
            }
        }
    }

    /// Returns the sums of `w g` and of `w g hat` for every group of a window of channels, and adds the gradients of scale and shift on the
    /// way.
    fn totals(
        &self,
        upstream: &Upstream<'_>,
        window: Range<usize>,
        (sums, products): (&mut [f32], &mut [f32]),
        (dw, db): (&mut Option<&mut [f32]>, &mut Option<&mut [f32]>),
    ) -> [(f64, f64); GROUPS] {
        let channels = self.channels;
        let size = channels / self.norm.groups;
        let first = window.start / size;
        let mut totals = [(0.0f64, 0.0f64); GROUPS];
        let blocks = upstream.x.chunks(BLOCK * channels).zip(upstream.g.chunks(BLOCK * channels));
        for (x, g) in blocks {
            upstream.add_block(x, g, window.clone(), sums, products);
            for (c, (sum, product)) in window.clone().zip(sums.iter().zip(&*products)) {
                let (mean, inverse) = self.of_group(upstream.saved, c);
                let sum = f64::from(*sum);
                let along = (f64::from(*product) - f64::from(mean) * sum) * f64::from(inverse);
                if let Some(dw) = dw {
                    dw[c] += along as f32;
                }
                if let Some(db) = db {
                    db[c] += sum as f32;
                }
                let w = upstream.weight.map_or(1.0, |weight| f64::from(weight[c]));
                let total = &mut totals[c / size - first];
                total.0 += w * sum;
                total.1 += w * along;
            }
        }
        totals
    }
}

/// What a backward pass starts from.
#[derive(Clone, Copy)]
struct Upstream<'a> {
    x: &'a [f32],
    g: &'a [f32],
    saved: &'a [f32],
    weight: Option<&'a [f32]>,
    scale: &'a [f32],
    shift: &'a [f32],
    /// A gradient passes where `x scale + shift` is above this.
    floor: f32,
}

impl Upstream<'_> {
    /// Computes the sums of `g` and of `g x` over some rows, for a window of channels.
    fn add_block(&self, x: &[f32], g: &[f32], window: Range<usize>, sums: &mut [f32], products: &mut [f32]) {
        let channels = self.scale.len();
        let (scale, shift) = (&self.scale[window.clone()], &self.shift[window.clone()]);
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
                        let g = if x * a + b > self.floor { *g } else { 0.0 };
                        *sum += g;
                        *product += g * x;
                    }
                }
            },
        );
    }
}

/// Computes the data gradient, which for each channel is `g gain + x slope + offset`.
struct DataGradient<'a> {
    upstream: Upstream<'a>,
    gain: &'a [f32],
    slope: &'a [f32],
    offset: &'a [f32],
    dx: &'a mut [f32],
    accumulate: bool,
}

impl WithSimd for DataGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Upstream { x, g, scale, shift, floor, .. } = self.upstream;
        let channels = scale.len();
        let (scale, shift) = (&scale[..channels], &shift[..channels]);
        let (gain, slope, offset) =
            (&self.gain[..channels], &self.slope[..channels], &self.offset[..channels]);
        let rows = x.chunks_exact(channels).zip(g.chunks_exact(channels));
        for (dx, (x, g)) in self.dx.chunks_exact_mut(channels).zip(rows) {
            let term = |c: usize| {
                let g = if x[c] * scale[c] + shift[c] > floor { g[c] } else { 0.0 };
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
