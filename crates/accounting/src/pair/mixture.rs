//! A normal whose mean is drawn, against one at 0.

use super::gaussian::{PROBE_REACH, PROBE_STEP, outcome_cells};
use super::{CellMasses, LossCells, Probe, Support};
use crate::error::{Result, adds_up_to_one, in_range};
use crate::numerics::normal;
use crate::rdp::log_sum;

/// `P = sum_i p_i N(c_i, 1)`, `Q = N(0, 1)` with centres `c_i >= 0`: the loss at `t`, `ln sum_i p_i e^{c_i t - c_i^2 / 2}`,
/// increases in `t`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mixture {
    /// The probability of the centre 0.
    still: f64,
    /// The other centres with their probabilities.
    moving: Vec<(f64, f64)>,
}

/// Newton steps after which a root is taken as found; a dozen suffice from anywhere.
const MAX_NEWTON: usize = 200;

impl Mixture {
    /// Checks probabilities and centres, given as pairs of both.
    pub(crate) fn new(parts: &[(f64, f64)]) -> Result<Self> {
        for &(probability, centre) in parts {
            in_range("probability", probability, 0.0, 1.0, "[0, 1]")?;
            in_range("distance", centre, 0.0, 1e6, "[0, 1e6]")?;
        }
        adds_up_to_one("of the sensitivities", parts.iter().map(|part| part.0))?;
        let mut moving: Vec<(f64, f64)> =
            parts.iter().copied().filter(|&(p, c)| p > 0.0 && c > 0.0).collect();
        moving.sort_by(|a, b| a.1.total_cmp(&b.1));
        // What is left to the others: probabilities add up to 1 only up to rounding.
        let still = match parts.iter().any(|&(p, c)| p > 0.0 && c == 0.0) {
            true => (1.0 - moving.iter().map(|part| part.0).sum::<f64>()).max(f64::MIN_POSITIVE),
            false => 0.0,
        };
        Ok(Self { still, moving })
    }

    /// The only centre, where there is one.
    pub(crate) fn single(&self) -> Option<f64> {
        match self.moving.as_slice() {
            [] => Some(0.0),
            [(_, centre)] if self.still == 0.0 => Some(*centre),
            _ => None,
        }
    }

    /// `ln` of the part of `p/q` that grows, and its slope: convex in `t`, with a slope between the least and the largest centre.
    fn growing(&self, t: f64) -> (f64, f64) {
        let exponents = self.moving.iter().map(|(p, c)| p.ln() + c * (t - 0.5 * c));
        let value = log_sum(exponents.clone());
        let slope = exponents.zip(&self.moving).map(|(exponent, (_, c))| c * (exponent - value).exp()).sum();
        (value, slope)
    }

    fn log_ratio(&self, t: f64) -> f64 {
        let growing = self.growing(t).0;
        if self.still == 0.0 {
            return growing;
        }
        let still = self.still.ln();
        let (low, high) = if growing < still { (growing, still) } else { (still, growing) };
        high + (low - high).exp().ln_1p()
    }

    /// The outcome with this loss; minus infinity below all losses.
    fn outcome(&self, loss: f64) -> f64 {
        let goal = match self.still {
            0.0 => loss,
            still => {
                // ln(e^loss - still)
                let above = loss - still.ln();
                if above <= 0.0 {
                    return f64::NEG_INFINITY;
                }
                if above > 30.0 { loss + (-(-above).exp()).ln_1p() } else { still.ln() + above.exp_m1().ln() }
            }
        };
        // Each centre alone is a lower bound, so that its root is above the one sought; from there Newton's method on a convex
        // function never passes it.
        let roots = self.moving.iter().map(|(p, c)| (goal - p.ln()) / c + 0.5 * c);
        let mut t = roots.fold(f64::INFINITY, f64::min);
        for _ in 0..MAX_NEWTON {
            let (value, slope) = self.growing(t);
            let next = t - (value - goal) / slope;
            if !next.is_finite() || (next - t).abs() <= 2.0 * f64::EPSILON * (1.0 + t.abs()) {
                break;
            }
            t = next;
        }
        t
    }

    fn mass(&self, from: f64, to: f64) -> CellMasses {
        let moving = self.moving.iter().map(|(p, c)| p * normal::interval(from - c, to - c)).sum::<f64>();
        let q = normal::interval(from, to);
        CellMasses { p: self.still * q + moving, q }
    }

    pub(super) fn cells(&self, boundaries: &[f64]) -> LossCells {
        outcome_cells(boundaries, |b| self.outcome(b), |from, to| self.mass(from, to))
    }

    pub(super) fn probe(&self) -> Vec<Probe> {
        let top = self.moving.last().map_or(0.0, |part| part.1);
        let count = ((top + 2.0 * PROBE_REACH) / PROBE_STEP).ceil() as usize;
        (0..count)
            .map(|i| {
                let from = -PROBE_REACH + PROBE_STEP * i as f64;
                let to = from + PROBE_STEP;
                Probe { loss: self.log_ratio(0.5 * (from + to)), cell: self.mass(from, to) }
            })
            .collect()
    }

    pub(super) fn support(&self) -> Support {
        // ln 0 where nothing stays at 0; a few roundings otherwise.
        let low = self.still.ln();
        Support { low: low - 16.0 * f64::EPSILON * low.abs(), ..Support::UNBOUNDED }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_have_their_losses() {
        let mixtures = [
            vec![(0.2, 0.0), (0.6, 1.0), (0.2, 2.0)],
            vec![(0.5, 1e-3), (0.5, 30.0)],
            vec![(0.999, 0.0), (1e-3, 5.0)],
        ];
        for parts in mixtures {
            let mixture = Mixture::new(&parts).unwrap();
            for i in -60..60 {
                let t = f64::from(i) * 0.25;
                let loss = mixture.log_ratio(t);
                let back = mixture.log_ratio(mixture.outcome(loss));
                // A few roundings of the loss; near its end the outcome is ill-conditioned, the loss is not.
                assert!(
                    (back - loss).abs() <= 1e-14 * (1.0 + loss.abs()),
                    "{parts:?} {t}: {back} for {loss}"
                );
            }
        }
    }
}
