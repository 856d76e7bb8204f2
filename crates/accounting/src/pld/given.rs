//! Distributions that come from elsewhere, loss by loss.

use std::sync::Arc;

use super::Pld;
use crate::error::{AccountingError, Result, in_range};
use crate::limits;
use crate::pair::{Atoms, Discrete, DominatingPair};

/// A privacy-loss distribution with finitely many losses.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GivenLosses {
    /// Losses, strictly increasing, with the probability of each under the first distribution of the pair.
    pub losses: Vec<(f64, f64)>,
    /// The probability of an infinite loss.
    pub infinite: f64,
}

impl GivenLosses {
    /// The pair of these losses. Mass that is missing to 1 counts as infinite loss.
    fn pair(&self) -> Result<DominatingPair> {
        let (losses, masses): (Vec<f64>, Vec<f64>) = self.losses.iter().copied().unzip();
        for &loss in &losses {
            in_range("loss", loss, -limits::MAX_EPSILON, limits::MAX_EPSILON, "[-10000, 10000]")?;
        }
        if let Some(pair) = losses.windows(2).find(|pair| pair[0] >= pair[1]) {
            let range = "the increasing order of losses";
            return Err(AccountingError::OutOfRange { name: "loss", value: pair[1], range });
        }
        for &mass in masses.iter().chain([&self.infinite]) {
            in_range("probability", mass, 0.0, 1.0 + ROUNDING, "[0, 1]")?;
        }
        let sum = masses.iter().sum::<f64>() + self.infinite;
        if (sum - 1.0).abs() > ROUNDING {
            return Err(AccountingError::NotADistribution { names: "of the losses", sum });
        }
        // The other distribution has `sum p e^-l` of its mass at these losses.
        let counted = self.losses.iter().filter(|(_, mass)| *mass > FOURIER_NOISE);
        let other: f64 = counted.map(|(loss, mass)| mass * (-loss).exp()).sum();
        if other > 1.0 + ROUNDING {
            return Err(AccountingError::NotADistribution {
                names: "that the losses leave to the other data set",
                sum: other,
            });
        }
        // Less than the rounding of the sum is no mass that is missing, but an error of all masses.
        let missing = (1.0 - sum).max(0.0);
        let rounding = (masses.len() as f64 + 2.0) * f64::EPSILON;
        let (missing, mass_error) = if missing > rounding { (missing, 0.0) } else { (0.0, 2.0 * rounding) };
        let infinite = self.infinite + missing;
        let atoms = Atoms { losses, masses, infinite, loss_error: 0.0, mass_error };
        Ok(DominatingPair::Discrete(Arc::new(Discrete::exact(atoms))))
    }
}

/// How far probabilities that others computed by Fourier transforms may be from a sum of 1.
const ROUNDING: f64 = 1e-6;

/// Masses below this may be nothing but the rounding of such a transform. At very negative losses they would ask for more of the other
/// distribution than it has, and at no loss above 0 do they matter.
const FOURIER_NOISE: f64 = 1e-10;

impl Pld {
    /// A mechanism known by its losses: those of removing a record, and those of adding one, where they differ.
    ///
    /// # Guarantee
    /// Answers are brackets of the distributions given. They bound a mechanism's privacy where the distributions dominate it.
    ///
    /// # Errors
    /// Losses that do not increase, or probabilities that do not add up to 1.
    pub fn from_losses(removal: &GivenLosses, addition: Option<&GivenLosses>) -> Result<Self> {
        Ok(Self::of_pairs(removal.pair()?, addition.map(GivenLosses::pair).transpose()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BracketPrecision;

    /// Randomised response: the truth with probability `e^epsilon / (1 + e^epsilon)`.
    fn response(epsilon: f64) -> GivenLosses {
        let truth = epsilon.exp() / (1.0 + epsilon.exp());
        GivenLosses { losses: vec![(-epsilon, 1.0 - truth), (epsilon, truth)], infinite: 0.0 }
    }

    #[test]
    fn given_losses_are_bracketed() {
        let pld = Pld::from_losses(&response(0.3), None).unwrap();
        let truth = 0.3_f64.exp() / (1.0 + 0.3_f64.exp());
        for at in [0.0, 0.1, 0.29, 0.3, 2.0] {
            let bracket = pld.delta(at, BracketPrecision::default()).unwrap();
            let exact = truth * (1.0 - (at - 0.3_f64).exp()).max(0.0);
            // The closed form itself is good to a few roundings.
            assert!(
                bracket.lower.unwrap() <= exact + 1e-15 && exact <= bracket.upper + 1e-15,
                "{at} {bracket:?} {exact}"
            );
        }
    }

    #[test]
    fn directions_are_kept_apart() {
        let (weak, strong) = (response(0.1), response(0.9));
        let pld = Pld::from_losses(&weak, Some(&strong)).unwrap();
        let alone = Pld::from_losses(&strong, None).unwrap();
        assert!(!pld.is_symmetric() && alone.is_symmetric());
        let delta = |pld: &Pld| pld.delta(0.2, BracketPrecision::default()).unwrap();
        assert_eq!(delta(&pld), delta(&alone));
    }

    /// Losses on a lattice with most of the mass at one end. Removing a rarely sampled record gives such a distribution, and adding one gives its mirror image.
    /// The first atom lies at `sign * end`, the others towards the other side.
    fn skewed(sign: f64, end: f64) -> (Vec<f64>, GivenLosses) {
        let h = 1e-3;
        let rates = |k: usize| (-0.15 * k as f64).exp();
        let total: f64 = (0..3000).map(rates).sum();
        let masses: Vec<f64> = (0..3000).map(|k| rates(k) / total).collect();
        let mut losses: Vec<(f64, f64)> =
            masses.iter().enumerate().map(|(k, &mass)| (sign * (end - h * k as f64), mass)).collect();
        if sign > 0.0 {
            losses.reverse();
        }
        (masses, GivenLosses { losses, infinite: 0.0 })
    }

    #[test]
    fn compositions_keep_what_lies_at_the_ends() {
        for (sign, end) in [(1.0, 0.02), (-1.0, 0.005)] {
            let (masses, given) = skewed(sign, end);
            let pld = Pld::from_losses(&given, None).unwrap().self_compose(8);
            // By plain convolution; beyond 400 places lies less than e^-60.
            let twice = |a: &[f64]| {
                let mut sum = vec![0.0; 2 * a.len() - 1];
                a.iter().enumerate().for_each(|(i, x)| {
                    a.iter().enumerate().for_each(|(j, y)| sum[i + j] += x * y);
                });
                sum
            };
            let composed = twice(&twice(&twice(&masses[..400])));
            for epsilon in [0.0, 0.05, 0.1] {
                let above = |(k, mass): (usize, &f64)| {
                    let loss = sign * (8.0 * end - 1e-3 * k as f64);
                    mass * (1.0 - (epsilon - loss).exp()).max(0.0)
                };
                let exact: f64 = composed.iter().enumerate().map(above).sum();
                let bracket = pld.delta(epsilon, BracketPrecision::default()).unwrap();
                // Sums of a few thousand products.
                assert!(
                    bracket.lower.unwrap() <= exact * (1.0 + 1e-9) && exact * (1.0 - 1e-9) <= bracket.upper
                );
                // A thousandth of epsilon is worth a percent or two of so small a delta.
                assert!(bracket.width() <= 0.02 * exact, "{sign} {epsilon} {bracket:?} {exact}");
            }
        }
    }

    #[test]
    fn missing_mass_is_an_infinite_loss() {
        let given = GivenLosses { losses: vec![(0.0, 1.0 - 1e-7)], infinite: 0.0 };
        let bracket =
            Pld::from_losses(&given, None).unwrap().delta(5.0, BracketPrecision::default()).unwrap();
        // The sum of the masses is rounded to 1e-16.
        assert!((bracket.upper - 1e-7).abs() < 1e-15, "{bracket:?}");
    }

    #[test]
    fn nonsense_is_refused() {
        let nonsense = [
            (vec![(0.0, 0.5), (0.0, 0.5)], 0.0),
            (vec![(0.0, 0.5)], 0.0),
            (vec![(0.0, 1.5)], 0.0),
            (vec![(0.0, 1.5), (1.0, -0.5)], 0.0),
            (vec![(f64::NAN, 1.0)], 0.0),
            (vec![(f64::INFINITY, 1.0)], 0.0),
            (vec![(0.0, f64::NAN)], 0.0),
            (vec![(0.0, 0.5)], f64::NAN),
        ];
        for (losses, infinite) in nonsense {
            let given = GivenLosses { losses, infinite };
            let error = Pld::from_losses(&given, None).unwrap_err();
            assert!(!error.hint().is_empty(), "{error}");
        }
    }
}
