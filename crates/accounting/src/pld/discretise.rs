//! From a pair to a lattice.

use super::lattice::{Grain, Lattice, floor_exponent, settle};
use super::strips::Strips;
use super::tilt::LossShape;
use crate::numerics::UNIT_ROUNDOFF;
use crate::pair::{Atom, CellMasses, DominatingPair, MASS_ERROR, Side};

/// One step on a lattice, tilted and normalised.
#[derive(Debug, Clone)]
pub(super) struct LatticeStep {
    pub(super) lattice: Lattice,
    /// Logarithm of the factor that normalised the tilted masses.
    pub(super) log_norm: f64,
    /// `P`-mass at infinite loss.
    pub(super) infinite: f64,
    /// `P`-mass beyond the lattice that was sent to infinite loss.
    pub(super) cut: f64,
    /// How far losses were moved onto lattice points that they equal but for rounding.
    pub(super) moved: f64,
}

/// Masses below this have lost digits to underflow.
const LEAST_MASS: f64 = 1e-290;

/// Lattice indices with spacing 1 around the centre that widens with the distance from it: losses far from the mean
/// are rare, and a spacing of `resolution` times the distance inflates the variance by no more than near the mean.
fn lattice_points(low: i64, high: i64, centre: i64, resolution: f64) -> Vec<i64> {
    let centre = centre.clamp(low, high);
    let stride = |k: i64| {
        let widest = resolution * (k - centre).unsigned_abs() as f64;
        if widest < 2.0 { 1 } else { 1_i64 << floor_exponent(widest).min(40) }
    };
    let mut points = vec![];
    let mut k = centre;
    while k > low {
        let stride = stride(k);
        // The next multiple of the stride below, stopping at 0 where atoms lie.
        let next = (k - 1).div_euclid(stride) * stride;
        k = if k > 0 && next < 0 { 0 } else { next };
        points.push(k);
    }
    points.reverse();
    points.push(centre);
    let mut k = centre;
    while k < high {
        let stride = stride(k);
        let next = (k.div_euclid(stride) + 1) * stride;
        k = if k < 0 && next > 0 { 0 } else { next };
        points.push(k);
    }
    points
}

/// The loss to use as lattice point 0 where most of the mass is concentrated within one step of a point: the
/// barycentre of that mass, a hair lower, so that neither discretisation spreads or moves it.
fn concentration(
    pair: &DominatingPair,
    atoms: &[Atom],
    shape: &LossShape,
    h: f64,
    side: Side,
) -> Option<f64> {
    settle(shape.mode(h)?, h, |centre| {
        let (from, to) = (centre - h, centre + h);
        let cell = pair.cells(&[from, to], side).inner.first().copied().unwrap_or_default();
        let inside = atoms.iter().filter(|atom| from < atom.loss && atom.loss <= to);
        let CellMasses { p, q } =
            inside.fold(cell, |sum, atom| CellMasses { p: sum.p + atom.cell.p, q: sum.q + atom.cell.q });
        CellMasses { p, q: q * centre.exp() }
    })
}

/// The loss at which all losses end, where a good part of the tilted mass sits right there: as a lattice point it is neither
/// spread nor moved, so that bounded losses stay within their bound.
fn edge(atoms: &[Atom], shape: &LossShape, lambda: f64) -> Option<f64> {
    const GOOD_PART: f64 = 0.1;
    let top = atoms.iter().max_by(|a, b| a.loss.total_cmp(&b.loss))?;
    let share = (lambda * top.loss + top.cell.p.ln() - shape.log_norm).exp();
    (top.loss >= shape.high && share >= GOOD_PART).then_some(top.loss)
}

/// Puts one step on the lattice `grain`.
///
/// # Guarantee
/// On `Side::Upper` no composition with this step underestimates delta once `infinite` is added for every step; on
/// `Side::Lower` none overestimates it. Rounding errors of masses are moved to the safe side.
pub(super) fn discretise(
    pair: &DominatingPair,
    shape: &LossShape,
    grain: Grain,
    resolution: f64,
    lambda: f64,
    side: Side,
) -> LatticeStep {
    let h = grain.step();
    let atoms = pair.atoms(side);
    let anchored = concentration(pair, &atoms, shape, h, side);
    let edge =
        edge(&atoms, shape, lambda).filter(|edge| anchored.is_none_or(|centre| (edge - centre).abs() <= h));
    let anchored = anchored.filter(|_| edge.is_none());
    let offset = edge.or(anchored).unwrap_or(0.0);
    let index = |loss: f64| ((loss - offset) / h).round() as i64;
    let points = lattice_points(index(shape.low) - 1, index(shape.high) + 1, index(shape.mean), resolution);
    let losses: Vec<f64> = points.iter().map(|&k| offset + k as f64 * h).collect();
    let cells = pair.cells(&losses, side);
    let origin = points.iter().position(|&k| k == 0);
    let mut strips = Strips::new(grain, offset, points);
    for (k, cell) in cells.inner.iter().enumerate() {
        let most = -cell.p * (losses[k] - losses[k + 1]).exp_m1();
        strips.inner[k].mass = cell.p;
        let scaled =
            if losses[k] < 500.0 { cell.q * losses[k].exp() } else { (cell.q.ln() + losses[k]).exp() };
        let rounding = (8.0 + 2.0 * losses[k].abs()) * UNIT_ROUNDOFF * cell.p;
        strips.inner[k].excess = match side {
            // A Q-mass lost to underflow leaves anything inside the cell possible.
            Side::Upper if cell.q < LEAST_MASS => most,
            Side::Lower if cell.q < LEAST_MASS => 0.0,
            Side::Upper => (cell.p - scaled + rounding).clamp(0.0, most),
            Side::Lower => (cell.p - scaled - rounding).clamp(0.0, most),
        };
    }
    let last = losses.len() - 1;
    let (mut below, mut above, mut moved) = (cells.below.p, cells.above.p, 0.0_f64);
    let mut on_points: Vec<(i64, f64)> = vec![];
    for Atom { loss, cell } in atoms.into_iter().filter(|atom| atom.cell.p > 0.0) {
        let nearest = ((loss - offset) / h).round();
        let distance = (offset + nearest * h - loss).abs();
        if edge.is_some() && distance <= 8.0 * UNIT_ROUNDOFF * (loss.abs() + offset.abs()) {
            on_points.push((nearest as i64, cell.p));
            moved = moved.max(distance);
        } else if loss < losses[0] {
            below += cell.p;
        } else if loss > losses[last] {
            above += cell.p;
        } else {
            strips.add(loss, cell.p);
        }
    }
    let cut = match side {
        // Losses below the lattice are rounded up to it, those above it to infinity.
        Side::Upper => {
            strips.points[0] += below;
            above * (1.0 + MASS_ERROR)
        }
        // Those below are dropped, those above rounded down.
        Side::Lower => {
            strips.points[last] += above;
            0.0
        }
    };
    let mut lattice = strips.discretise(0.0, side, anchored.and(origin));
    for (index, mass) in on_points {
        lattice.add(index, mass);
    }
    for (k, mass) in lattice.index.iter().zip(&mut lattice.mass) {
        *mass *= (lambda * (offset + *k as f64 * h - shape.mean)).exp();
    }
    let log_norm = lattice.normalise() + lambda * shape.mean;
    LatticeStep { lattice, log_norm, infinite: cells.infinite, cut, moved }
}
