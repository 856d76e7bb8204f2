//! What tests between neighbouring data sets can reach at the most (f-DP; Dong, Roth and Su 2022).

use super::profile::{BracketPrecision, Pld};
use super::solver::support;
use crate::error::{AccountingError, Result, in_range};
use crate::limits;

/// How many lines bound a curve.
const LINES: u32 = 400;

/// The trade-off curve of a mechanism, as the lines below it: at each epsilon one, and its mirror image.
///
/// # Guarantee
/// No test between neighbouring data sets, in either direction, has smaller errors: each line uses an upper bound on delta.
#[derive(Debug, Clone, PartialEq)]
pub struct TradeOffCurve {
    /// `e^epsilon` and delta.
    lines: Vec<(f64, f64)>,
}

impl TradeOffCurve {
    /// A lower bound on the type-II error of a test with this type-I error: `max_eps max(0, 1 - delta(eps) - e^eps alpha)` over both signs.
    #[must_use]
    pub fn type_two(&self, alpha: f64) -> f64 {
        self.lines.iter().fold(0.0_f64, |best, (factor, delta)| {
            let steep = 1.0 - delta - factor * alpha;
            let flat = (1.0 - delta - alpha) / factor;
            best.max(steep).max(flat)
        })
    }

    /// A lower bound on the type-I error of a test with this power, the same lines read the other way.
    #[must_use]
    pub fn type_one(&self, power: f64) -> f64 {
        // Curves of both directions together are their own mirror images.
        self.type_two(1.0 - power)
    }
}

impl Pld {
    /// At each type-I error `alpha` of a test between neighbouring data sets, a lower bound on its type-II error.
    ///
    /// # Errors
    /// An alpha outside [0, 1].
    pub fn trade_off(&self, alphas: &[f64], precision: BracketPrecision) -> Result<Vec<f64>> {
        for &alpha in alphas {
            in_range("alpha", alpha, 0.0, 1.0, "[0, 1]")?;
        }
        let curve = self.trade_off_curve(precision)?;
        Ok(alphas.iter().map(|&alpha| curve.type_two(alpha)).collect())
    }

    /// The trade-off curve of the mechanism.
    ///
    /// # Errors
    /// Those of [`Pld::profile`].
    pub fn trade_off_curve(&self, precision: BracketPrecision) -> Result<TradeOffCurve> {
        // Past this epsilon a line starts below 1e-9 of any alpha that matters, beside what infinite losses give away.
        let infinite = self.directions().map(|factors| support(factors).infinite).fold(0.0, f64::max);
        let top = match self.epsilon((infinite + 1e-9).min(1.0_f64.next_down()), precision) {
            Ok(bracket) => bracket.upper.max(1e-6),
            Err(AccountingError::EpsilonTooLarge { .. }) => limits::MAX_EPSILON,
            Err(error) => return Err(error),
        };
        let epsilons: Vec<f64> = (0..=LINES).map(|i| top * f64::from(i) / f64::from(LINES)).collect();
        let deltas = self.profile(&epsilons, precision)?;
        let lines = epsilons.iter().zip(&deltas).map(|(epsilon, delta)| (epsilon.exp(), delta.upper));
        Ok(TradeOffCurve { lines: lines.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::normal;

    /// The curve of a Gaussian mechanism is `Phi(Phi^-1(1 - alpha) - mu)`, so that thresholds `t` have errors `Phi(-t)` and `Phi(t - mu)`.
    #[test]
    fn the_errors_of_thresholds_are_those_of_the_curve() {
        for mu in [0.3, 1.0, 3.0] {
            let curve =
                Pld::gaussian_distance(mu).unwrap().trade_off_curve(BracketPrecision::default()).unwrap();
            for step in -8..20 {
                let t = 0.25 * f64::from(step);
                let (alpha, beta) = (normal::upper_tail(t), normal::upper_tail(mu - t));
                let found = curve.type_two(alpha);
                // Four hundred lines follow the curve to three digits.
                assert!(found <= beta + 1e-12 && found > beta - 2e-3, "{mu} {t}: {found} {beta}");
                let found = curve.type_one(1.0 - beta);
                assert!(found <= alpha + 1e-12 && found > alpha - 2e-3, "{mu} {t}: {found} {alpha}");
            }
        }
    }
}
