//! A pair given by finitely many losses.

use super::{Atom, CellMasses, LossCells, Probe, Side, Support};
use crate::numerics::{UNIT_ROUNDOFF, log_mix};

/// Atoms of a loss distribution: increasing losses with their `P`-masses.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Atoms {
    pub(crate) losses: Vec<f64>,
    pub(crate) masses: Vec<f64>,
    /// `P`-mass at infinite loss.
    pub(crate) infinite: f64,
    /// How far each loss may be from the exact one.
    pub(crate) loss_error: f64,
    /// Relative error of each mass.
    pub(crate) mass_error: f64,
}

/// A pair with finitely many losses: known exactly, or enclosed by two others after a numerical composition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Discrete {
    /// Never underestimates delta.
    pub(crate) upper: Atoms,
    /// Never overestimates delta; `None` where `upper` is the pair itself, up to the errors of its atoms.
    pub(crate) lower: Option<Atoms>,
    /// Where the losses of the exact pair end.
    pub(crate) support: Support,
}

impl Atoms {
    fn cells(&self) -> impl Iterator<Item = (f64, CellMasses)> {
        self.losses.iter().zip(&self.masses).map(|(&loss, &p)| (loss, CellMasses { p, q: q_mass(loss, p) }))
    }

    /// `Q`-mass that lies where `P` has none; none where rounding alone explains what is missing.
    fn vanishing(&self) -> f64 {
        let (mut sum, mut rounding) = (0.0, 0.0);
        for (loss, cell) in self.cells() {
            sum += cell.q;
            rounding += cell.q * (loss.abs() + 4.0) * UNIT_ROUNDOFF;
        }
        let missing = 1.0 - sum;
        let noise =
            rounding + sum * (self.loss_error + self.mass_error) + self.losses.len() as f64 * UNIT_ROUNDOFF;
        if missing > noise { missing } else { 0.0 }
    }

    /// These atoms with other losses and masses, in increasing order of losses. Each was computed with a few roundings, the masses
    /// from losses that may be off themselves.
    fn mapped(&self, atoms: impl Iterator<Item = (f64, f64)>, infinite: f64) -> Self {
        let (losses, masses): (Vec<f64>, Vec<f64>) = atoms.filter(|&(_, mass)| mass > 0.0).unzip();
        let reach = losses
            .first()
            .into_iter()
            .chain(losses.last())
            .fold(0.0_f64, |reach, loss| reach.max(loss.abs()));
        let largest = self.losses.first().map_or(0.0, |loss| loss.abs()).max(reach);
        Self {
            losses,
            masses,
            infinite,
            loss_error: self.loss_error + 8.0 * UNIT_ROUNDOFF * reach,
            mass_error: self.mass_error + self.loss_error + (8.0 + 2.0 * largest) * UNIT_ROUNDOFF,
        }
    }

    fn support(&self) -> Support {
        let end = |loss: Option<&f64>| loss.copied().unwrap_or(0.0);
        Support {
            low: end(self.losses.first()) - self.loss_error,
            high: end(self.losses.last()) + self.loss_error,
            infinite: self.infinite,
            vanishing: self.vanishing(),
        }
    }

    /// `((1-q) Q + q P, Q)`: what only `Q` has lies at `ln(1 - q)` then.
    fn subsampled(&self, rate: f64, vanishing: f64) -> Self {
        let only_q = ((-rate).ln_1p(), (1.0 - rate) * vanishing);
        let mixed =
            self.cells().map(|(loss, cell)| (log_mix(rate, loss), (1.0 - rate) * cell.q + rate * cell.p));
        self.mapped(std::iter::once(only_q).chain(mixed), rate * self.infinite)
    }

    fn reversed(&self) -> Self {
        let mut atoms: Vec<(f64, f64)> = self.cells().map(|(loss, cell)| (-loss, cell.q)).collect();
        atoms.reverse();
        self.mapped(atoms.into_iter(), self.vanishing())
    }

    fn mirrored(&self) -> Self {
        let positive: Vec<(f64, CellMasses)> = self.cells().filter(|&(loss, _)| loss > 0.0).collect();
        let outside = positive.iter().map(|(_, cell)| cell.p + cell.q).sum::<f64>() + self.infinite;
        let zero = std::iter::once((0.0, (1.0 - outside).max(0.0)));
        let negative = positive.iter().rev().map(|(loss, cell)| (-loss, cell.q));
        self.mapped(
            negative.chain(zero).chain(positive.iter().map(|(loss, cell)| (*loss, cell.p))),
            self.infinite,
        )
    }
}

/// `p e^-loss`.
fn q_mass(loss: f64, p: f64) -> f64 {
    if loss > -500.0 { p * (-loss).exp() } else { (p.ln() - loss).exp() }
}

impl Discrete {
    /// The pair of these atoms itself.
    pub(crate) fn exact(atoms: Atoms) -> Self {
        Self { support: atoms.support(), upper: atoms, lower: None }
    }

    pub(crate) fn atoms(&self, side: Side) -> &Atoms {
        match (&self.lower, side) {
            (Some(lower), Side::Lower) => lower,
            _ => &self.upper,
        }
    }

    /// The pair on a Poisson sample: both enclosing distributions are sampled.
    pub(super) fn subsampled(&self, rate: f64) -> Self {
        Self {
            upper: self.upper.subsampled(rate, self.upper.vanishing()),
            // What a lower bound lacks of Q may be of its own making.
            lower: self.lower.as_ref().map(|atoms| atoms.subsampled(rate, 0.0)),
            support: self.support.subsampled(rate, |loss| log_mix(rate, loss)),
        }
    }

    /// The pair under an operation that exchanges `P` and `Q`. A lower bound may have lowered losses, which raises masses of `Q`, so
    /// that it bounds nothing when it is read backwards.
    fn turned(&self, turn: impl Fn(&Atoms) -> Atoms, support: Support) -> Self {
        Self { upper: turn(&self.upper), lower: self.lower.as_ref().map(|_| Atoms::default()), support }
    }

    pub(super) fn reversed(&self) -> Self {
        self.turned(Atoms::reversed, self.support.reversed())
    }

    pub(super) fn mirrored(&self) -> Self {
        self.turned(Atoms::mirrored, self.support.mirrored())
    }

    /// The highest loss alone, because what lies at the end of the support is put on a lattice as it is.
    pub(super) fn top(&self, side: Side) -> Option<Atom> {
        let Atoms { losses, masses, .. } = self.atoms(side);
        let (&loss, &p) = losses.last().zip(masses.last())?;
        Some(Atom { loss, cell: CellMasses { p, q: q_mass(loss, p) } })
    }

    /// All losses but the highest.
    pub(super) fn cells(&self, boundaries: &[f64], side: Side) -> LossCells {
        let atoms = self.atoms(side);
        let mut strips = vec![CellMasses::default(); boundaries.len() + 1];
        for (loss, cell) in atoms.cells().take(atoms.losses.len().saturating_sub(1)) {
            // The strip of (b_{i-1}, b_i] is the number of boundaries below the loss.
            let strip = &mut strips[boundaries.partition_point(|&b| b < loss)];
            strip.p += cell.p;
            strip.q += cell.q;
        }
        let above = strips.pop().unwrap_or_default();
        let below = if strips.is_empty() { CellMasses::default() } else { strips.remove(0) };
        LossCells { below, inner: strips, above, infinite: atoms.infinite }
    }

    /// Neighbouring atoms are taken together, but the outermost ones stay alone: probes tell where the lattice ends, and what lies beyond
    /// its ends becomes infinite or is lost.
    pub(super) fn probe(&self) -> Vec<Probe> {
        const COUNT: usize = 2000;
        let Atoms { losses, masses, .. } = &self.upper;
        let count = losses.len();
        let stride = count.div_ceil(COUNT).max(1);
        let inner = (1..count.saturating_sub(1)).step_by(stride);
        let starts: Vec<usize> =
            [0].into_iter().chain(inner).chain([count.saturating_sub(1), count]).collect();
        starts
            .windows(2)
            .filter(|ends| ends[0] < ends[1])
            .map(|ends| {
                let (losses, masses) = (&losses[ends[0]..ends[1]], &masses[ends[0]..ends[1]]);
                let p: f64 = masses.iter().sum();
                let q: f64 = losses.iter().zip(masses).map(|(&l, &m)| q_mass(l, m)).sum();
                let loss = match losses {
                    [_, _, ..] if p > 0.0 && q > 0.0 => (p / q).ln(),
                    _ => losses[losses.len() / 2],
                };
                Probe { loss, cell: CellMasses { p, q } }
            })
            .collect()
    }
}
