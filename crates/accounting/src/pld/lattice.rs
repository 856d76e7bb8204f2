//! Loss distributions on lattices whose steps differ by powers of two.

use super::strips::Strips;
use crate::pair::{CellMasses, Side};

/// Tilted masses on `offset + k step`.
///
/// The mass at index `k` stands for `P(L = l) e^{lambda l}`, `l = offset + k h`, up to a factor that the owner keeps; masses
/// add up to about 1. Steps are one unit times powers of two, so that every lattice is a part of every finer one.
#[derive(Debug, Clone)]
pub(super) struct Lattice {
    pub(super) grain: Grain,
    /// Loss of index 0.
    pub(super) offset: f64,
    /// Increasing indices.
    pub(super) index: Vec<i64>,
    pub(super) mass: Vec<f64>,
}

/// A lattice step: `unit 2^exponent`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Grain {
    pub(super) unit: f64,
    pub(super) exponent: i32,
}

impl Grain {
    pub(super) fn step(self) -> f64 {
        libm::ldexp(self.unit, self.exponent)
    }

    /// The largest step of this unit that is not above `step`.
    pub(super) fn not_above(self, step: f64) -> Self {
        // A hair of room so that the step a unit was made from is found again.
        Self { exponent: floor_exponent(step / self.unit * (1.0 + 1e-9)), ..self }
    }

    pub(super) fn coarser_by(self, doublings: i32) -> Self {
        Self { exponent: self.exponent + doublings, ..self }
    }
}

/// The exponent of the largest power of two not above `value`.
pub(super) fn floor_exponent(value: f64) -> i32 {
    (libm::frexp(value).1 - 1).clamp(-200, 200)
}

impl Lattice {
    /// All mass at loss 0.
    pub(super) fn zero() -> Self {
        Self { grain: Grain { unit: 1.0, exponent: 0 }, offset: 0.0, index: vec![0], mass: vec![1.0] }
    }

    pub(super) fn step(&self) -> f64 {
        self.grain.step()
    }

    pub(super) fn total(&self) -> f64 {
        self.mass.iter().sum()
    }

    /// Adds mass at an index.
    pub(super) fn add(&mut self, index: i64, mass: f64) {
        match self.index.binary_search(&index) {
            Ok(place) => self.mass[place] += mass,
            Err(place) => {
                self.index.insert(place, index);
                self.mass.insert(place, mass);
            }
        }
    }

    /// Divides by the total mass and returns its logarithm.
    pub(super) fn normalise(&mut self) -> f64 {
        let total = self.total();
        for mass in &mut self.mass {
            *mass /= total;
        }
        total.ln()
    }

    /// Mean and standard deviation of the (normalised) tilted distribution.
    pub(super) fn moments(&self) -> (f64, f64) {
        let h = self.step();
        let mean = self.index.iter().zip(&self.mass).map(|(&k, m)| k as f64 * m).sum::<f64>();
        let variance =
            self.index.iter().zip(&self.mass).map(|(&k, m)| (k as f64 - mean).powi(2) * m).sum::<f64>();
        (self.offset + mean * h, variance.sqrt() * h)
    }

    /// The index that carries the most mass.
    pub(super) fn heaviest(&self) -> i64 {
        let heaviest = self.mass.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        heaviest.map_or(0, |(k, _)| self.index[k])
    }

    /// The same distribution on the coarser lattice `grain`, rounded to the given side.
    ///
    /// # Guarantee
    /// `Side::Upper` never lowers and `Side::Lower` never raises the delta of any composition it enters; both keep
    /// the tilt `lambda`.
    pub(super) fn regrid(self, grain: Grain, lambda: f64, side: Side) -> Self {
        if grain.exponent <= self.grain.exponent || self.index.is_empty() {
            return self;
        }
        const MOST_DOUBLINGS: i32 = 12;
        if grain.exponent - self.grain.exponent > MOST_DOUBLINGS {
            let between = self.grain.coarser_by(MOST_DOUBLINGS);
            return self.regrid(between, lambda, side).regrid(grain, lambda, side);
        }
        let (h, coarse) = (self.step(), grain.step());
        let loss = |k: usize| self.offset + self.index[k] as f64 * h;
        let centre = self.offset + self.heaviest() as f64 * h;
        let anchor = settle(centre, coarse, |middle| {
            let inside = (0..self.index.len()).filter(|&k| (loss(k) - middle).abs() <= coarse);
            inside.fold(CellMasses::default(), |cell, k| {
                let p = self.mass[k] * (lambda * (centre - loss(k))).exp();
                CellMasses { p: cell.p + p, q: cell.q + p * (middle - loss(k)).exp() }
            })
        });
        let offset = anchor.filter(|_| side == Side::Lower).unwrap_or(centre);
        // Position of index k in steps of the fine lattice from the new offset: (k + whole) + fraction. It falls into
        // cell (k + whole) >> shift, at one of 2^shift places in it.
        let shift = (grain.exponent - self.grain.exponent) as u32;
        let distance = (self.offset - offset) / h;
        let (whole, fraction) = (distance.floor() as i64, distance - distance.floor());
        let slot = |k: i64| (k + whole) >> shift;
        // The ends of all cells that hold mass, and index 0 with its neighbours for the anchor.
        let mut points: Vec<i64> = vec![];
        let mut add = |point: i64| {
            if points.last().is_none_or(|&last| last < point) {
                points.push(point);
            }
        };
        for &k in &self.index {
            let slot = slot(k);
            (slot - 1..=slot + 1).for_each(&mut add);
        }
        let places: Vec<(f64, f64)> = (0..1_i64 << shift)
            .map(|place| {
                let above = (place as f64 + fraction) * h;
                // Refers the tilt to the lower end of the cell.
                let untilt = (-lambda * above).exp();
                (untilt, untilt * -(-above).exp_m1())
            })
            .collect();
        let anchor = anchor.and_then(|_| points.binary_search(&0).ok());
        let mut strips = Strips::new(grain, offset, points);
        let mut cell = 0;
        for (&k, &mass) in self.index.iter().zip(&self.mass) {
            cell = strips.cell_from(cell, slot(k));
            let place = ((k + whole) - (slot(k) << shift)) as usize;
            if place == 0 && fraction == 0.0 {
                strips.points[cell] += mass;
            } else {
                strips.inner[cell].mass += mass * places[place].0;
                strips.inner[cell].excess += mass * places[place].1;
            }
        }
        strips.discretise(lambda, side, anchor)
    }
}

/// Where most of the mass lies within one step `h` of a point, the barycentre of that mass, lowered by a ten-millionth
/// of the step so that rounding never leaves it below; `None` where the mass is spread out.
///
/// `masses` gives, for a centre, the `P`-mass within one step of it and the `Q`-mass there times `e^centre`.
pub(super) fn settle(start: f64, h: f64, masses: impl Fn(f64) -> CellMasses) -> Option<f64> {
    let mut centre = start;
    for _ in 0..8 {
        let cell = masses(centre);
        if cell.p < 0.5 || cell.q.is_nan() || cell.q <= 0.0 {
            return None;
        }
        // centre + ln(p / q), without losing the digits of a difference near 0.
        let barycentre = centre + ((cell.p - cell.q) / cell.q).ln_1p() - 1e-7 * h;
        let settled = (barycentre - centre).abs() < 1e-8 * h;
        centre = barycentre;
        if settled {
            return Some(centre);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `E (1 - e^{eps - L})_+` of an untilted lattice.
    fn delta(lattice: &Lattice, epsilon: f64) -> f64 {
        let loss = |k: i64| lattice.offset + k as f64 * lattice.step();
        lattice
            .index
            .iter()
            .zip(&lattice.mass)
            .map(|(&k, m)| m * -(epsilon - loss(k)).min(0.0).exp_m1())
            .sum()
    }

    fn lattice() -> impl Strategy<Value = Lattice> {
        (
            prop::collection::vec(0.0..1.0_f64, 3..200),
            -100..100_i64,
            -1.0..1.0_f64,
            prop::option::of(0..200_usize),
        )
            .prop_map(|(mut mass, first, offset, atom)| {
                if let Some(slot) = atom.filter(|&slot| slot < mass.len()) {
                    mass[slot] = 100.0;
                }
                let total: f64 = mass.iter().sum();
                let mass: Vec<f64> = mass.iter().map(|m| m / total).collect();
                let index = (first..first + mass.len() as i64).collect();
                Lattice { grain: Grain { unit: 0.01, exponent: 0 }, offset, index, mass }
            })
    }

    proptest! {
        /// Whatever the distribution, coarsening raises delta on the upper side and lowers it on the lower side.
        #[test]
        fn coarsening_keeps_to_its_side(fine in lattice(), doublings in 1..6_i32, lambda in 0.0..30.0_f64) {
            let grain = fine.grain.coarser_by(doublings);
            let tilted = |lattice: &Lattice, sign: f64| {
                let mut copy = lattice.clone();
                for (k, mass) in copy.index.iter().zip(&mut copy.mass) {
                    *mass *= (sign * lambda * (lattice.offset + *k as f64 * lattice.step())).exp();
                }
                copy
            };
            let upper = tilted(&tilted(&fine, 1.0).regrid(grain, lambda, Side::Upper), -1.0);
            let lower = tilted(&tilted(&fine, 1.0).regrid(grain, lambda, Side::Lower), -1.0);
            for i in -40..40 {
                let epsilon = f64::from(i) * 0.07;
                let exact = delta(&fine, epsilon);
                // Sums of 200 products of exponentials of up to 90: 1e-12 of rounding.
                prop_assert!(delta(&upper, epsilon) >= exact * (1.0 - 1e-12) - 1e-15);
                prop_assert!(delta(&lower, epsilon) <= exact * (1.0 + 1e-12) + 1e-15);
            }
            prop_assert!((upper.total() - 1.0).abs() < 1e-12);
        }
    }
}
