//! From a composed distribution to delta and epsilon.

use super::compose::Composed;
use crate::pair::Side;

/// The privacy profile of a composed lattice distribution.
///
/// Between lattice points delta is linear in `e^eps`, so the profile is known everywhere from two running sums, kept
/// tilted so that neither over- nor underflows: with `D_j = delta(s_j)` and `E_j = sum_{k >= j} P_k e^{s_j - s_k}`,
/// `delta(eps) = D_j + (1 - e^{eps - s_j}) E_j` for `s_{j-1} <= eps <= s_j`.
pub(super) struct Curve<'a> {
    composed: &'a Composed,
    side: Side,
    /// `D_j e^{lambda s_j - log_norm}` for each lattice point.
    delta: Vec<f64>,
    /// `E_j e^{lambda s_j - log_norm}` for each lattice point.
    weight: Vec<f64>,
}

impl<'a> Curve<'a> {
    pub(super) fn new(composed: &'a Composed, side: Side) -> Self {
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
        self.composed.lattice.index[j] as f64 * self.composed.lattice.step()
    }

    /// `e^{log_norm - lambda s}`, the factor that undoes the tilt at `s`.
    fn untilt(&self, s: f64) -> f64 {
        (self.composed.log_norm - self.composed.lambda * s).exp()
    }

    /// Delta at `epsilon`, on the safe side.
    ///
    /// # Guarantee
    /// `Side::Upper`: never below the exact delta; `Side::Lower`: never above it. The error terms use that
    /// `e^{-lambda s} (1 - e^{eps - s})_+ <= e^{-lambda eps}`.
    pub(super) fn delta(&self, epsilon: f64) -> f64 {
        let shifted = match self.side {
            Side::Upper => epsilon - self.composed.slack,
            Side::Lower => epsilon + self.composed.slack,
        };
        let j = self.point_from(shifted);
        let computed = if j < self.delta.len() {
            let s = self.loss(j);
            self.untilt(s) * (self.delta[j] - (shifted - s).exp_m1() * self.weight[j])
        } else {
            0.0
        };
        let error = self.untilt(shifted) * self.composed.error + computed * Self::ROUNDING;
        match self.side {
            Side::Upper => (computed + error + self.composed.infinite).min(1.0),
            Side::Lower => (computed - error).max(0.0),
        }
    }

    /// Relative rounding of the running sums and of `e^{log_norm - lambda s}` (an exponent of a few hundred).
    const ROUNDING: f64 = 1e-11;

    /// The first lattice point not below `loss`.
    fn point_from(&self, loss: f64) -> usize {
        let h = self.composed.lattice.step();
        self.composed.lattice.index.partition_point(|&k| (k as f64 * h) < loss)
    }

    /// Epsilon at `delta`, on the safe side; `None` where the truncated distribution cannot tell.
    ///
    /// # Guarantee
    /// `Side::Upper`: the exact epsilon is not above it; `Side::Lower`: not below it.
    pub(super) fn epsilon(&self, delta: f64) -> Option<f64> {
        let reaches = |epsilon: f64| self.delta(epsilon) <= delta;
        if reaches(0.0) {
            return Some(0.0);
        }
        let count = self.delta.len();
        let top = self.loss(count.checked_sub(1)?) + self.composed.slack;
        if !reaches(top.max(0.0)) {
            // The errors alone exceed delta at every loss the lattice holds.
            return None;
        }
        // First lattice point at which delta is reached, then the crossing inside the cell before it.
        let (mut low, mut high) = (0, count - 1);
        while low < high {
            let middle = usize::midpoint(low, high);
            if reaches(self.loss(middle)) { high = middle } else { low = middle + 1 }
        }
        let upper = self.loss(low);
        let lower = if low > 0 { self.loss(low - 1) } else { upper - self.composed.lattice.step() };
        let (below, above) = crate::numerics::root::bisect_condition(lower.max(0.0), upper.max(0.0), 1e-12, reaches);
        Some(match self.side {
            Side::Upper => above,
            Side::Lower => below,
        })
    }

    /// Whether the errors are small against delta at `epsilon`, so that this tilt suits it.
    pub(super) fn suits(&self, epsilon: f64) -> bool {
        self.untilt(epsilon) * self.composed.error <= 1e-4 * self.delta(epsilon)
    }
}
