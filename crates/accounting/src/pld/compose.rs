//! Composition: powers of a lattice distribution in a few stages, each on a grid that fits what it has become.

use super::discretise::discretise;
use super::lattice::{Grain, Lattice, floor_exponent};
use super::tilt::{LossShape, tail};
use super::window::ChernoffWindow;
use crate::error::{AccountingError, Result};
use crate::numerics::UNIT_ROUNDOFF;
use crate::numerics::fft::Convolver;
use crate::pair::{Atom, DominatingPair, MASS_ERROR, Side};

/// How finely, and with which tilt, to compose.
#[derive(Debug, Clone, Copy)]
pub(super) struct CompositionGrid {
    /// Grid step over the standard deviation of what is being composed.
    pub(super) resolution: f64,
    pub(super) lambda: f64,
    /// The least delta that must be resolved, for truncation.
    pub(super) delta: f64,
    /// A bound on the step of the first grid, whatever the deviation.
    pub(super) finest: f64,
    /// A step of the first grid that is fine enough, whatever the deviation.
    pub(super) enough: f64,
}

impl CompositionGrid {
    /// The factor by which all steps shrink or grow for another precision: errors shrink with the square of the resolution, and `ratio` is the
    /// allowed error over the one seen.
    pub(super) fn refine(&mut self, ratio: f64) -> f64 {
        let factor = (0.9 * ratio.sqrt()).clamp(0.15, 0.8);
        self.resolution *= factor;
        self.finest *= factor;
        self.enough *= factor;
        factor
    }
}

/// A composed loss distribution under the tilt `lambda`.
///
/// `P(S = s) = e^{log_norm - lambda s} mass` at each lattice loss `s`, up to the errors.
#[derive(Debug, Clone)]
pub(super) struct Composition {
    pub(super) lattice: Lattice,
    pub(super) lambda: f64,
    pub(super) log_norm: f64,
    pub(super) error: MassError,
    /// `P`-mass at infinite loss: `1 - prod (1 - m)` over all steps.
    pub(super) infinite: f64,
    /// The part of it that was cut off.
    pub(super) cut: f64,
    /// How far rounded cell boundaries may have moved the composed loss.
    pub(super) slack: f64,
    /// Relative rounding of all masses together.
    pub(super) rounding: f64,
    /// Points that were transformed on the way.
    pub(super) work: f64,
    /// Whether a lattice had to be coarser than the grid asked for, so that a finer grid would change nothing.
    pub(super) limited: bool,
}

/// What truncation and Fourier rounding did to tilted masses.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MassError {
    /// Bound on the l1 norm of what was cut off.
    pub(super) truncated: f64,
    /// Bound on the l2 norm of the rounding error. It keeps its size under convolution with distributions
    /// (Young's inequality), unlike the l1 norm it would be charged as.
    pub(super) rounding: f64,
}

impl MassError {
    fn add(&mut self, other: Self, copies: f64) {
        self.truncated += copies * other.truncated;
        self.rounding += copies * other.rounding;
    }

    /// The l1 norm of both, for a distribution of `points` entries.
    pub(super) fn total(&self, points: usize) -> f64 {
        self.truncated + self.rounding * (points as f64).sqrt()
    }

    /// On a grid coarser by `r = 2^doublings` a point collects up to `2 r` entries, each with a weight of at most
    /// `e^{lambda h}`, `h` the new step, and an entry reaches two points with weights that add up to that: by Cauchy and Schwarz
    /// the norm grows by at most `sqrt(2 r) e^{lambda h}`.
    fn coarsen(&mut self, doublings: i32, tilt: f64) {
        if doublings > 0 {
            self.rounding *= libm::ldexp(2.0, doublings).sqrt() * tilt.exp();
        }
    }
}

/// Tilted mass that all truncations of a composition together may lose.
const TAIL_BUDGET: f64 = 1e-13;
/// The longest transform.
const MAX_LENGTH: f64 = (1 << 21) as f64;
/// The most points of all first lattices together.
const MAX_POINTS: usize = 1 << 24;

/// Composes `count_i` steps of each pair.
///
/// # Guarantee
/// With `Side::Upper`, `delta(eps)` computed from the result with its `error`, `infinite` and `slack` added is never
/// below that of the exact composition; with `Side::Lower` and its `error` and `slack` subtracted, never above it.
///
/// # Errors
/// [`AccountingError::LatticeTooLong`].
pub(super) fn compose(
    convolver: &mut Convolver,
    factors: &[(DominatingPair, u64)],
    grid: CompositionGrid,
    side: Side,
) -> Result<Composition> {
    let tail = tail(factors, grid.delta);
    let mut composer = StageComposer { convolver, grid, side, log_norm: 0.0, work: 0.0, limited: false };
    let (mut log_inside, mut cut, mut slack, mut rounding) = (0.0, 0.0, 0.0, 1e-11);
    let mut points = 0;
    let mut unit = None;
    let mut parts: Vec<CompositionPart> = vec![];
    for (pair, count) in factors {
        let shape = LossShape::new(pair, grid.lambda, tail);
        let step = (grid.resolution * shape.deviation).max(grid.enough).min(grid.finest);
        let spacing = shape.spacing(step);
        let unit = *unit.get_or_insert_with(|| aligned(&pair.atoms(side), spacing));
        let grain = Grain { unit, exponent: 0 }.not_above(spacing);
        let step = discretise(pair, &shape, grain, grid.resolution, grid.lambda, side);
        let copies = *count as f64;
        composer.log_norm += copies * step.log_norm;
        log_inside += copies * (-(step.infinite + step.cut)).ln_1p();
        cut += copies * step.cut;
        let (loss_error, mass_error) = pair.errors(side);
        rounding += copies * (MASS_ERROR + mass_error);
        // Boundaries are placed to a few roundings of the losses they separate.
        slack +=
            copies * (16.0 * UNIT_ROUNDOFF * (shape.magnitude + shape.deviation) + loss_error + step.moved);
        points += step.lattice.index.len();
        if points > MAX_POINTS {
            return Err(too_long(points as f64, MAX_POINTS as f64));
        }
        parts.push(composer.power(step.lattice, *count)?);
    }
    let CompositionPart { lattice, error } = composer.combine(parts)?;
    let StageComposer { log_norm, work, limited, .. } = composer;
    let (lambda, infinite) = (grid.lambda, -log_inside.exp_m1());
    Ok(Composition { lattice, lambda, log_norm, error, infinite, cut, slack, rounding, work, limited })
}

/// A step of at most `spacing` of which the least gap between single losses is a multiple, so that all of them lie on one lattice.
fn aligned(atoms: &[Atom], spacing: f64) -> f64 {
    let mut losses: Vec<f64> = atoms.iter().map(|atom| atom.loss).collect();
    losses.sort_by(f64::total_cmp);
    let gaps = losses.windows(2).map(|pair| pair[1] - pair[0]);
    let gap = gaps.filter(|gap| *gap >= spacing).fold(f64::INFINITY, f64::min);
    if gap.is_finite() { gap / (gap / spacing).ceil() } else { spacing }
}

fn too_long(points: f64, limit: f64) -> AccountingError {
    AccountingError::LatticeTooLong { points, limit }
}

/// A distribution with what has gone wrong in it so far.
struct CompositionPart {
    lattice: Lattice,
    error: MassError,
}

struct StageComposer<'a> {
    convolver: &'a mut Convolver,
    grid: CompositionGrid,
    side: Side,
    /// Logarithm of all factors that normalisation took out.
    log_norm: f64,
    work: f64,
    limited: bool,
}

/// Steps taken in the first of the stages left: about the root of the count, a divisor of it where there is one near.
fn radix(count: u64) -> u64 {
    let stages = match count {
        0..=600 => return count,
        601..=250_000 => 2.0,
        _ => 3.0,
    };
    let ideal = (count as f64).powf(1.0 / stages);
    (((0.7 * ideal) as u64)..=((1.5 * ideal) as u64))
        .filter(|n| count.is_multiple_of(*n))
        .min_by_key(|n| n.abs_diff(ideal as u64))
        .unwrap_or(ideal.round() as u64)
}

impl StageComposer<'_> {
    /// The `count`-fold convolution of `block`, as digits of the count in a mixed radix.
    fn power(&mut self, lattice: Lattice, count: u64) -> Result<CompositionPart> {
        let mut block = CompositionPart { lattice, error: MassError::default() };
        let mut rest: Option<CompositionPart> = None;
        let mut remaining = count;
        loop {
            let radix = radix(remaining);
            let (quotient, digit) = (remaining / radix, remaining % radix);
            let budget = TAIL_BUDGET / (8.0 * quotient as f64);
            if quotient == 1 {
                let factors = rest.into_iter().map(|rest| (rest, 1)).chain([(block, remaining)]).collect();
                return self.convolve(factors, budget, 1.0);
            }
            if digit > 0 || rest.is_some() {
                let extra =
                    (digit > 0).then(|| (CompositionPart { lattice: block.lattice.clone(), ..block }, digit));
                let factors = rest.into_iter().map(|rest| (rest, 1)).chain(extra).collect();
                rest = Some(self.convolve(factors, budget, 1.0)?);
            }
            block = self.convolve(vec![(block, radix)], budget, quotient as f64)?;
            let grain = block.lattice.grain.not_above(self.grid.resolution * block.lattice.moments().1);
            block = self.regrid(block, grain);
            rest = rest.map(|rest| self.regrid(rest, grain));
            remaining = quotient;
        }
    }

    /// Multiplies the results of different factors on the one lattice that fits their sum.
    fn combine(&mut self, mut parts: Vec<CompositionPart>) -> Result<CompositionPart> {
        if parts.len() == 1
            && let Some(part) = parts.pop()
        {
            return Ok(part);
        }
        let deviation = parts.iter().map(|part| part.lattice.moments().1.powi(2)).sum::<f64>().sqrt();
        let factors = parts
            .into_iter()
            .map(|part| {
                let grain = part.lattice.grain.not_above(self.grid.resolution * deviation);
                (self.regrid(part, grain), 1)
            })
            .collect();
        self.convolve(factors, TAIL_BUDGET / 4.0, 1.0)
    }

    fn regrid(&self, part: CompositionPart, grain: Grain) -> CompositionPart {
        let mut error = part.error;
        error.coarsen(grain.exponent - part.lattice.grain.exponent, self.grid.lambda * grain.step());
        CompositionPart { lattice: part.lattice.regrid(grain, self.grid.lambda, self.side), error }
    }

    /// Convolves distributions, `count_i` times each, losing at most `budget` in each tail; the result will be used
    /// `copies` times.
    fn convolve(
        &mut self,
        mut factors: Vec<(CompositionPart, u64)>,
        budget: f64,
        copies: f64,
    ) -> Result<CompositionPart> {
        let coarsest = factors.iter().map(|(part, _)| part.lattice.grain).max_by_key(|grain| grain.exponent);
        let Some(mut grain) = coarsest else {
            return Ok(CompositionPart { lattice: Lattice::zero(), error: MassError::default() });
        };
        let (low, length) = loop {
            factors = factors.into_iter().map(|(part, count)| (self.regrid(part, grain), count)).collect();
            for (part, count) in &mut factors {
                self.log_norm += copies * *count as f64 * part.lattice.normalise();
            }
            if matches!(factors.as_slice(), [(_, 1)])
                && let Some((part, _)) = factors.pop()
            {
                return Ok(part);
            }
            let h = grain.step();
            let windows: Vec<ChernoffWindow> =
                factors.iter().map(|(part, count)| ChernoffWindow::new(&part.lattice, *count)).collect();
            let low = ChernoffWindow::reach(&windows, budget, -1.0) / h;
            let high = ChernoffWindow::reach(&windows, budget, 1.0) / h;
            if high - low < MAX_LENGTH - 4.0 {
                break (low, Convolver::good_length((high - low) as usize + 4));
            }
            grain = grain.coarser_by(floor_exponent((high - low) / MAX_LENGTH) + 1);
            self.limited = true;
        };
        self.work += length as f64;

        let mut error = MassError { truncated: 2.0 * budget, rounding: 0.0 };
        let (mut offset, mut origin) = (0.0, 0);
        let mut dense = vec![];
        for (part, count) in factors {
            error.add(part.error, count as f64);
            // The heaviest point goes to index 0, where the transform of an atom is exact.
            let heaviest = part.lattice.heaviest();
            offset += count as f64 * part.lattice.offset;
            // Indices are whole numbers of 64 bits.
            origin = i64::try_from(count)
                .ok()
                .and_then(|count| heaviest.checked_mul(count)?.checked_add(origin))
                .ok_or_else(|| too_long(count as f64 * heaviest as f64, i64::MAX as f64))?;
            let mut values = vec![0.0; length];
            for (&k, &mass) in part.lattice.index.iter().zip(&part.lattice.mass) {
                values[(k - heaviest).rem_euclid(length as i64) as usize] += mass;
            }
            dense.push((values, count));
        }
        let circular = self.convolver.convolve(dense, length);
        error.rounding += circular.error;
        let first = (low - offset / grain.step()).floor() as i64 - 1;
        let mut lattice = Lattice { grain, offset, index: vec![], mass: vec![] };
        for k in first..first + circular.values.len() as i64 {
            let mass = circular.values[(k - origin).rem_euclid(length as i64) as usize];
            if mass > 0.0 {
                lattice.index.push(k);
                lattice.mass.push(mass);
            }
        }
        Ok(CompositionPart { lattice, error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_that_overflow_are_refused() {
        let grid = CompositionGrid { resolution: 0.03, lambda: 0.0, delta: 1e-5, finest: 1.0, enough: 0.0 };
        let mut convolver = Convolver::new();
        let mut composer = StageComposer {
            convolver: &mut convolver,
            grid,
            side: Side::Upper,
            log_norm: 0.0,
            work: 0.0,
            limited: false,
        };
        let far = |index| Lattice { index: vec![index], ..Lattice::zero() };
        assert!(composer.power(far(1 << 40), 3).is_ok());
        let error = composer.power(far(1 << 62), 3).err();
        assert!(matches!(error, Some(AccountingError::LatticeTooLong { .. })), "{error:?}");
    }
}
