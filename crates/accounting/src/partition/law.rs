//! Discrete laws of positive sums, rounded in convex order.
//!
//! Every divergence of a pair `(P, Q)` is `E_Q f(R)` with `f` convex and `R = dP/dQ`: `f(r) = (r - a)_+` for `H_a(P || Q)`,
//! `(1 - a r)_+` for `H_a(Q || P)`. A *mean-preserving spread* of `R` therefore raises both directions at once, and a
//! *mean-preserving contraction* lowers both. Sums of independent terms keep the order: `f(x + .)` is convex.

use crate::numerics::UNIT_ROUNDOFF;
use crate::pair::Side;

/// A discrete law on `[0, infinity]` that stands for another one from above or below in convex order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RatioLaw {
    /// Increasing values.
    pub(super) values: Vec<f64>,
    pub(super) masses: Vec<f64>,
    /// The part of the mean that sits at infinity, with no mass: the limit of `m / v` of mass at `v`.
    pub(super) escaped: f64,
    /// Bound on the relative rounding error of each mass.
    pub(super) rounding: f64,
    /// Pairs of atoms that were added or multiplied on the way.
    pub(super) terms: f64,
}

/// Tail that trimming may move: of the mass at the low end, of the mean at the high end.
const TAIL: f64 = 1e-19;
/// Roundings of one product of masses, its position and its two shares.
const ROUNDINGS_A_TERM: f64 = 8.0;

/// Masses of values gathered between increasing bounds `b_0 < .. < b_n`, and above `b_n`.
pub(super) struct GatheredMasses<'a> {
    bounds: &'a [f64],
    widths: Vec<f64>,
    side: Side,
    /// Upper: mass on bound `k`. Lower: mass in the cell above bound `k`.
    mass: Vec<f64>,
    /// Upper: unused but for the last cell. Lower: `E[v - b_k]` over the cell above bound `k`.
    excess: Vec<f64>,
}

impl<'a> GatheredMasses<'a> {
    pub(super) fn new(bounds: &'a [f64], side: Side) -> Self {
        let widths = bounds.windows(2).map(|w| w[1] - w[0]).collect();
        Self { bounds, widths, side, mass: vec![0.0; bounds.len()], excess: vec![0.0; bounds.len()] }
    }

    /// Adds `mass` inside the cell above bound `k`, with `excess` the mean of `v - b_k` over it.
    ///
    /// # Guarantee
    /// Upper: the mass is split onto the two ends of its cell, its mean kept: a spread. In the last cell, which has no
    /// upper end, it stays on the lower one and the rest of its mean escapes: `f(v) <= f(b) + f'(infinity) (v - b)`.
    #[inline]
    pub(super) fn add(&mut self, k: usize, mass: f64, excess: f64) {
        if self.side == Side::Upper && k < self.widths.len() {
            let share = (excess / self.widths[k]).min(mass);
            self.mass[k] += mass - share;
            self.mass[k + 1] += share;
        } else {
            self.mass[k] += mass;
            self.excess[k] += excess;
        }
    }

    /// The law of what was gathered.
    ///
    /// # Guarantee
    /// Lower: each cell becomes one atom at its barycentre, a contraction.
    pub(super) fn law(self, escaped: f64, rounding: f64, terms: f64) -> RatioLaw {
        let mut law = RatioLaw { values: vec![], masses: vec![], escaped, rounding, terms };
        let last = self.bounds.len().saturating_sub(1);
        for (k, (&bound, (&mass, &excess))) in
            self.bounds.iter().zip(self.mass.iter().zip(&self.excess)).enumerate()
        {
            if mass <= 0.0 {
                continue;
            }
            let inside = match self.side {
                Side::Upper => 0.0,
                Side::Lower if k < last => (excess / mass).min(self.widths[k]),
                Side::Lower => excess / mass,
            };
            law.values.push(bound + inside);
            law.masses.push(mass);
        }
        if self.side == Side::Upper {
            law.escaped += self.excess[last];
        }
        law.trimmed(self.side)
    }
}

impl RatioLaw {
    /// The law of `X + Y` for independent `X` and `Y`, rounded onto `bounds`.
    pub(super) fn plus(&self, other: &Self, bounds: &[f64], side: Side) -> Self {
        let gathered = self.gather(other, bounds, side, |x, y| x + y);
        gathered.law(self.escaped + other.escaped, self.joint_rounding(other), self.joint_terms(other))
    }

    /// The law of `X Y` for independent `X` and `Y` of mean 1, rounded onto `bounds`.
    pub(super) fn times(&self, other: &Self, bounds: &[f64], side: Side) -> Self {
        let gathered = self.gather(other, bounds, side, |x, y| x * y);
        gathered.law(self.escaped + other.escaped, self.joint_rounding(other), self.joint_terms(other))
    }

    /// One of several laws, each with its probability. Where the probabilities do not quite add up to 1, their shares of the sum are meant,
    /// and the difference counts as rounding.
    pub(super) fn mixture(parts: Vec<(f64, Self)>) -> Self {
        let sum: f64 = parts.iter().map(|(probability, _)| probability).sum();
        // Twice what is missing covers the division by a sum near 1; the sum itself has a rounding a term.
        let shared = 2.0 * ((sum - 1.0).abs() + (parts.len() - 1) as f64 * UNIT_ROUNDOFF);
        let rounding = parts.iter().map(|(_, law)| law.rounding).fold(0.0, f64::max) + shared + UNIT_ROUNDOFF;
        let escaped = parts.iter().map(|(probability, law)| probability * law.escaped).sum();
        let terms = parts.iter().map(|(_, law)| law.terms).sum();
        let mut atoms: Vec<(f64, f64)> = parts
            .into_iter()
            .flat_map(|(probability, law)| {
                law.values.into_iter().zip(law.masses.into_iter().map(move |mass| probability * mass))
            })
            .collect();
        atoms.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (values, masses) = atoms.into_iter().unzip();
        Self { values, masses, escaped, rounding, terms }
    }

    /// The terms of both, once where they are the same, and those of joining them.
    fn joint_terms(&self, other: &Self) -> f64 {
        let terms = self.values.len() as f64 * other.values.len() as f64;
        match std::ptr::eq(self, other) {
            true => self.terms + 0.5 * terms,
            false => self.terms + other.terms + terms,
        }
    }

    /// Every mass of the result is a sum of at most one term for each pair.
    fn joint_rounding(&self, other: &Self) -> f64 {
        let terms = self.values.len() as f64 * other.values.len() as f64;
        self.rounding + other.rounding + (terms + ROUNDINGS_A_TERM) * UNIT_ROUNDOFF
    }

    /// `operation` must increase in both arguments. Products that underflow lie below 1e-300, and their part of the mean far
    /// below the rounding that is counted.
    fn gather<'a>(
        &self,
        other: &Self,
        bounds: &'a [f64],
        side: Side,
        operation: impl Fn(f64, f64) -> f64,
    ) -> GatheredMasses<'a> {
        let mut gathered = GatheredMasses::new(bounds, side);
        let same = std::ptr::eq(self, other);
        let last = bounds.len() - 1;
        for (i, (&x, &p)) in self.values.iter().zip(&self.masses).enumerate() {
            // A square is symmetric: each pair once, the unequal ones doubled.
            let from = if same { i } else { 0 };
            let (mut factor, others) = (p, if same { 2.0 * p } else { p });
            let start = operation(x, other.values[from]);
            let mut k = bounds.partition_point(|&b| b <= start).saturating_sub(1);
            let next = |k: usize| bounds.get(k + 1).copied().unwrap_or(f64::INFINITY);
            let (mut low, mut high) = (bounds[k], next(k));
            // Neighbours fall into the same cell: they are gathered before they are stored.
            let (mut mass, mut excess) = (0.0, 0.0);
            for (&y, &q) in other.values[from..].iter().zip(&other.masses[from..]) {
                let value = operation(x, y);
                while value >= high && k < last {
                    if mass > 0.0 {
                        gathered.add(k, mass, excess);
                        (mass, excess) = (0.0, 0.0);
                    }
                    k += 1;
                    (low, high) = (high, next(k));
                }
                let weight = factor * q;
                factor = others;
                mass += weight;
                excess += weight * (value - low).max(0.0);
            }
            gathered.add(k, mass, excess);
        }
        gathered
    }

    /// Moves far tails, in convex order, so that the next sum need not carry them.
    fn trimmed(mut self, side: Side) -> Self {
        let mean: f64 = self.values.iter().zip(&self.masses).map(|(v, m)| v * m).sum();
        let count = self.values.len();
        let mut low = 0;
        let mut mass = 0.0;
        while low + 1 < count && mass + self.masses[low] <= TAIL {
            mass += self.masses[low];
            low += 1;
        }
        let mut high = count;
        let mut moment = 0.0;
        while high > low + 1 && moment + self.masses[high - 1] * self.values[high - 1] <= TAIL * mean {
            high -= 1;
            moment += self.masses[high] * self.values[high];
        }
        let tail = |range: std::ops::Range<usize>| {
            let mass: f64 = self.masses[range.clone()].iter().sum();
            let moment: f64 = range.map(|k| self.masses[k] * self.values[k]).sum();
            (mass, moment)
        };
        let ((low_mass, low_moment), (high_mass, high_moment)) = (tail(0..low), tail(high..count));
        self.values.truncate(high);
        self.masses.truncate(high);
        self.values.drain(..low);
        self.masses.drain(..low);
        let (first, last) = (self.values.first().copied(), self.values.last().copied());
        match side {
            Side::Upper => {
                if let (Some(first), true) = (first, low_mass > 0.0) {
                    let share = (low_moment / first).min(low_mass);
                    self.masses[0] += share;
                    self.values.insert(0, 0.0);
                    self.masses.insert(0, low_mass - share);
                }
                if let (Some(last), Some(mass)) = (last, self.masses.last_mut()) {
                    *mass += high_mass;
                    self.escaped += (high_moment - high_mass * last).max(0.0);
                }
            }
            Side::Lower => {
                if low_mass > 0.0 {
                    self.values.insert(0, low_moment / low_mass);
                    self.masses.insert(0, low_mass);
                }
                if high_mass > 0.0 {
                    self.values.push(high_moment / high_mass);
                    self.masses.push(high_mass);
                }
            }
        }
        self
    }

    /// The least positive and the largest value.
    pub(super) fn range(&self) -> (f64, f64) {
        let low = self.values.iter().copied().find(|&v| v > 0.0).unwrap_or(1.0);
        (low, self.values.last().copied().unwrap_or(1.0))
    }
}

/// Where to cut the values of a law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spacing {
    /// Width of a cell over the scale of the law at that place.
    pub(super) resolution: f64,
    /// The largest width of a cell over its value and the resolution.
    pub(super) relative: f64,
}

impl Spacing {
    /// Increasing bounds that cut `[low, high]`, and 0: cells of a constant width around the mean, wider in the tails.
    pub(super) fn bounds(self, mean: f64, deviation: f64, low: f64, high: f64) -> Vec<f64> {
        let width = |v: f64| {
            let light = deviation.max(0.5 * self.relative * (v - mean).abs());
            self.resolution * light.min(self.relative * v)
        };
        let mut bounds = vec![];
        let mut v = mean;
        while v > low {
            v -= width(v);
            bounds.push(v);
        }
        bounds.push(0.0);
        bounds.reverse();
        let mut v = mean;
        while v < high {
            bounds.push(v);
            v += width(v);
        }
        bounds.push(v);
        bounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expectation(law: &RatioLaw, f: impl Fn(f64) -> f64) -> f64 {
        law.values.iter().zip(&law.masses).map(|(&v, &m)| m * f(v)).sum()
    }

    /// Two explicit laws; their sums and products by enumeration lie between the rounded ones for every call and put.
    #[test]
    fn rounded_sums_and_products_enclose_the_exact_ones_in_convex_order() {
        let exact = |values: Vec<f64>| {
            let masses = vec![1.0 / values.len() as f64; values.len()];
            RatioLaw { values, masses, escaped: 0.0, rounding: 0.0, terms: 0.0 }
        };
        let x = exact((1..=40).map(|i| 0.05 * f64::from(i)).collect());
        let y = exact((1..=30).map(|i| 0.002 * f64::from(i * i)).collect());
        let spacing = Spacing { resolution: 0.4, relative: 1.0 };
        type Combination = fn(f64, f64) -> f64;
        let operations: [(Combination, bool); 2] = [(|a, b| a + b, false), (|a, b| a * b, true)];
        for (operation, is_product) in operations {
            let pairs: Vec<f64> =
                x.values.iter().flat_map(|&a| y.values.iter().map(move |&b| operation(a, b))).collect();
            // The bounds end below the largest values, so that some of the mean escapes.
            let bounds = spacing.bounds(1.0, 0.5, 0.01, 1.5);
            let [upper, lower] = [Side::Upper, Side::Lower]
                .map(|side| if is_product { x.times(&y, &bounds, side) } else { x.plus(&y, &bounds, side) });
            for i in 0..60 {
                let strike = 0.06 * f64::from(i);
                let mean =
                    |f: &dyn Fn(f64) -> f64| pairs.iter().map(|&v| f(v)).sum::<f64>() / pairs.len() as f64;
                let call = |v: f64| (v - strike).max(0.0);
                let put = |v: f64| (strike - v).max(0.0);
                let (exact_call, exact_put) = (mean(&call), mean(&put));
                // Sums of 1200 terms: 1e-13 of rounding.
                assert!(expectation(&upper, call) + upper.escaped >= exact_call - 1e-13, "call {strike}");
                assert!(expectation(&upper, put) >= exact_put - 1e-13, "put {strike}");
                assert!(expectation(&lower, call) <= exact_call + 1e-13, "lower call {strike}");
                assert!(expectation(&lower, put) <= exact_put + 1e-13, "lower put {strike}");
            }
        }
    }
}
