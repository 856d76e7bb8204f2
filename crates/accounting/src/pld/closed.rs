//! Products that need no lattice.

use super::exact::{self, Exact};
use crate::bracket::Bracket;
use crate::limits;
use crate::numerics::normal::log_gaussian_delta;
use crate::numerics::root::bisect_condition;
use crate::pair::{CellMasses, DominatingPair, Gaussian, MASS_ERROR, Side};

/// Relative error of closed forms.
const CLOSED_FORM_ERROR: f64 = 1e-11;

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
        match self {
            Self::Nothing => Bracket::exact(0.0),
            Self::Gaussian { mu } => {
                let delta = log_gaussian_delta(*mu, epsilon).exp();
                Bracket::between(
                    delta * (1.0 - CLOSED_FORM_ERROR),
                    (delta * (1.0 + CLOSED_FORM_ERROR)).min(1.0),
                )
            }
            Self::Exact(exact) => {
                Bracket::between(exact.delta(epsilon, Side::Lower), exact.delta(epsilon, Side::Upper))
            }
            Self::Step(pair) => {
                let one_side = |side: Side, sign: f64| {
                    let cells = pair.cells(&[epsilon], side);
                    let high =
                        pair.atoms(side).into_iter().filter(|atom| atom.loss > epsilon).map(|atom| atom.cell);
                    let above = high
                        .fold(cells.above, |sum, cell| CellMasses { p: sum.p + cell.p, q: sum.q + cell.q });
                    let (loss_error, mass_error) = pair.errors(side);
                    let q = if above.q > 0.0 { (epsilon + above.q.ln()).exp() } else { 0.0 };
                    if q > 2.0 * above.p {
                        return cells.infinite;
                    }
                    let error = (MASS_ERROR + mass_error) * (above.p + q) + loss_error * q;
                    ((above.p - q + sign * error).max(0.0) + cells.infinite).min(1.0)
                };
                Bracket::between(one_side(Side::Lower, -1.0), one_side(Side::Upper, 1.0))
            }
        }
    }

    pub(super) fn epsilon(&self, delta: f64) -> Bracket {
        let solve = |reaches: &dyn Fn(f64) -> bool| {
            if reaches(0.0) {
                (0.0, 0.0)
            } else {
                bisect_condition(0.0, 2.0 * limits::MAX_EPSILON, 1e-13, reaches)
            }
        };
        Bracket::between(
            solve(&|epsilon| self.delta(epsilon).least() <= delta).0,
            solve(&|epsilon| self.delta(epsilon).upper <= delta).1,
        )
    }
}
