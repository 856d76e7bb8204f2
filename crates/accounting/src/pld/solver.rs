//! Chooses tilts and grids until the bracket is as narrow as asked.

use super::compose::{Composed, Grid, compose};
use super::curve::Curve;
use super::exact::{self, Exact};
use super::profile::Precision;
use super::tilt::{Probes, Question};
use crate::bracket::Bracket;
use crate::error::{AccountingError, Result};
use crate::limits;
use crate::numerics::fft::Convolver;
use crate::numerics::normal::log_gaussian_delta;
use crate::numerics::root::bisect_condition;
use crate::pair::{Atoms, Cell, Discrete, Gaussian, MASS_ERROR, Pair, Side, Support};

/// Answers questions about products of pairs; keeps Fourier plans between them.
pub(super) struct Solver {
    convolver: Convolver,
    precision: Precision,
}

/// Epsilons below this are only as precise in absolute terms as this one in relative.
const SMALL_EPSILON: f64 = 1e-3;
/// Relative error of closed forms.
const CLOSED_FORM_ERROR: f64 = 1e-11;
/// Below this, deltas are not told apart in a profile.
const NEGLIGIBLE_DELTA: f64 = 1e-20;
/// A tilt of this many nats over the width that a bracket may have: a larger one would look closer than anybody asked.
///
/// Chernoff bounds are convex in the tilt and at least `ln delta`, above -35, at their best: a tilt of `NATS / width` that is below
/// the best one leaves at most 35 nats to gain, 23 of which truncation and rounding leave room for, and the rest is worth 12 / NATS of the width.
const NATS: f64 = 50.0;
/// Refinements of the grid before the bracket is returned as it is.
const MAX_REFINEMENTS: usize = 5;

impl Solver {
    pub(super) fn new(precision: Precision) -> Self {
        Self { convolver: Convolver::new(), precision }
    }

    /// Epsilon of one direction. Where it stays below the upper end of `known`, another direction's bracket, an
    /// upper bound is all that the larger of the two needs.
    pub(super) fn epsilon(&mut self, factors: &[(Pair, u64)], delta: f64, known: Bracket) -> Result<Bracket> {
        let support = support(factors);
        if delta == 0.0 {
            return pure(support);
        }
        // Infinite losses are part of delta at every epsilon.
        let finite = delta - support.infinite;
        if finite <= 0.0 {
            return Err(AccountingError::EpsilonTooLarge { limit: limits::MAX_EPSILON, delta });
        }
        if let Some(closed) = ClosedForm::of(factors) {
            return Ok(bounded(closed.epsilon(delta), support));
        }
        let mut grid = self.epsilon_grid(factors, finite);
        let mut best = Bracket { lower: 0.0, upper: f64::INFINITY };
        for _ in 0..MAX_REFINEMENTS {
            let composed = self.composed(factors, grid, Side::Upper)?;
            let upper = Curve::new(&composed, Side::Upper);
            best.upper = best.upper.min(upper.epsilon(delta).unwrap_or(f64::INFINITY)).min(support.high);
            if best.upper <= known.upper {
                return Ok(Bracket { lower: 0.0, upper: best.upper });
            }
            let composed = self.composed(factors, grid, Side::Lower)?;
            let lower = Curve::new(&composed, Side::Lower);
            best.lower = best.lower.max(lower.epsilon(delta).unwrap_or(0.0));
            let allowed = self.precision.relative * best.upper.max(SMALL_EPSILON);
            // A finer grid narrows the gap between the two distributions, but not the errors around them.
            let gap = upper.crossing(delta) - lower.crossing(delta);
            if best.width() <= allowed || gap <= 0.3 * allowed {
                break;
            }
            grid.refine(allowed / best.width());
        }
        if best.upper.is_infinite() {
            return Err(AccountingError::EpsilonTooLarge { limit: limits::MAX_EPSILON, delta });
        }
        Ok(bounded(best, support))
    }

    /// The upper end of epsilon of one direction, on the first grid.
    pub(super) fn epsilon_upper(&mut self, factors: &[(Pair, u64)], delta: f64) -> Result<f64> {
        let support = support(factors);
        let finite = delta - support.infinite;
        let too_large = AccountingError::EpsilonTooLarge { limit: limits::MAX_EPSILON, delta };
        if delta == 0.0 {
            return pure(support).map(|bracket| bracket.upper);
        }
        if finite <= 0.0 {
            return Err(too_large);
        }
        if let Some(closed) = ClosedForm::of(factors) {
            return Ok(closed.epsilon(delta).upper.min(support.high));
        }
        let grid = self.epsilon_grid(factors, finite);
        let composed = self.composed(factors, grid, Side::Upper)?;
        let epsilon =
            Curve::new(&composed, Side::Upper).epsilon(delta).unwrap_or(f64::INFINITY).min(support.high);
        if epsilon.is_finite() { Ok(epsilon) } else { Err(too_large) }
    }

    /// Delta of one direction at each epsilon. A composition answers all the points its tilt suits.
    pub(super) fn profile(&mut self, factors: &[(Pair, u64)], epsilons: &[f64]) -> Result<Vec<Bracket>> {
        let support = support(factors);
        let within = |Bracket { lower, upper }, epsilon: f64| {
            let upper = support.delta(epsilon).min(upper);
            Bracket { lower: lower.min(upper), upper }
        };
        if support.infinite == 1.0 {
            return Ok(vec![Bracket::exact(1.0); epsilons.len()]);
        }
        if let Some(closed) = ClosedForm::of(factors) {
            return Ok(epsilons.iter().map(|&epsilon| within(closed.delta(epsilon), epsilon)).collect());
        }
        // Beyond the last loss there is nothing left to compute.
        let mut answers: Vec<Option<Bracket>> = epsilons
            .iter()
            .map(|&epsilon| (epsilon >= support.high).then_some(Bracket::exact(support.infinite)))
            .collect();
        let mut order: Vec<usize> = (0..epsilons.len()).collect();
        order.sort_by(|&a, &b| epsilons[a].total_cmp(&epsilons[b]));
        loop {
            let open: Vec<usize> = order.iter().copied().filter(|&i| answers[i].is_none()).collect();
            // A tilt for the middle of what is left reaches furthest to both sides.
            let Some(&next) = open.get(open.len() / 2) else { break };
            // What is cut off must be small against the other deltas that this composition might answer, too.
            let reach = if open.len() > 1 { 1e-6 } else { 1.0 };
            let grid = self.delta_grid(factors, epsilons[next], reach);
            let upper = self.composed(factors, grid, Side::Upper)?;
            let lower = self.composed(factors, grid, Side::Lower)?;
            let (upper, lower) = (Curve::new(&upper, Side::Upper), Curve::new(&lower, Side::Lower));
            // Beyond a delta that is nothing, any bound will do.
            let settled = upper.delta(epsilons[next]) < NEGLIGIBLE_DELTA;
            for &i in &open {
                if i == next || upper.suits(epsilons[i]) || settled && epsilons[i] >= epsilons[next] {
                    let delta = Bracket { lower: lower.delta(epsilons[i]), upper: upper.delta(epsilons[i]) };
                    answers[i] = Some(within(delta, epsilons[i]));
                }
            }
        }
        Ok(answers.into_iter().map(|answer| answer.unwrap_or(Bracket { lower: 0.0, upper: 1.0 })).collect())
    }

    /// Tilt and grid for epsilon at `delta`.
    fn epsilon_grid(&self, factors: &[(Pair, u64)], delta: f64) -> Grid {
        let probes = Probes::new(factors, delta);
        let lambda = probes.tilt(Question::Epsilon { delta });
        self.grid_for(factors, lambda, delta, probes.epsilon(delta, lambda))
    }

    /// Tilt and grid for delta at `epsilon`, and for deltas down to `reach` times that one.
    fn delta_grid(&self, factors: &[(Pair, u64)], epsilon: f64, reach: f64) -> Grid {
        // The delta in question is unknown; a Chernoff bound on it is rarely a thousand times too large. The tilt must
        // fit what is cut off, which depends on that delta.
        let (mut lambda, mut delta) = (0.0, 1e-15);
        for _ in 0..4 {
            let probes = Probes::new(factors, delta);
            lambda = probes.tilt(Question::Delta { epsilon });
            let next = (1e-3 * reach * probes.log_delta(epsilon, lambda).min(0.0).exp()).max(1e-100);
            if (0.03..30.0).contains(&(next / delta)) {
                break;
            }
            delta = next;
        }
        self.grid_for(factors, lambda, delta, epsilon)
    }

    fn grid_for(&self, factors: &[(Pair, u64)], lambda: f64, delta: f64, epsilon: f64) -> Grid {
        // Splitting cells adds at most h^2 / 6 of variance a step; where rare large losses make the deviation of a step a
        // poor guide, keep that small against epsilon itself.
        let steps: f64 = factors.iter().map(|(_, count)| *count as f64).sum();
        let epsilon = epsilon.max(SMALL_EPSILON);
        let finest = 0.3 * epsilon * (2.0 * self.precision.relative / steps).sqrt();
        let width = self.precision.relative * epsilon;
        let lambda = lambda.min(NATS / width);
        // A chord over a cell of length h raises E e^{lambda L} by at most the share lambda (lambda + 1) h^2 / 8, so all steps
        // together raise epsilon by (lambda + 1) h^2 / 8 each: a hundredth of the width.
        let enough = 0.3 * (width / (steps * (lambda + 1.0))).sqrt();
        Grid { resolution: 0.03 * (self.precision.relative / 1e-3).sqrt(), lambda, delta, finest, enough }
    }

    fn composed(&mut self, factors: &[(Pair, u64)], grid: Grid, side: Side) -> Result<Composed> {
        compose(&mut self.convolver, factors, grid, side)
    }

    /// The product of factors as two discrete distributions that enclose it.
    ///
    /// # Errors
    /// [`AccountingError::LatticeTooLong`].
    pub(super) fn materialise(&mut self, factors: &[(Pair, u64)]) -> Result<Discrete> {
        if let Some(atoms) = exact::product(factors) {
            return Ok(Discrete::exact(atoms));
        }
        let grid = Grid { resolution: 0.01, lambda: 0.0, delta: 1e-15, finest: f64::INFINITY, enough: 0.0 };
        let upper = self.composed(factors, grid, Side::Upper)?;
        let lower = self.composed(factors, grid, Side::Lower)?;
        Ok(Discrete {
            upper: atoms(&upper, Side::Upper),
            lower: Some(atoms(&lower, Side::Lower)),
            support: support(factors),
        })
    }
}

/// Where the losses of a product end.
fn support(factors: &[(Pair, u64)]) -> Support {
    Support::product(factors.iter().map(|(pair, count)| (pair.support(), *count)))
}

/// Epsilon at delta 0: the largest loss.
fn pure(support: Support) -> Result<Bracket> {
    if support.infinite > 0.0 || support.high == f64::INFINITY {
        return Err(AccountingError::NotPure);
    }
    let upper = support.high.max(0.0);
    // The ends of losses are good to a few dozen roundings.
    Ok(Bracket { lower: upper * (1.0 - 64.0 * f64::EPSILON), upper })
}

/// An epsilon of losses that end: not above the last of them.
fn bounded(epsilon: Bracket, support: Support) -> Bracket {
    let upper = epsilon.upper.min(support.high.max(0.0));
    Bracket { lower: epsilon.lower.min(upper), upper }
}

/// The atoms of an untilted composition with its errors moved to the safe side: added at infinity for the upper
/// distribution, taken away from the top for the lower.
fn atoms(composed: &Composed, side: Side) -> Atoms {
    let lattice = &composed.lattice;
    let scale = composed.log_norm.exp();
    let error = scale * composed.error.total(lattice.index.len());
    let shift = match side {
        Side::Upper => composed.slack,
        Side::Lower => -composed.slack,
    };
    let mut atoms = Atoms {
        losses: lattice.index.iter().map(|&k| lattice.offset + k as f64 * lattice.step() + shift).collect(),
        masses: lattice.mass.iter().map(|m| m * scale).collect(),
        infinite: composed.infinite,
        mass_error: composed.rounding,
        loss_error: 0.0,
    };
    match side {
        Side::Upper => atoms.infinite += error,
        Side::Lower => {
            let mut excess = error;
            while let Some(mass) = atoms.masses.last_mut() {
                if *mass > excess {
                    *mass -= excess;
                    break;
                }
                excess -= *mass;
                atoms.masses.pop();
                atoms.losses.pop();
            }
        }
    }
    atoms
}

/// Products whose profile needs no lattice.
enum ClosedForm<'a> {
    Nothing,
    Gaussian {
        mu: f64,
    },
    /// Finitely many losses.
    Exact(Exact),
    /// One step of any other pair.
    Step(&'a Pair),
}

impl<'a> ClosedForm<'a> {
    fn of(factors: &'a [(Pair, u64)]) -> Option<Self> {
        match factors {
            [] => Some(Self::Nothing),
            [(Pair::Gaussian(Gaussian { mu }), 1)] => Some(Self::Gaussian { mu: *mu }),
            _ => match (exact::product(factors), factors) {
                (Some(atoms), _) => Some(Self::Exact(Exact::new(atoms))),
                (None, [(pair, 1)]) => Some(Self::Step(pair)),
                _ => None,
            },
        }
    }

    fn delta(&self, epsilon: f64) -> Bracket {
        match self {
            Self::Nothing => Bracket::exact(0.0),
            Self::Gaussian { mu } => {
                let delta = log_gaussian_delta(*mu, epsilon).exp();
                Bracket {
                    lower: delta * (1.0 - CLOSED_FORM_ERROR),
                    upper: (delta * (1.0 + CLOSED_FORM_ERROR)).min(1.0),
                }
            }
            Self::Exact(exact) => {
                Bracket { lower: exact.delta(epsilon, Side::Lower), upper: exact.delta(epsilon, Side::Upper) }
            }
            Self::Step(pair) => {
                let one_side = |side: Side, sign: f64| {
                    let cells = pair.cells(&[epsilon], side);
                    let high =
                        pair.atoms(side).into_iter().filter(|atom| atom.loss > epsilon).map(|atom| atom.cell);
                    let above =
                        high.fold(cells.above, |sum, cell| Cell { p: sum.p + cell.p, q: sum.q + cell.q });
                    let (loss_error, mass_error) = pair.errors(side);
                    let q = if above.q > 0.0 { (epsilon + above.q.ln()).exp() } else { 0.0 };
                    if q > 2.0 * above.p {
                        return cells.infinite;
                    }
                    let error = (MASS_ERROR + mass_error) * (above.p + q) + loss_error * q;
                    ((above.p - q + sign * error).max(0.0) + cells.infinite).min(1.0)
                };
                Bracket { lower: one_side(Side::Lower, -1.0), upper: one_side(Side::Upper, 1.0) }
            }
        }
    }

    fn epsilon(&self, delta: f64) -> Bracket {
        let solve = |reaches: &dyn Fn(f64) -> bool| {
            if reaches(0.0) {
                (0.0, 0.0)
            } else {
                bisect_condition(0.0, 2.0 * limits::MAX_EPSILON, 1e-13, reaches)
            }
        };
        Bracket {
            lower: solve(&|epsilon| self.delta(epsilon).lower <= delta).0,
            upper: solve(&|epsilon| self.delta(epsilon).upper <= delta).1,
        }
    }
}
