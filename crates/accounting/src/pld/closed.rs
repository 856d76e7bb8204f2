//! Products that need no lattice.

use super::exact::{self, Exact};
use crate::bracket::Bracket;
use crate::limits;
use crate::numerics::normal::log_gaussian_delta;
use crate::numerics::root::bisect_condition;
use crate::pair::{CellMasses, DominatingPair, Gaussian, MASS_ERROR, Side};

/// Relative error of closed forms.
const CLOSED_FORM_ERROR: f64 = 1e-11;

/// How closely the epsilon of a closed form is solved for, relative to itself.
const CLOSED_FORM_STEP: f64 = 1e-13;

/// Products whose profile needs no lattice.
pub(super) enum ClosedForm<'a> {
    Nothing,
    Gaussian {
        mu: f64,
    },
    /// Finitely many losses.
    Exact(Exact),
    /// One step of any other pair.
    Step(&'a DominatingPair),
}

impl<'a> ClosedForm<'a> {
    pub(super) fn of(factors: &'a [(DominatingPair, u64)]) -> Option<Self> {
        match factors {
            [] => Some(Self::Nothing),
            [(DominatingPair::Gaussian(Gaussian { mu }), 1)] => Some(Self::Gaussian { mu: *mu }),
            _ => match (exact::product(factors), factors) {
                (Some(atoms), _) => Some(Self::Exact(Exact::new(atoms))),
                (None, [(pair, 1)]) => Some(Self::Step(pair)),
                _ => None,
            },
        }
    }

    pub(super) fn delta(&self, epsilon: f64) -> Bracket {
        Bracket::between(self.delta_on(Side::Lower, epsilon), self.delta_on(Side::Upper, epsilon))
    }

    /// One end of the bracket of delta.
    fn delta_on(&self, side: Side, epsilon: f64) -> f64 {
        let sign = match side {
            Side::Upper => 1.0,
            Side::Lower => -1.0,
        };
        match self {
            Self::Nothing => 0.0,
            Self::Gaussian { mu } => {
                (log_gaussian_delta(*mu, epsilon).exp() * (1.0 + sign * CLOSED_FORM_ERROR)).min(1.0)
            }
            Self::Exact(exact) => exact.delta(epsilon, side),
            Self::Step(pair) => {
                let cells = pair.cells(&[epsilon], side);
                let high =
                    pair.atoms(side).into_iter().filter(|atom| atom.loss > epsilon).map(|atom| atom.cell);
                let above =
                    high.fold(cells.above, |sum, cell| CellMasses { p: sum.p + cell.p, q: sum.q + cell.q });
                let (loss_error, mass_error) = pair.errors(side);
                let q = if above.q > 0.0 { (epsilon + above.q.ln()).exp() } else { 0.0 };
                if q > 2.0 * above.p {
                    return cells.infinite;
                }
                let error = (MASS_ERROR + mass_error) * (above.p + q) + loss_error * q;
                ((above.p - q + sign * error).max(0.0) + cells.infinite).min(1.0)
            }
        }
    }

    pub(super) fn epsilon(&self, delta: f64) -> Bracket {
        let reaches = |side: Side, epsilon: f64| {
            let reached = self.delta_on(side, epsilon);
            assert!(!reached.is_nan(), "delta at epsilon {epsilon} is no number");
            reached <= delta
        };
        let solve = |side: Side, low: f64, high: f64| {
            bisect_condition(low, high, CLOSED_FORM_STEP, |epsilon| reaches(side, epsilon))
        };
        let lower = match reaches(Side::Lower, 0.0) {
            true => 0.0,
            false => solve(Side::Lower, 0.0, 2.0 * limits::MAX_EPSILON).0,
        };
        if reaches(Side::Upper, lower) {
            return Bracket::between(lower, lower);
        }
        // The upper end lies close behind the lower one: first look there, then ever further away.
        let (mut low, mut distance) = (lower, 1e-9 * lower.max(1e-9));
        while low + distance < 2.0 * limits::MAX_EPSILON && !reaches(Side::Upper, low + distance) {
            low += distance;
            distance *= 16.0;
        }
        let high = (low + distance).min(2.0 * limits::MAX_EPSILON);
        Bracket::between(lower, solve(Side::Upper, low, high).1)
    }
}
