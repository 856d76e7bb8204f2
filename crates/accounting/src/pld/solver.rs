//! Chooses tilts and grids until the bracket is as narrow as asked.

use super::closed::ClosedForm;
use super::compose::{Composition, CompositionGrid, compose};
use super::curve::DeltaCurve;
use super::exact;
use super::profile::BracketPrecision;
use super::tilt::{Probes, ProfileQuestion};
use crate::bracket::Bracket;
use crate::error::{AccountingError, Result, in_range};
use crate::limits;
use crate::numerics::fft::Convolver;
use crate::pair::{Atoms, Discrete, DominatingPair, Side, Support};
use crate::work::Effort;

/// Answers questions about products of pairs; keeps Fourier plans between them.
pub(super) struct Solver<'a> {
    convolver: Convolver,
    effort: Effort<'a>,
    precision: BracketPrecision,
    /// Points of all transforms since the last question.
    work: f64,
}

/// Epsilons below this are as precise in absolute terms as this one is in relative terms, and no more.
const SMALL_EPSILON: f64 = 1e-3;
/// The ends of losses and the masses beyond them are good to a few dozen roundings.
const FEW: f64 = 64.0 * f64::EPSILON;
/// Below this, deltas are not told apart in a profile.
const NEGLIGIBLE_DELTA: f64 = 1e-20;
/// A tilt of this many nats over the width that a bracket may have: a larger one would look closer than anybody asked.
///
/// Chernoff bounds are convex in the tilt and at least `ln delta`, above -35, at their best: a tilt of `NATS / width` that is below
/// the best one leaves at most 35 nats to gain, 23 of which truncation and rounding leave room for, and the rest is worth 12 / NATS of the width.
const NATS: f64 = 50.0;
/// Points that all transforms of a question may have together, which takes a second or two. After that, what is known is the answer.
const MOST_WORK: f64 = (1 << 23) as f64;
/// Steps that are composed on lattices, a hundred times those of one plan.
const MOST_STEPS: f64 = 1e9;
/// A precision at which laws of ratios may be rough.
const ROUGH: f64 = 1e-2;
/// Refinements of the grid before the bracket is returned as it is.
const MAX_REFINEMENTS: usize = 5;

impl<'a> Solver<'a> {
    pub(super) fn new(effort: Effort<'a>) -> Self {
        Self { convolver: Convolver::new(), effort, precision: effort.precision(), work: 0.0 }
    }

    /// Epsilon of one direction. Where it stays below the upper end of `known`, another direction's bracket, an
    /// upper bound is all that the larger of the two needs.
    pub(super) fn epsilon(
        &mut self,
        factors: &[(DominatingPair, u64)],
        delta: f64,
        known: Bracket,
    ) -> Result<Bracket> {
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
            return Ok(closed.epsilon(delta).at_most(last_loss(support)));
        }
        let mut grid = self.epsilon_grid(factors, finite);
        let mut best = Bracket::between(0.0, f64::INFINITY);
        // What another refinement without end would gain, over what the last one did.
        let mut gained = f64::INFINITY;
        self.work = 0.0;
        for _ in 0..MAX_REFINEMENTS {
            let last = best.width();
            let above = self.composed(factors, grid, Side::Upper)?;
            let upper = DeltaCurve::new(&above, Side::Upper);
            best = best.at_most(upper.epsilon(delta).unwrap_or(f64::INFINITY)).at_most(support.high);
            if best.upper <= known.upper {
                return Ok(Bracket::between(0.0, best.upper));
            }
            let below = self.composed(factors, grid, Side::Lower)?;
            let lower = DeltaCurve::new(&below, Side::Lower);
            best = best.at_least(lower.epsilon(delta).unwrap_or(0.0));
            let allowed = self.precision.relative * best.upper.max(SMALL_EPSILON);
            // A finer grid narrows the gap between the two distributions, but not the errors around them.
            let gap = upper.crossing(delta) - lower.crossing(delta);
            if best.width() <= allowed || gap <= 0.3 * allowed {
                break;
            }
            // Refining is over where it took long, where lattices are as long as they may be, or where it gains little for its cost: a
            // bracket that is two thirds as wide as before, or what would stay of it on the finest grid.
            let floor = best.width() - (last - best.width()) * gained;
            let in_vain = best.width() > 0.8 * last || floor > allowed.max(0.75 * best.width());
            if in_vain && self.work > MOST_WORK / 16.0
                || above.limited && below.limited
                || self.work > MOST_WORK
            {
                break;
            }
            let factor = grid.refine(allowed / best.width());
            // The width is about `a + b h^2` for a grid step `h`, with `a` that of laws and errors that no grid narrows.
            gained = factor * factor / (1.0 - factor * factor);
        }
        if best.upper.is_infinite() {
            return Err(AccountingError::EpsilonTooLarge { limit: limits::MAX_EPSILON, delta });
        }
        Ok(best.at_most(last_loss(support)))
    }

    /// The upper end of epsilon of one direction, on the first grid; where little precision is asked for, from rough laws.
    pub(super) fn epsilon_upper(&mut self, factors: &[(DominatingPair, u64)], delta: f64) -> Result<f64> {
        let rough: Vec<(DominatingPair, u64)>;
        let factors = if self.precision.relative < ROUGH {
            factors
        } else {
            rough = factors.iter().map(|(pair, count)| (pair.rough(), *count)).collect();
            &rough
        };
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
            DeltaCurve::new(&composed, Side::Upper).epsilon(delta).unwrap_or(f64::INFINITY).min(support.high);
        if epsilon.is_finite() { Ok(epsilon) } else { Err(too_large) }
    }

    /// Delta of one direction at each epsilon. A composition answers all the points its tilt suits.
    pub(super) fn profile(
        &mut self,
        factors: &[(DominatingPair, u64)],
        epsilons: &[f64],
    ) -> Result<Vec<Bracket>> {
        let support = support(factors);
        let within = |delta: Bracket, epsilon: f64| delta.at_most(support.delta(epsilon));
        if support.infinite == 1.0 {
            return Ok(vec![Bracket::exact(1.0); epsilons.len()]);
        }
        if let Some(closed) = ClosedForm::of(factors) {
            return Ok(epsilons.iter().map(|&epsilon| within(closed.delta(epsilon), epsilon)).collect());
        }
        let mut answers = vec![Bracket::between(support.infinite * (1.0 - FEW), 1.0); epsilons.len()];
        let mut open: Vec<usize> = (0..epsilons.len()).collect();
        open.sort_by(|&a, &b| epsilons[a].total_cmp(&epsilons[b]));
        // Beyond the last loss there is nothing left to compute.
        open.retain(|&i| epsilons[i] < support.high);
        self.work = 0.0;
        // A tilt for the middle of what is left reaches furthest to both sides.
        while let Some(&next) = open.get(open.len() / 2) {
            // What is cut off must be small against the other deltas that this composition might answer, too.
            let reach = if open.len() > 1 { 1e-6 } else { 1.0 };
            let grid = self.delta_grid(factors, epsilons[next], reach);
            let above = self.composed(factors, grid, Side::Upper)?;
            let below = self.composed(factors, grid, Side::Lower)?;
            let (upper, lower) = (DeltaCurve::new(&above, Side::Upper), DeltaCurve::new(&below, Side::Lower));
            // Every composition bounds delta everywhere.
            for (answer, &epsilon) in answers.iter_mut().zip(epsilons) {
                *answer = answer.at_least(lower.delta(epsilon)).at_most(upper.delta(epsilon));
            }
            // Beyond a delta that is nothing, any bound will do.
            let settled = upper.delta(epsilons[next]) < NEGLIGIBLE_DELTA;
            open.retain(|&i| {
                i != next && !upper.suits(epsilons[i]) && !(settled && epsilons[i] >= epsilons[next])
            });
            if self.work > MOST_WORK {
                break;
            }
        }
        Ok(answers.into_iter().zip(epsilons).map(|(answer, &epsilon)| within(answer, epsilon)).collect())
    }

    /// Tilt and grid for epsilon at `delta`.
    fn epsilon_grid(&self, factors: &[(DominatingPair, u64)], delta: f64) -> CompositionGrid {
        let probes = Probes::new(factors, delta);
        let lambda = probes.tilt(ProfileQuestion::Epsilon { delta });
        self.grid_for(factors, lambda, delta, probes.epsilon(delta, lambda))
    }

    /// Tilt and grid for delta at `epsilon`, and for deltas down to `reach` times that one.
    fn delta_grid(&self, factors: &[(DominatingPair, u64)], epsilon: f64, reach: f64) -> CompositionGrid {
        // The delta in question is unknown; a Chernoff bound on it is rarely a thousand times too large. The tilt must
        // fit what is cut off, which depends on that delta.
        let (mut lambda, mut delta) = (0.0, 1e-15);
        for _ in 0..4 {
            let probes = Probes::new(factors, delta);
            lambda = probes.tilt(ProfileQuestion::Delta { epsilon });
            let next = (1e-3 * reach * probes.log_delta(epsilon, lambda).min(0.0).exp()).max(1e-100);
            if (0.03..30.0).contains(&(next / delta)) {
                break;
            }
            delta = next;
        }
        self.grid_for(factors, lambda, delta, epsilon)
    }

    fn grid_for(
        &self,
        factors: &[(DominatingPair, u64)],
        lambda: f64,
        delta: f64,
        epsilon: f64,
    ) -> CompositionGrid {
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
        CompositionGrid {
            resolution: 0.03 * (self.precision.relative / 1e-3).sqrt(),
            lambda,
            delta,
            finest,
            enough,
        }
    }

    fn composed(
        &mut self,
        factors: &[(DominatingPair, u64)],
        grid: CompositionGrid,
        side: Side,
    ) -> Result<Composition> {
        let steps = factors.iter().map(|(_, count)| *count as f64).sum();
        in_range("steps", steps, 0.0, MOST_STEPS, "[0, 1e9]: those of all mechanisms together")?;
        let composed = compose(&mut self.convolver, factors, grid, side)?;
        self.work += composed.work;
        self.effort.count(composed.work)?;
        Ok(composed)
    }

    /// The product of factors as two discrete distributions that enclose it.
    ///
    /// # Errors
    /// [`AccountingError::LatticeTooLong`].
    pub(super) fn materialise(&mut self, factors: &[(DominatingPair, u64)]) -> Result<Discrete> {
        if let Some(atoms) = exact::product(factors) {
            return Ok(Discrete::exact(atoms));
        }
        let grid = CompositionGrid {
            resolution: 0.01,
            lambda: 0.0,
            delta: 1e-15,
            finest: f64::INFINITY,
            enough: 0.0,
        };
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
pub(super) fn support(factors: &[(DominatingPair, u64)]) -> Support {
    Support::product(factors.iter().map(|(pair, count)| (pair.support(), *count)))
}

/// Epsilon at delta 0: the largest loss.
fn pure(support: Support) -> Result<Bracket> {
    if support.infinite > 0.0 || support.high == f64::INFINITY {
        return Err(AccountingError::NotPure);
    }
    let upper = last_loss(support);
    Ok(Bracket::between(upper * (1.0 - FEW), upper))
}

/// Where losses end, which no epsilon is above.
fn last_loss(support: Support) -> f64 {
    support.high.max(0.0)
}

/// The atoms of an untilted composition with its errors moved to the safe side: added at infinity for the upper
/// distribution, taken away from the top for the lower.
fn atoms(composed: &Composition, side: Side) -> Atoms {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::Gaussian;

    /// Settings where rare large losses decide, which random searches found to take longest.
    #[test]
    fn answers_take_a_bounded_number_of_transforms() {
        // Each composition makes a few transforms of at most 2^21 points; the last two may pass the bound.
        let most = MOST_WORK + 16.0 * (1 << 21) as f64;
        let sampled =
            |rate: f64, sigma: f64| DominatingPair::Gaussian(Gaussian { mu: 1.0 / sigma }).subsampled(rate);
        for (pair, steps) in [
            (sampled(1e-6, 0.4).mirrored(), 10_000_000),
            (sampled(9.8e-4, 0.0966), 20_320),
            (sampled(4.6e-5, 0.85), 1_279_995),
            (sampled(4.4e-4, 0.0946), 6_804),
        ] {
            let mut solver = Solver::new(BracketPrecision::default().into());
            let factors = [(pair, steps)];
            let known = Bracket::exact(0.0);
            let top = solver.epsilon(&factors, 1e-6, known).map_or(100.0, |bracket| bracket.upper);
            assert!(solver.work <= most, "{factors:?}: {}", solver.work);
            let epsilons: Vec<f64> = (0..41).map(|i| top * f64::from(i) / 20.0).collect();
            let profile = solver.profile(&factors, &epsilons).unwrap();
            assert!(solver.work <= most, "{factors:?}: {}", solver.work);
            assert!(profile.windows(2).all(|pair| pair[1].lower.unwrap() <= pair[0].upper));
        }
    }
}
