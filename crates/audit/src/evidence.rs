//! What the released value of one step says about a coin.

use dapple_plan::{Plan, Relation};

/// How a step treats a canary, as the plan says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evidence {
    /// The probability that the step's sum contains what the coin decides.
    rate: f64,
    /// Standard deviation of the noise, in clip norms.
    noise: f64,
    /// Whether tails shows the opposite of heads, rather than nothing.
    opposite: bool,
}

impl Evidence {
    pub(crate) fn new(part: &Plan) -> Self {
        let opposite = matches!(part.relation(), Relation::Replace | Relation::Patch);
        Self { rate: part.effective_rate(), noise: part.gradient_noise(), opposite }
    }

    /// The logarithm of how much likelier a value is under heads than under tails. The value is measured along the canary's direction, in
    /// clip norms.
    pub(crate) fn of(self, value: f64) -> f64 {
        let tails = if self.opposite { self.shown(-value) } else { 0.0 };
        self.shown(value) - tails
    }

    /// `ln(1 - q + q exp((2 v - 1) / (2 sigma^2)))`: the likelihood ratio of a value that contains one clip norm with probability `q`
    /// against one that contains none.
    fn shown(self, value: f64) -> f64 {
        let exponent = (2.0 * value - 1.0) / (2.0 * self.noise * self.noise);
        // Where the exponential would overflow, the other term is negligible.
        if exponent > 500.0 { exponent + self.rate.ln() } else { (self.rate * exponent.exp_m1()).ln_1p() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the densities written out.
    #[test]
    fn evidence_is_the_log_of_a_ratio_of_densities() {
        let density = |x: f64, mean: f64| (-(x - mean) * (x - mean) / (2.0 * 0.49)).exp();
        let mixed = |x: f64, mean: f64| 0.8 * density(x, 0.0) + 0.2 * density(x, mean);
        for x in [-3.0, -0.4, 0.0, 0.5, 1.0, 2.5] {
            let one = Evidence { rate: 0.2, noise: 0.7, opposite: false };
            let two = Evidence { opposite: true, ..one };
            // Densities as small as e^-30 are rounded to double precision.
            assert!((one.of(x) - (mixed(x, 1.0) / density(x, 0.0)).ln()).abs() < 1e-12);
            assert!((two.of(x) - (mixed(x, 1.0) / mixed(x, -1.0)).ln()).abs() < 1e-12);
        }
    }

    #[test]
    fn tiny_noise_does_not_overflow() {
        let evidence = Evidence { rate: 0.5, noise: 1e-3, opposite: true };
        assert!(evidence.of(1.0).is_finite() && evidence.of(1.0) > 1e5);
        assert!((evidence.of(1.0) + evidence.of(-1.0)).abs() < 1e-9 * evidence.of(1.0));
    }
}
