//! Dominating pairs of one step, seen through their privacy loss.
//!
//! A pair `(P, Q)` enters the accountant only through the masses that `P` and `Q` give to intervals of the loss
//! `L = ln dP/dQ`. Pairs are built from a base (Gaussian, Laplace, mixtures of Gaussians, a discrete
//! distribution) by wrappers that keep the domination: Poisson subsampling, mirroring into the two-sided profile
//! of a symmetric relation, and reversal.

mod discrete;
mod gaussian;
mod laplace;
mod mixture;
mod substitution;
mod support;

use std::sync::Arc;

use crate::numerics::{log_mix, log_unmix};
use crate::partition::Ratio;

pub(crate) use discrete::{Atoms, Discrete};
pub(crate) use gaussian::Gaussian;
pub(crate) use laplace::Laplace;
pub(crate) use mixture::Mixture;
pub use substitution::{Distances, Participation, Substitution};
pub(crate) use support::Support;

/// `P`-mass and `Q`-mass of one set of outcomes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CellMasses {
    pub(crate) p: f64,
    pub(crate) q: f64,
}

impl CellMasses {
    fn swapped(self) -> Self {
        Self { p: self.q, q: self.p }
    }

    fn times(self, share: f64) -> Self {
        Self { p: self.p * share, q: self.q * share }
    }

    fn plus(self, other: Self) -> Self {
        Self { p: self.p + other.p, q: self.q + other.q }
    }

    /// The masses of the same outcomes in `((1-q) Q + q P, Q)`.
    fn sampled(self, rate: f64) -> Self {
        Self { p: (1.0 - rate) * self.q + rate * self.p, q: self.q }
    }
}

impl Atom {
    /// The same atom in `(Q, P)`.
    fn turned(self) -> Self {
        Self { loss: -self.loss, cell: self.cell.swapped() }
    }
}

/// The masses of the loss intervals cut by increasing boundaries `b_0 < .. < b_n`.
#[derive(Debug, Clone, Default)]
pub(crate) struct LossCells {
    /// The mass of losses of at most `b_0`.
    pub(crate) below: CellMasses,
    /// The mass of losses in `(b_i, b_{i+1}]`.
    pub(crate) inner: Vec<CellMasses>,
    /// The mass of losses above `b_n`.
    pub(crate) above: CellMasses,
    /// `P`-mass at infinite loss where a pair states it, counted nowhere else.
    pub(crate) infinite: f64,
}

/// A single loss with masses of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Atom {
    pub(crate) loss: f64,
    pub(crate) cell: CellMasses,
}

/// A coarse picture of a pair: representative losses with their masses, in no particular order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    pub(crate) loss: f64,
    pub(crate) cell: CellMasses,
}

/// Which discretisation of a [`Discrete`] pair an answer needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Never underestimates delta.
    Upper,
    /// Never overestimates delta.
    Lower,
}

/// A dominating pair.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DominatingPair {
    Gaussian(Gaussian),
    Laplace(Laplace),
    Mixture(Arc<Mixture>),
    /// The positive half of the substitution mixture; only meaningful inside `Mirrored`.
    Substitution(Substitution),
    Discrete(Arc<Discrete>),
    /// A mixture over places, by the law of its likelihood ratio; good in both directions.
    Ratio(Arc<Ratio>),
    /// `((1-q) Q + q P, Q)`: the record is seen with probability `q`.
    Subsampled {
        base: Box<DominatingPair>,
        rate: f64,
    },
    /// The two-sided profile of a symmetric relation (`h(a) = 1 - a + a h(1/a)` for `a < 1`): positive losses
    /// of the base, their mirror image with `P` and `Q` exchanged, and the rest of the mass at loss 0.
    Mirrored(Box<DominatingPair>),
    /// `(Q, P)`.
    Reversed(Box<DominatingPair>),
    /// One of two pairs, the second with this probability, and everybody sees which.
    Either {
        usual: Box<DominatingPair>,
        rare: Box<DominatingPair>,
        probability: f64,
    },
}

impl DominatingPair {
    pub(crate) fn subsampled(self, rate: f64) -> Self {
        match self {
            _ if rate >= 1.0 => self,
            Self::Discrete(pair) => Self::Discrete(Arc::new(pair.subsampled(rate))),
            base => Self::Subsampled { base: Box::new(base), rate },
        }
    }

    pub(crate) fn mirrored(self) -> Self {
        match self {
            // Their losses above and below 0 mirror each other already; Gaussian steps can then be joined into one.
            Self::Gaussian(_) | Self::Laplace(_) | Self::Mirrored(_) => self,
            Self::Discrete(pair) => Self::Discrete(Arc::new(pair.mirrored())),
            other => Self::Mirrored(Box::new(other)),
        }
    }

    pub(crate) fn reversed(self) -> Self {
        match self {
            // A Gaussian pair and a two-sided pair are their own mirror images.
            Self::Gaussian(_) | Self::Laplace(_) | Self::Mirrored(_) => self,
            Self::Reversed(base) => *base,
            Self::Discrete(pair) => Self::Discrete(Arc::new(pair.reversed())),
            other => Self::Reversed(Box::new(other)),
        }
    }

    /// The same pair with laws of ratios that are quick to make. Their upper bounds are good enough for searches.
    pub(crate) fn rough(&self) -> Self {
        match self {
            Self::Ratio(pair) => Self::Ratio(pair.rough()),
            Self::Subsampled { base, rate } => Self::Subsampled { base: Box::new(base.rough()), rate: *rate },
            Self::Mirrored(base) => Self::Mirrored(Box::new(base.rough())),
            Self::Reversed(base) => Self::Reversed(Box::new(base.rough())),
            Self::Either { usual, rare, probability } => Self::Either {
                usual: Box::new(usual.rough()),
                rare: Box::new(rare.rough()),
                probability: *probability,
            },
            _ => self.clone(),
        }
    }

    /// The work of the laws that have been made for it so far.
    pub(crate) fn work(&self) -> f64 {
        match self {
            Self::Ratio(pair) => pair.work(),
            Self::Subsampled { base, .. } | Self::Mirrored(base) | Self::Reversed(base) => base.work(),
            Self::Either { usual, rare, .. } => usual.work() + rare.work(),
            _ => 0.0,
        }
    }

    /// Where its losses end.
    pub(crate) fn support(&self) -> Support {
        match self {
            Self::Gaussian(_) | Self::Substitution(_) | Self::Ratio(_) => Support::UNBOUNDED,
            Self::Laplace(pair) => Support::symmetric(pair.epsilon),
            Self::Mixture(pair) => pair.support(),
            Self::Discrete(pair) => pair.support,
            Self::Subsampled { base, rate } => base.support().subsampled(*rate, |loss| log_mix(*rate, loss)),
            Self::Mirrored(base) => base.support().mirrored(),
            Self::Reversed(base) => base.support().reversed(),
            Self::Either { usual, rare, probability } => {
                Support::either(usual.support(), rare.support(), *probability)
            }
        }
    }

    /// How far each loss, and each mass relatively, may be from those of the exact pair.
    pub(crate) fn errors(&self, side: Side) -> (f64, f64) {
        match self {
            Self::Discrete(pair) => {
                let atoms = pair.atoms(side);
                (atoms.loss_error, atoms.mass_error)
            }
            Self::Either { usual, rare, .. } => {
                let (one, other) = (usual.errors(side), rare.errors(side));
                (one.0.max(other.0), one.1.max(other.1))
            }
            _ => (0.0, 0.0),
        }
    }

    /// Losses that have masses of their own, which [`DominatingPair::cells`] does not count.
    pub(crate) fn atoms(&self, side: Side) -> Vec<Atom> {
        match self {
            Self::Gaussian(_) | Self::Mixture(_) | Self::Substitution(_) | Self::Ratio(_) => vec![],
            Self::Laplace(pair) => pair.atoms().into(),
            Self::Discrete(pair) => pair.top(side).into_iter().collect(),
            Self::Subsampled { base, rate } => {
                let sampled =
                    |Atom { loss, cell }| Atom { loss: log_mix(*rate, loss), cell: cell.sampled(*rate) };
                base.atoms(side).into_iter().map(sampled).collect()
            }
            Self::Reversed(base) => base.atoms(side).into_iter().map(Atom::turned).collect(),
            Self::Either { usual, rare, probability } => {
                let of = |pair: &Self, share: f64| {
                    let atoms = pair.atoms(side).into_iter();
                    atoms.map(move |Atom { loss, cell }| Atom { loss, cell: cell.times(share) })
                };
                of(usual, 1.0 - probability).chain(of(rare, *probability)).collect()
            }
            Self::Mirrored(base) => {
                let mut atoms = base.atoms(side);
                atoms.retain(|atom| atom.loss > 0.0);
                let above = base.cells(&[0.0], side).above;
                let positive =
                    atoms.iter().map(|atom| atom.cell.p + atom.cell.q).sum::<f64>() + above.p + above.q;
                let mirrored: Vec<Atom> = atoms.iter().copied().map(Atom::turned).collect();
                atoms.extend(mirrored);
                // The common mass of P and Q.
                let rest = (1.0 - positive).max(0.0);
                atoms.push(Atom { loss: 0.0, cell: CellMasses { p: rest, q: rest } });
                atoms
            }
        }
    }

    /// The masses of the intervals cut by `boundaries`, which must increase strictly, without those of [`DominatingPair::atoms`].
    ///
    /// # Guarantee
    /// Each mass has a relative error of at most [`MASS_ERROR`]; an outcome is counted in the cell of its loss up to
    /// the rounding of the boundary.
    pub(crate) fn cells(&self, boundaries: &[f64], side: Side) -> LossCells {
        match self {
            Self::Gaussian(pair) => pair.cells(boundaries),
            Self::Laplace(pair) => pair.cells(boundaries),
            Self::Mixture(pair) => pair.cells(boundaries),
            Self::Substitution(pair) => pair.cells(boundaries),
            Self::Discrete(pair) => pair.cells(boundaries, side),
            Self::Ratio(pair) => pair.cells(boundaries, side),
            Self::Subsampled { base, rate } => {
                // loss' = ln(1 - q + q e^loss), so loss = ln(1 + (e^loss' - 1) / q).
                let inner: Vec<f64> = boundaries.iter().map(|b| log_unmix(*rate, *b)).collect();
                let cells = base.cells(&inner, side);
                LossCells {
                    below: cells.below.sampled(*rate),
                    inner: cells.inner.into_iter().map(|cell| cell.sampled(*rate)).collect(),
                    above: cells.above.sampled(*rate),
                    infinite: rate * cells.infinite,
                }
            }
            Self::Mirrored(base) => mirrored_cells(base, boundaries, side),
            Self::Reversed(base) => {
                let negated: Vec<f64> = boundaries.iter().rev().map(|b| -b).collect();
                let cells = base.cells(&negated, side);
                LossCells {
                    below: cells.above.swapped(),
                    inner: cells.inner.into_iter().rev().map(CellMasses::swapped).collect(),
                    above: cells.below.swapped(),
                    infinite: 0.0,
                }
            }
            Self::Either { usual, rare, probability } => {
                let (one, other) = (usual.cells(boundaries, side), rare.cells(boundaries, side));
                let both = |one: CellMasses, other: CellMasses| {
                    one.times(1.0 - probability).plus(other.times(*probability))
                };
                LossCells {
                    below: both(one.below, other.below),
                    inner: one
                        .inner
                        .into_iter()
                        .zip(other.inner)
                        .map(|(one, other)| both(one, other))
                        .collect(),
                    above: both(one.above, other.above),
                    infinite: (1.0 - probability) * one.infinite + probability * other.infinite,
                }
            }
        }
    }

    /// Representative losses: good to a few per cent, for choosing grids and tilts, never for an answer.
    pub(crate) fn probe(&self) -> Vec<Probe> {
        match self {
            Self::Gaussian(pair) => pair.probe(),
            Self::Laplace(pair) => pair.probe(),
            Self::Mixture(pair) => pair.probe(),
            Self::Substitution(pair) => pair.probe(),
            Self::Discrete(pair) => pair.probe(),
            Self::Ratio(pair) => pair.probe(),
            Self::Subsampled { base, rate } => {
                let mut probes = base.probe();
                for probe in &mut probes {
                    probe.loss = log_mix(*rate, probe.loss);
                    probe.cell = probe.cell.sampled(*rate);
                }
                probes
            }
            Self::Mirrored(base) => {
                let mut probes = base.probe();
                probes.retain(|probe| probe.loss > 0.0);
                let zero = 1.0 - probes.iter().map(|probe| probe.cell.p + probe.cell.q).sum::<f64>();
                let mirrored: Vec<Probe> = probes
                    .iter()
                    .map(|probe| Probe { loss: -probe.loss, cell: probe.cell.swapped() })
                    .collect();
                probes.extend(mirrored);
                probes.push(Probe { loss: 0.0, cell: CellMasses { p: zero.max(0.0), q: zero.max(0.0) } });
                probes
            }
            Self::Reversed(base) => base
                .probe()
                .into_iter()
                .map(|probe| Probe { loss: -probe.loss, cell: probe.cell.swapped() })
                .collect(),
            Self::Either { usual, rare, probability } => {
                let of = |pair: &Self, share: f64| {
                    let probes = pair.probe().into_iter();
                    probes.map(move |Probe { loss, cell }| Probe { loss, cell: cell.times(share) })
                };
                of(usual, 1.0 - probability).chain(of(rare, *probability)).collect()
            }
        }
    }
}

/// Relative error of the masses that [`DominatingPair::cells`] returns: a few roundings on top of [`normal::interval`].
///
/// [`normal::interval`]: crate::numerics::normal::interval
pub(crate) const MASS_ERROR: f64 = 64.0 * f64::EPSILON;

fn mirrored_cells(base: &DominatingPair, boundaries: &[f64], side: Side) -> LossCells {
    // Positive boundaries cut the base; the negative ones cut its mirror image. 0 is always a cut.
    let mut positive: Vec<f64> = boundaries.iter().copied().filter(|&b| b > 0.0).collect();
    positive.insert(0, 0.0);
    let mut negative: Vec<f64> = boundaries.iter().rev().map(|&b| -b).filter(|&b| b > 0.0).collect();
    negative.insert(0, 0.0);
    let right = base.cells(&positive, side);
    let left = base.cells(&negative, side);
    let has_zero = boundaries.contains(&0.0);

    let mut strips: Vec<CellMasses> = Vec::with_capacity(boundaries.len() + 2);
    strips.push(left.above.swapped());
    strips.extend(left.inner.iter().rev().map(|c| c.swapped()));
    if has_zero {
        strips.extend(right.inner.iter().copied());
    } else if let Some((&first, rest)) = right.inner.split_first() {
        // No boundary at 0: the two strips that meet there are one cell.
        match strips.last_mut() {
            Some(last) => *last = last.plus(first),
            None => strips.push(first),
        }
        strips.extend(rest.iter().copied());
    } else if let Some(last) = strips.last_mut() {
        *last = last.plus(right.above);
        let above = strips.pop().unwrap_or_default();
        return split_ends(strips, above);
    }
    split_ends(strips, right.above)
}

fn split_ends(mut strips: Vec<CellMasses>, above: CellMasses) -> LossCells {
    if strips.is_empty() {
        return LossCells { above, ..LossCells::default() };
    }
    let below = strips.remove(0);
    LossCells { below, inner: strips, above, infinite: 0.0 }
}
