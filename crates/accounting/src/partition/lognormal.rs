//! The mean of independent log-normals: the likelihood ratio of a Gaussian whose mean hides in one of many places.

use super::law::{GatheredMasses, RatioLaw, Spacing};
use crate::numerics::normal;
use crate::pair::Side;

/// How far beyond the centres, in standard deviations, the first law reaches: 1e-19 of the mass is left outside.
const REACH: f64 = 9.0;

/// `R = (1/d) sum_j X_j` for independent `X_j = e^{mu Z_j - mu^2 / 2}`, `Z_j` standard normal under `Q`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mean {
    pub(super) mu: f64,
    pub(super) count: u64,
    pub(super) spacing: Spacing,
}

impl Mean {
    pub(super) fn new(mu: f64, count: u64) -> Self {
        /// Widths of cells in standard deviations of what they cut: each level of the sum widens the bracket of a delta
        /// at z deviations by about `z^4 / 50` of the square of this, so that epsilon is known to about 1e-4 of itself.
        const RESOLUTION: f64 = 0.012;
        Self { mu, count, spacing: Spacing { resolution: RESOLUTION, relative: mu.max(1.0) } }
    }

    /// The same mean in wider cells, which give brackets of about a thousandth of epsilon at a sixth of the cost.
    pub(super) fn rough(self) -> Self {
        const WIDER: f64 = 2.5;
        let resolution = WIDER * self.spacing.resolution;
        Self { spacing: Spacing { resolution, ..self.spacing }, ..self }
    }

    /// The law of the product with a Gaussian pair at distance `mu`: `R X` for an independent log-normal `X`.
    ///
    /// # Guarantee
    /// As for [`Mean::law`]: `f(x .)` is convex for `x >= 0`, so rounding either factor keeps the order of the product.
    pub(super) fn law_beside(self, mu: f64, side: Side) -> RatioLaw {
        let relative = self.spacing.relative.max(mu);
        let split = Self { spacing: Spacing { relative, ..self.spacing }, ..self };
        let shared = Self { mu, count: 1, spacing: split.spacing };
        let variance = |mean: &Self| (mean.mu * mean.mu).exp_m1() / mean.count as f64;
        // Var(R X) = (1 + Var R) (1 + Var X) - 1
        let (a, b) = (variance(&split), variance(&shared));
        let deviation = (a + b + a * b).sqrt();
        let (x, y) = (split.law(side), shared.law(side));
        let (low, high) = (x.range().0 * y.range().0, x.range().1 * y.range().1);
        x.times(&y, &split.spacing.bounds(1.0, deviation, low, high), side)
    }

    /// The ratio's law from above or from below.
    ///
    /// # Guarantee
    /// One log-normal is cut into cells whose `Q`-mass and mean are normal probabilities; each cell is spread onto its ends
    /// (upper) or contracted to its barycentre (lower). `S_{2m} = S_m + S'_m` and `S_{m+1} = S_m + X` are rounded
    /// the same way, and rounding one term of a sum of independent terms keeps the convex order of the sum. Division by
    /// `d` keeps it too. So the upper law dominates `R` and `R` dominates the lower one in convex order.
    pub(super) fn law(&self, side: Side) -> RatioLaw {
        let mut law = self.one(self.spacing, side);
        let mut copies = 1;
        for bit in (0..self.count.max(1).ilog2()).rev() {
            copies *= 2;
            law = law.plus(&law, &self.bounds(copies, &law, &law), side);
            if self.count >> bit & 1 == 1 {
                let one = self.one(self.spacing_beside(copies), side);
                copies += 1;
                law = law.plus(&one, &self.bounds(copies, &law, &one), side);
            }
        }
        let scale = copies as f64;
        for value in &mut law.values {
            *value /= scale;
        }
        law.escaped /= scale;
        // |d ln delta / d epsilon| is at most about ten deviations over the squared deviation of the loss.
        let deviation = ((self.mu * self.mu).exp_m1() / scale).sqrt();
        law.rounding += POSITION_ROUNDING * (1.0 + 10.0 / deviation);
        law
    }

    /// The spacing of one term that is added to many: its share of the sum's spread is one in `copies`.
    fn spacing_beside(&self, copies: u64) -> Spacing {
        let resolution = self.spacing.resolution * (0.25 * copies as f64).sqrt().max(1.0);
        Spacing { resolution: resolution.min(0.25 / self.spacing.relative), ..self.spacing }
    }

    /// Bounds for the sum of two laws that together stand for `copies` log-normals.
    fn bounds(&self, copies: u64, a: &RatioLaw, b: &RatioLaw) -> Vec<f64> {
        let (low, high) = (a.range().0 + b.range().0, a.range().1 + b.range().1);
        let mean = copies as f64;
        // Var X = e^{mu^2} - 1
        self.spacing.bounds(mean, ((self.mu * self.mu).exp_m1() * mean).sqrt(), low, high)
    }

    /// The law of one log-normal.
    fn one(&self, spacing: Spacing, side: Side) -> RatioLaw {
        let mu = self.mu;
        let value = |z: f64| (mu * z - 0.5 * mu * mu).exp();
        let outcome = |v: f64| v.ln() / mu + 0.5 * mu;
        let deviation = (mu * mu).exp_m1().sqrt();
        let bounds = spacing.bounds(1.0, deviation, value(-REACH), value(mu + REACH));
        let mut gathered = GatheredMasses::new(&bounds, side);
        for (k, &bound) in bounds.iter().enumerate() {
            let (from, to) = (outcome(bound), bounds.get(k + 1).map_or(f64::INFINITY, |&b| outcome(b)));
            let mass = normal::interval(from, to);
            // E[X 1{from < Z <= to}] = P(from - mu < Z <= to - mu)
            let moment = normal::interval(from - mu, to - mu);
            if mass > 0.0 {
                gathered.add(k, mass, (moment - mass * bound).max(0.0));
            }
        }
        gathered.law(0.0, MASS_ROUNDING, bounds.len() as f64)
    }
}

/// Relative error of a cell's mass.
const MASS_ROUNDING: f64 = 1e-13;
/// Relative error of positions, all levels together: a shift of the loss, which moves delta by itself times
/// `|d ln delta / d epsilon|`.
const POSITION_ROUNDING: f64 = 1e-13;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

    use std::sync::Arc;

    use super::*;
    use crate::pair::DominatingPair;
    use crate::partition::Ratio;
    use crate::partition::ratio::RatioPart;
    use crate::partition::rdp::{Bound, PartitionRdp};

    fn pair_of(mean: Mean) -> DominatingPair {
        DominatingPair::Ratio(Arc::new(Ratio::mixture(vec![RatioPart {
            probability: 1.0,
            mean,
            beside: None,
        }])))
    }

    /// `H_{e^epsilon}` of a pair from one side.
    fn delta(pair: &DominatingPair, epsilon: f64, side: Side) -> f64 {
        let above = pair.cells(&[epsilon], side).above;
        above.p - epsilon.exp() * above.q
    }

    #[test]
    fn both_directions_enclose_laplace_inversion() {
        let mut known = ((0.0, 0.0), None);
        for line in include_str!("../../tests/goldens/partition/split.csv")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .skip(1)
        {
            let row: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
            let [places, sigma, epsilon, remove, add, error] = row[..] else { panic!("{line}") };
            if (places, sigma) != known.0 {
                known = ((places, sigma), Some(pair_of(Mean::new(1.0 / sigma, places as u64))));
            }
            let pair = known.1.clone().unwrap();
            for (pair, exact) in [(pair.clone(), remove), (pair.reversed(), add)] {
                let (lower, upper) = (delta(&pair, epsilon, Side::Lower), delta(&pair, epsilon, Side::Upper));
                // The golden's own error, and its twelve digits.
                let error = 4.0 * error + 1e-12 * exact;
                assert!(lower <= exact + error && exact - error <= upper, "{line}: {lower} {exact} {upper}");
                // |d ln delta / d ln epsilon| is above 10 in the tails here: a few hundredths of delta are a few thousandths of
                // epsilon at the most.
                assert!(upper - lower <= 0.03 * exact, "{line}: [{lower}, {upper}] is wide");
            }
        }
    }

    /// `ln E f(R)^power / (a - 1)` over a law.
    fn divergence(law: &RatioLaw, f: impl Fn(f64) -> f64, power: f64, a: f64) -> f64 {
        let terms = law.values.iter().zip(&law.masses).map(|(&v, m)| m.ln() + power * f(v).ln());
        crate::rdp::log_sum(terms) / (a - 1.0)
    }

    /// `D_a(P || Q) = ln E_Q R^a / (a - 1)` and `D_a(Q || P) = ln E_Q R^{1-a} / (a - 1)` are means of convex functions: those of the
    /// lower law lie below equation (2), which lies below equation (3), sampled or not, whole or in part.
    #[test]
    fn renyi_divergences_of_the_laws_keep_to_their_sides() {
        for (places, sigma) in [(2, 1.0), (3, 0.6), (8, 2.0), (50, 1.0), (300, 0.8)] {
            let mean = Mean::new(1.0 / sigma, places);
            for (nonsplit, rate) in [(0.0, 1.0), (0.0, 0.1), (0.7, 0.3)] {
                let [upper, lower] = [Side::Upper, Side::Lower].map(|side| match nonsplit > 0.0 {
                    true => mean.law_beside(nonsplit / sigma, side),
                    false => mean.law(side),
                });
                let [two, three] = [Bound::Exact, Bound::Convexity].map(|bound| {
                    PartitionRdp::partial_split(places, 1.0, nonsplit, sigma, bound)
                        .unwrap()
                        .sampled(rate)
                        .unwrap()
                });
                let sampled = |r: f64| 1.0 - rate + rate * r;
                for order in [2_u32, 3, 5, 10, 20, 40] {
                    let a = f64::from(order);
                    let (two, three) = (two.divergence(order).unwrap(), three.divergence(order).unwrap());
                    let setting = format!("{places} {sigma} {nonsplit} {rate} {order}");
                    // Sums of thousands of terms, counted as rounding in the laws.
                    let slack = 1e-9;
                    assert!(two <= three + slack, "{setting}: {two} {three}");
                    assert!(divergence(&lower, sampled, a, a) <= two + slack, "{setting}");
                    // The forward divergence bounds the reverse one.
                    assert!(divergence(&lower, sampled, 1.0 - a, a) <= two + slack, "{setting}");
                    if order <= 3 {
                        // Higher moments live beyond the values that the law keeps.
                        assert!(divergence(&upper, sampled, a, a) >= two - slack, "{setting}");
                    }
                }
            }
        }
    }

    /// Comparing with one Gaussian in the `d - 1` dimensions that the centres span is no bound on the reverse divergence.
    #[test]
    fn a_gaussian_surrogate_falls_below_the_reverse_divergence() {
        for (places, sigma) in [(8, 2.0_f64), (50, 1.0), (300, 0.8)] {
            let d = places as f64;
            let squared = sigma * sigma;
            let x = 1.0 / (squared * d);
            // Order 2: 1 / (sigma^2 d) + (2 v - (d-1) ln(2 e^{v / (d-1)} - 1)) / 2 with v / (d-1) = 1 / (sigma^2 d)
            let surrogate = x + 0.5 * (d - 1.0) * (2.0 * x - (2.0 * x.exp_m1()).ln_1p());
            let lower = Mean::new(1.0 / sigma, places).law(Side::Lower);
            let certified: f64 = lower.values.iter().zip(&lower.masses).map(|(v, m)| m / v).sum();
            assert!(certified.ln() > 1.001 * surrogate, "{places} {sigma}: {} {surrogate}", certified.ln());
        }
    }

    #[test]
    fn sampled_ratios_mix_with_their_base_in_both_directions() {
        let pair = pair_of(Mean::new(1.0, 5));
        let (rate, epsilon) = (0.1, 0.05_f64);
        let a = epsilon.exp();
        for side in [Side::Upper, Side::Lower] {
            // H_a((1-q) Q + q P || Q) = q H_{1 + (a-1)/q}(P || Q)
            let remove = delta(&pair.clone().subsampled(rate), epsilon, side);
            let base = rate * delta(&pair, ((a - 1.0) / rate).ln_1p(), side);
            // Differences of masses of order 1: a few roundings.
            assert!((remove - base).abs() < 1e-14, "{remove} {base}");
            // H_a(Q || (1-q) Q + q P) = (1 - a (1-q)) H_{a q / (1 - a (1-q))}(Q || P)
            let rest = 1.0 - a * (1.0 - rate);
            let add = delta(&pair.clone().subsampled(rate).reversed(), epsilon, side);
            let base = rest * delta(&pair.clone().reversed(), (a * rate / rest).ln(), side);
            assert!((add - base).abs() < 1e-14, "{add} {base}");
        }
    }
}
