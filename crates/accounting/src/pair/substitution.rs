//! The pair of the amplification theorem: a record is absent, present but unaffected, or present and affected.

use super::gaussian::{PROBE_REACH, PROBE_STEP, outcome_cells};
use super::{CellMasses, DominatingPair, Gaussian, LossCells, Probe};
use crate::error::{Result, adds_up_to_one, in_range};
use crate::numerics::normal;

/// One step under a substitution relation, in units of the noise's standard deviation.
///
/// With probability `absent` the differing record is not sampled, with `unaffected` it is sampled but contributes
/// the same in both data sets, with `affected` its contribution differs. The distances bound how far an affected
/// contribution lies from the absent one, the unaffected one, and the substituted one.
///
/// # Guarantee
/// For `a >= 1` the hockey-stick divergence of the step is at most `H_a(P || Q)` of
/// `P = w0 N(-d0) + w1 N(-d1) + q N(0)`, `Q = w0 N(-d0) + w1 N(-d1) + q N(-d2)` (advanced joint convexity, then the
/// Neyman-Pearson lemma for all components at once); the two-sided profile follows by symmetry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Substitution {
    w0: f64,
    w1: f64,
    q: f64,
    d0: f64,
    d1: f64,
    d2: f64,
}

/// The three probabilities of a [`Substitution`] step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Participation {
    /// `w0`: the record is not sampled.
    pub absent: f64,
    /// `w1`: it is sampled and contributes the same.
    pub unaffected: f64,
    /// `q`: it is sampled and its contribution differs.
    pub affected: f64,
}

/// The three distances of a [`Substitution`] step, in units of the clip norm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distances {
    /// `d0`: from the affected to the absent contribution; may be infinite.
    pub absent: f64,
    /// `d1`: from the affected to the unaffected contribution.
    pub unaffected: f64,
    /// `d2`: between the two affected contributions.
    pub affected: f64,
}

/// Newton steps after which a root is taken as found; a dozen suffice from anywhere.
const MAX_NEWTON: usize = 200;

impl Substitution {
    /// Checks the probabilities and distances of a step with Gaussian noise of `noise_multiplier` clip norms.
    ///
    /// # Errors
    /// Probabilities that do not add up to 1, distances or noise out of range.
    pub fn new(participation: Participation, distances: Distances, noise_multiplier: f64) -> Result<Self> {
        let Participation { absent: w0, unaffected: w1, affected: q } = participation;
        let sigma = crate::limits::noise_multiplier(noise_multiplier)?;
        for (name, value) in [("absent", w0), ("unaffected", w1), ("affected", q)] {
            in_range(name, value, 0.0, 1.0, "[0, 1]")?;
        }
        adds_up_to_one("absent, unaffected, affected", [w0, w1, q].into_iter())?;
        in_range("distance", distances.affected, f64::MIN_POSITIVE, 1e6, "(0, 1e6]")?;
        in_range("distance", distances.unaffected, 0.5 * distances.affected, 1e6, "[d2 / 2, 1e6]")?;
        in_range(
            "distance",
            distances.absent,
            0.5 * distances.affected,
            f64::INFINITY,
            "[d2 / 2, infinity]",
        )?;
        Ok(Self {
            w0,
            w1,
            q,
            d0: distances.absent / sigma,
            d1: distances.unaffected / sigma,
            d2: distances.affected / sigma,
        })
    }

    /// The pair whose positive losses bound the step; a Gaussian pair under sampling where all distances agree.
    pub(crate) fn into_pair(self) -> DominatingPair {
        let same = |w: f64, d: f64| w == 0.0 || d == self.d2;
        if same(self.w0, self.d0) && same(self.w1, self.d1) {
            DominatingPair::Gaussian(Gaussian { mu: self.d2 }).subsampled(self.q)
        } else {
            DominatingPair::Substitution(self)
        }
    }

    /// Where losses are positive, and how far apart the components lie.
    pub(crate) fn support(&self) -> (f64, f64) {
        let finite = |d: f64| if d.is_finite() { d } else { 0.0 };
        (-0.5 * self.d2, finite(self.d0).max(self.d1).max(self.d2))
    }

    /// `ln p/q` at outcome `t >= -d2 / 2`.
    pub(crate) fn log_ratio(&self, t: f64) -> f64 {
        let value = self.log_excess(t).0;
        if value > 500.0 { value } else { value.exp().ln_1p() }
    }

    /// `ln q` at outcome `t`.
    pub(crate) fn log_q(&self, t: f64) -> f64 {
        let [e0, e1, e2] = [self.d0, self.d1, self.d2]
            .map(|d| if d.is_finite() { -0.5 * (t + d) * (t + d) } else { f64::NEG_INFINITY });
        let largest = e0.max(e1).max(e2);
        let sum =
            self.w0 * (e0 - largest).exp() + self.w1 * (e1 - largest).exp() + self.q * (e2 - largest).exp();
        largest + sum.ln() - 0.5 * std::f64::consts::TAU.ln()
    }

    /// `ln(p/q - 1)` at outcome `t > -d2 / 2`, and its slope.
    ///
    /// It increases and is concave: `ln(1 - e^{-d2 x})` is, and the denominator is a sum of exponentials.
    fn log_excess(&self, t: f64) -> (f64, f64) {
        let x = t + 0.5 * self.d2;
        let parts = [(self.w0, self.d0), (self.w1, self.d1), (self.q, self.d2)].map(|(w, d)| {
            let exponent = if d.is_finite() { -d * (t + 0.5 * d) } else { f64::NEG_INFINITY };
            (w, if d.is_finite() { d } else { 0.0 }, exponent)
        });
        let largest = parts.iter().filter(|p| p.0 > 0.0).map(|p| p.2).fold(f64::NEG_INFINITY, f64::max);
        let (mut sum, mut moment) = (0.0, 0.0);
        for (w, d, exponent) in parts {
            let term = w * (exponent - largest).exp();
            sum += term;
            moment += d * term;
        }
        let value = self.q.ln() + (-(-self.d2 * x).exp_m1()).ln() - largest - sum.ln();
        (value, self.d2 / (self.d2 * x).exp_m1() + moment / sum)
    }

    /// The outcome whose loss is `target >= 0`, by Newton's method from an outcome `start` not above it.
    ///
    /// Newton's method on an increasing concave function approaches the root from below, from any start below it.
    fn outcome(&self, target: f64, start: f64) -> f64 {
        let origin = -0.5 * self.d2;
        if target <= 0.0 {
            return origin;
        }
        // ln(e^target - 1)
        let goal = if target > 30.0 { target + (-(-target).exp()).ln_1p() } else { target.exp_m1().ln() };
        let mut t = start.max(origin);
        if t == origin {
            // Near the origin the excess is linear: twice as small as that would make it is below the root.
            let (value, _) = self.log_excess(origin + 1e-3 / self.d2);
            let linear = 1e-3 / self.d2 * (goal - value).min(0.0).exp();
            t = origin + 0.5 * linear.max(f64::EPSILON * origin.abs());
        }
        for _ in 0..MAX_NEWTON {
            let (value, slope) = self.log_excess(t);
            let next = t + (goal - value) / slope;
            if !next.is_finite() || (next - t).abs() <= 2.0 * f64::EPSILON * (1.0 + t.abs()) {
                return t;
            }
            t = next.max(origin + f64::EPSILON * origin.abs());
        }
        t
    }

    fn mass(&self, from: f64, to: f64) -> CellMasses {
        let shifted = |d: f64| if d.is_finite() { normal::interval(from + d, to + d) } else { 0.0 };
        let common = self.w0 * shifted(self.d0) + self.w1 * shifted(self.d1);
        CellMasses { p: common + self.q * normal::interval(from, to), q: common + self.q * shifted(self.d2) }
    }

    /// Cells of the positive half; `boundaries` must not be negative, and what lies below the first is not counted.
    pub(super) fn cells(&self, boundaries: &[f64]) -> LossCells {
        let mut start = f64::NEG_INFINITY;
        let mut cells = outcome_cells(
            boundaries,
            |b| {
                start = self.outcome(b, start);
                start
            },
            |from, to| self.mass(from, to),
        );
        cells.below = CellMasses::default();
        cells
    }

    pub(super) fn probe(&self) -> Vec<Probe> {
        let origin = -0.5 * self.d2;
        let count = ((PROBE_REACH - origin) / PROBE_STEP).ceil() as usize;
        (0..count)
            .map(|i| {
                let from = origin + PROBE_STEP * i as f64;
                let to = from + PROBE_STEP;
                Probe { loss: self.log_ratio(0.5 * (from + to)), cell: self.mass(from, to) }
            })
            .collect()
    }
}
