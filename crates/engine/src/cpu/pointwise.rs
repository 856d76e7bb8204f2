//! Loops over single values that several operations share.

use pulp::{Arch, NullaryFnOnce};

use super::kernel::MAGIC;

/// `y = f(x)`. A function of more than a few instructions must be marked `inline(always)`, or it will not run on all lanes.
#[inline(always)]
pub(crate) fn map(x: &[f32], y: &mut [f32], f: impl Fn(f32) -> f32) {
    Arch::new().dispatch(ValueMap { x, y, f });
}

/// A loop as a type, because a long closure would not be inlined into the code for all lanes but called from there.
struct ValueMap<'a, F> {
    x: &'a [f32],
    y: &'a mut [f32],
    f: F,
}

impl<F: Fn(f32) -> f32> NullaryFnOnce for ValueMap<'_, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.y.iter_mut().zip(self.x).for_each(|(y, &x)| *y = (self.f)(x));
    }
}

/// `dx = g f(x)`, or `dx += g f(x)`. The function must be inlined as in [`map`].
#[inline(always)]
pub(crate) fn chain(x: &[f32], g: &[f32], dx: &mut [f32], accumulate: bool, f: impl Fn(f32) -> f32) {
    Arch::new().dispatch(Chaining { x, g, dx, accumulate, f });
}

struct Chaining<'a, F> {
    x: &'a [f32],
    g: &'a [f32],
    dx: &'a mut [f32],
    accumulate: bool,
    f: F,
}

impl<F: Fn(f32) -> f32> NullaryFnOnce for Chaining<'_, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let terms = self.x.iter().zip(self.g).map(|(&x, &g)| g * (self.f)(x));
        if self.accumulate {
            self.dx.iter_mut().zip(terms).for_each(|(dx, term)| *dx += term);
        } else {
            self.dx.iter_mut().zip(terms).for_each(|(dx, term)| *dx = term);
        }
    }
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

/// Adds `round(factors (x - means))` to whole numbers, row by row, with one factor and one mean for each column.
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

/// `round(factor x)`, which must be at most 2^22 in size. It is in the low bits of a sum that is rounded once.
#[inline(always)]
fn whole(x: f32, factor: f32) -> u32 {
    x.mul_add(factor, MAGIC).to_bits().wrapping_sub(MAGIC.to_bits())
}

/// The sum of squares. Within blocks of 1024 values it is added in single precision, and the blocks are added in double precision.
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

/// An upper bound on the sum of squares of `len` values for which [`squared_norm`] gave `computed`. A square and the 32 additions of its
/// lane round by 2^-24 each, everything in double precision by far less, and a square that is too small for single precision loses at most
/// 2^-149.
pub(crate) fn squared_norm_rounding(len: usize, computed: f64) -> f64 {
    computed * (1.0 + 40.0 / (1u64 << 24) as f64) + len as f64 * 2f64.powi(-148)
}
