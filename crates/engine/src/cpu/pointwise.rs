//! Activations, sums and products.

use dapple_graph::{Op, op};
use pulp::Arch;

use super::form::Form;
use super::kernel::MAGIC;
use crate::batch::keeps;

/// An elementwise function of one value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Activation {
    Relu,
    Relu6,
    Gelu,
    Silu,
    Tanh,
    Scale(f32),
}

impl Activation {
    pub(crate) fn of(op: &Op) -> Option<Self> {
        match op {
            Op::Activation(op::Activation::Relu) => Some(Self::Relu),
            Op::Activation(op::Activation::Relu6) => Some(Self::Relu6),
            Op::Activation(op::Activation::Gelu) => Some(Self::Gelu),
            Op::Activation(op::Activation::Silu) => Some(Self::Silu),
            Op::Activation(op::Activation::Tanh) => Some(Self::Tanh),
            Op::Activation(op::Activation::Scale(factor)) => Some(Self::Scale(*factor)),
            _ => None,
        }
    }

    pub(crate) fn forward(self, x: &[f32], y: &mut [f32]) {
        match self {
            Self::Relu => map(x, y, |x| x.max(0.0)),
            Self::Relu6 => map(x, y, |x| x.clamp(0.0, 6.0)),
            Self::Scale(factor) => map(x, y, |x| x * factor),
            Self::Tanh => map(x, y, f32::tanh),
            Self::Silu => map(x, y, |x| x * sigmoid(x)),
            Self::Gelu => map(x, y, |x| x * below(x)),
        }
    }

    /// Writes or adds `g f'(x)`.
    pub(crate) fn backward(self, x: &[f32], g: &[f32], dx: &mut [f32], accumulate: bool) {
        match self {
            Self::Relu => chain(x, g, dx, accumulate, |x| if x > 0.0 { 1.0 } else { 0.0 }),
            Self::Relu6 => chain(x, g, dx, accumulate, |x| if x > 0.0 && x < 6.0 { 1.0 } else { 0.0 }),
            Self::Scale(factor) => chain(x, g, dx, accumulate, |_| factor),
            Self::Tanh => chain(x, g, dx, accumulate, |x| 1.0 - x.tanh().powi(2)),
            Self::Silu => chain(x, g, dx, accumulate, |x| {
                let s = sigmoid(x);
                s * (1.0 + x * (1.0 - s))
            }),
            Self::Gelu => chain(x, g, dx, accumulate, |x| {
                let density = (-0.5 * x * x).exp() * (1.0 / std::f32::consts::TAU.sqrt());
                below(x) + x * density
            }),
        }
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// The normal distribution function.
fn below(x: f32) -> f32 {
    0.5 * (1.0 + libm::erff(x * std::f32::consts::FRAC_1_SQRT_2))
}

#[inline(always)]
fn map(x: &[f32], y: &mut [f32], f: impl Fn(f32) -> f32) {
    Arch::new().dispatch(
        #[inline(always)]
        || y.iter_mut().zip(x).for_each(|(y, &x)| *y = f(x)),
    );
}

#[inline(always)]
fn chain(x: &[f32], g: &[f32], dx: &mut [f32], accumulate: bool, f: impl Fn(f32) -> f32) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let terms = x.iter().zip(g).map(|(&x, &g)| g * f(x));
            if accumulate {
                dx.iter_mut().zip(terms).for_each(|(dx, term)| *dx += term);
            } else {
                dx.iter_mut().zip(terms).for_each(|(dx, term)| *dx = term);
            }
        },
    );
}

/// `y = max(y, 0)`.
pub(crate) fn relu(y: &mut [f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || y.iter_mut().for_each(|y| *y = y.max(0.0)),
    );
}

/// Zeroes the gradient wherever the activation's output is not positive.
pub(crate) fn mask(y: &[f32], g: &mut [f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || g.iter_mut().zip(y).for_each(|(g, &y)| *g = if y > 0.0 { *g } else { 0.0 }),
    );
}

/// `y = a + b`, then `max(y, 0)` if asked.
pub(crate) fn add(a: &[f32], b: &[f32], y: &mut [f32], relu: bool) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let terms = a.iter().zip(b).map(|(a, b)| a + b);
            if relu {
                y.iter_mut().zip(terms).for_each(|(y, term)| *y = term.max(0.0));
            } else {
                y.iter_mut().zip(terms).for_each(|(y, term)| *y = term);
            }
        },
    );
}

/// `y = a b`, or `y += a b`.
pub(crate) fn multiply(a: &[f32], b: &[f32], y: &mut [f32], accumulate: bool) {
    chain(b, a, y, accumulate, |b| b);
}

/// `y = factor x`, or `y += factor x`.
pub(crate) fn scale(x: &[f32], factor: f32, y: &mut [f32], accumulate: bool) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            if accumulate {
                y.iter_mut().zip(x).for_each(|(y, &x)| *y += factor * x);
            } else {
                y.iter_mut().zip(x).for_each(|(y, &x)| *y = factor * x);
            }
        },
    );
}

/// Dropout of a step's values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Drop {
    pub(crate) rate: f32,
    /// The node, by which random choices differ.
    pub(crate) node: usize,
    /// Whether channels are dropped as a whole.
    pub(crate) channels: bool,
}

impl Drop {
    /// Drops or scales up each element, or each channel; they are numbered in row-major order whatever the form.
    pub(crate) fn run(self, form: &Form, key: Option<u64>, from: &[f32], to: &mut [f32], accumulate: bool) {
        let Some(key) = key else { return scale(from, 1.0, to, accumulate) };
        let channels = if form.channels_last { form.shape[0] } else { 1 };
        let positions = form.len() / channels;
        // Row-major elements that fall together.
        let together = if self.channels { form.len() / form.shape[0] } else { 1 };
        let factor = 1.0 / (1.0 - self.rate);
        for (index, (to, from)) in to.iter_mut().zip(from).enumerate() {
            let element = index % channels * positions + index / channels;
            let kept = keeps(key, self.node, element / together, self.rate);
            let value = if kept { from * factor } else { 0.0 };
            *to = if accumulate { *to + value } else { value };
        }
    }
}

/// Adds every row of `rows x sum.len()` to `sum`.
pub(crate) fn add_rows(rows: &[f32], sum: &mut [f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for row in rows.chunks_exact(sum.len()) {
                sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
        },
    );
}

/// Adds `round(factor x)` to whole numbers; see [`MAGIC`].
pub(crate) fn count(x: &[f32], factor: f32, sum: &mut [u32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || sum.iter_mut().zip(x).for_each(|(sum, &x)| *sum = sum.wrapping_add(whole(x, factor))),
    );
}

/// Adds `round(factors (x - means))`, row by row of as many columns, to whole numbers.
pub(crate) fn count_rows(x: &[f32], factors: &[f32], means: &[f32], sum: &mut [u32]) {
    let columns = factors.len();
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (x, sum) in x.chunks_exact(columns).zip(sum.chunks_exact_mut(columns)) {
                for ((sum, x), (factor, mean)) in sum.iter_mut().zip(x).zip(factors.iter().zip(means)) {
                    *sum = sum.wrapping_add(whole(x - mean, *factor));
                }
            }
        },
    );
}

/// `round(factor x)`, which is at most 2^22 in size, as the low bits of a sum that is rounded once.
#[inline(always)]
fn whole(x: f32, factor: f32) -> u32 {
    x.mul_add(factor, MAGIC).to_bits().wrapping_sub(MAGIC.to_bits())
}

/// Sum of squares, in blocks whose partial sums are exact enough for single precision.
pub(crate) fn squared_norm(values: &[f32]) -> f64 {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut total = 0.0f64;
            for block in values.chunks(1024) {
                let mut lanes = [0.0f32; 32];
                let (chunks, rest) = block.as_chunks::<32>();
                for chunk in chunks {
                    for (lane, value) in lanes.iter_mut().zip(chunk) {
                        *lane += value * value;
                    }
                }
                total += lanes.iter().map(|&lane| f64::from(lane)).sum::<f64>();
                total += rest.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>();
            }
            total
        },
    )
}

/// An upper bound on the sum of squares of `len` values for which [`squared_norm`] gave this: a square and the 32 additions of its lane
/// round by 2^-24 each, everything in double precision by far less; squares too small for single precision are lost by 2^-149 each.
pub(crate) fn squared_norm_rounding(len: usize, computed: f64) -> f64 {
    computed * (1.0 + 40.0 / (1u64 << 24) as f64) + len as f64 * 2f64.powi(-148)
}
