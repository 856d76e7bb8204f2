//! From a composed distribution to delta and epsilon.

use super::compose::Composition;
use crate::numerics::root::bisect_condition;
use crate::pair::Side;

/// The privacy profile of a composed lattice distribution.
///
/// Between lattice points delta is linear in `e^eps`, so the profile is known everywhere from two running sums, kept
/// tilted so that neither over- nor underflows: with `D_j = delta(s_j)` and `E_j = sum_{k >= j} P_k e^{s_j - s_k}`,
/// `delta(eps) = D_j + (1 - e^{eps - s_j}) E_j` for `s_{j-1} <= eps <= s_j`.
pub(super) struct DeltaCurve<'a> {
    composed: &'a Composition,
    side: Side,
    /// `D_j e^{lambda s_j - log_norm}` for each lattice point.
    delta: Vec<f64>,
    /// `E_j e^{lambda s_j - log_norm}` for each lattice point.
    weight: Vec<f64>,
}

impl<'a> DeltaCurve<'a> {
    pub(super) fn new(composed: &'a Composition, side: Side) -> Self {
        let lattice = &composed.lattice;
        let count = lattice.index.len();
        let (mut delta, mut weight) = (vec![0.0; count], vec![0.0; count]);
        let h = lattice.step();
        // All terms are positive: nothing cancels.
        let (mut d, mut e) = (0.0, 0.0);
        for j in (0..count).rev() {
            if j + 1 < count {
                let gap = (lattice.index[j + 1] - lattice.index[j]) as f64 * h;
                let untilt = (-composed.lambda * gap).exp();
                d = untilt * (d + -(-gap).exp_m1() * e);
                e *= untilt * (-gap).exp();
            }
            e += lattice.mass[j];
            delta[j] = d;
            weight[j] = e;
        }
        Self { composed, side, delta, weight }
    }

    fn loss(&self, j: usize) -> f64 {
        self.composed.lattice.offset + self.composed.lattice.index[j] as f64 * self.composed.lattice.step()
    }

    /// `e^{log_norm - lambda s}`, the factor that undoes the tilt at `s`.
    fn untilt(&self, s: f64) -> f64 {
        (self.composed.log_norm - self.composed.lambda * s).exp()
    }

    /// Delta of the lattice distribution itself at `loss`, without its errors.
    fn computed(&self, loss: f64) -> f64 {
        let j = self.point_from(loss);
        if j == self.delta.len() {
            return 0.0;
        }
        let s = self.loss(j);
        self.untilt(s) * (self.delta[j] - (loss - s).exp_m1() * self.weight[j])
    }

    /// The same delta with the infinite losses that the steps themselves have.
    fn ideal(&self, loss: f64) -> f64 {
        self.computed(loss) + (self.composed.infinite - self.composed.cut).max(0.0)
    }

    /// What truncation and rounding can do to delta at `loss`.
    ///
    /// A tilted mass at `eps + x` enters delta with the weight `e^{-lambda eps} g(x)`, `g(x) = e^{-lambda x} (1 - e^{-x})` for
    /// `x > 0`. The most of `g` is `(1 + 1/lambda)^-lambda / (1 + lambda)`; its squares on a lattice of step `h`, a unimodal
    /// function, add up to at most their integral over `h`, which is `2 / (a (a+1) (a+2) h)` for `a = 2 lambda`, and the most.
    fn error(&self, loss: f64) -> f64 {
        let Composition { lattice, lambda, error, .. } = self.composed;
        if *lambda == 0.0 {
            return self.untilt(loss) * error.total(lattice.index.len());
        }
        let most = (-lambda * (1.0 / lambda).ln_1p() - lambda.ln_1p()).exp();
        let a = 2.0 * lambda;
        let squares = 2.0 / (a * (a + 1.0) * (a + 2.0) * lattice.step()) + most * most;
        let weights = squares.min(most * most * lattice.index.len() as f64).sqrt();
        self.untilt(loss) * (error.truncated * most + error.rounding * weights)
    }

    /// Delta at `epsilon`, on the safe side.
    ///
    /// # Guarantee
    /// `Side::Upper`: never below the exact delta; `Side::Lower`: never above it.
    pub(super) fn delta(&self, epsilon: f64) -> f64 {
        match self.side {
            Side::Upper => {
                let loss = epsilon - self.composed.slack;
                let delta = self.computed(loss) * (1.0 + self.composed.rounding)
                    + self.error(loss)
                    + self.composed.infinite * (1.0 + self.composed.rounding);
                delta.min(1.0)
            }
            Side::Lower => {
                let loss = epsilon + self.composed.slack;
                let finite =
                    (self.computed(loss) * (1.0 - self.composed.rounding) - self.error(loss)).max(0.0);
                finite + self.composed.infinite * (1.0 - self.composed.rounding)
            }
        }
    }

    /// The first lattice point not below `loss`.
    fn point_from(&self, loss: f64) -> usize {
        let (h, offset) = (self.composed.lattice.step(), self.composed.lattice.offset);
        self.composed.lattice.index.partition_point(|&k| (offset + k as f64 * h) < loss)
    }

    /// Epsilon at `delta`, on the safe side; `None` where the errors hide it.
    ///
    /// # Guarantee
    /// `Side::Upper`: the exact epsilon is not above it; `Side::Lower`: not below it.
    pub(super) fn epsilon(&self, delta: f64) -> Option<f64> {
        let top = self.loss(self.delta.len().checked_sub(1)?) + self.composed.slack;
        match self.side {
            Side::Upper => {
                if self.delta(0.0) <= delta {
                    return Some(0.0);
                }
                // Upper deltas decrease in epsilon, so that the first to reach delta is safe.
                (top > 0.0 && self.delta(top) <= delta)
                    .then(|| bisect_condition(0.0, top, BISECTION, |epsilon| self.delta(epsilon) <= delta).1)
            }
            Side::Lower => {
                // Where the errors are small, near the crossing of the computed curve, lower deltas decrease too; any
                // point at which they still exceed delta is safe.
                if top <= 0.0 || self.ideal(0.0) <= delta {
                    return Some(0.0);
                }
                let crossing =
                    bisect_condition(0.0, top, BISECTION, |epsilon| self.ideal(epsilon) <= delta).1;
                let mut back = BISECTION * crossing;
                while back < crossing && self.delta(crossing - back) <= delta {
                    back *= 2.0;
                }
                (back < crossing).then(|| {
                    let (low, high) = (crossing - back, crossing - 0.5 * back);
                    bisect_condition(low, high, BISECTION, |epsilon| self.delta(epsilon) <= delta).0
                })
            }
        }
    }

    /// Where the computed curve, without its errors, crosses `delta`.
    pub(super) fn crossing(&self, delta: f64) -> f64 {
        let top = self.delta.len().checked_sub(1).map_or(0.0, |last| self.loss(last));
        if top <= 0.0 || self.ideal(0.0) <= delta {
            return 0.0;
        }
        bisect_condition(0.0, top, BISECTION, |epsilon| self.ideal(epsilon) <= delta).1
    }

    /// Whether the errors are small against delta at `epsilon`, so that this tilt suits it.
    pub(super) fn suits(&self, epsilon: f64) -> bool {
        self.error(epsilon) + self.composed.cut <= 1e-4 * self.delta(epsilon)
    }
}

/// Relative precision of an epsilon read off a curve.
const BISECTION: f64 = 1e-9;
