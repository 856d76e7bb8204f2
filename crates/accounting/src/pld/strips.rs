//! Distributions cut by lattice points, and the two ways to put what lies between the points onto them.

use super::lattice::{Grain, Lattice};
use crate::pair::Side;

/// Mass strictly between two neighbouring lattice points.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InnerMass {
    /// `P`-mass.
    pub(super) mass: f64,
    /// `E_P[1 - e^{a - L}]` over the cell, `a` its lower end: 0 at the lower end, the most at the upper.
    pub(super) excess: f64,
}

/// A distribution cut by lattice points: what lies on them, what lies between them. Each cell is tilted at its lower end.
#[derive(Debug, Clone)]
pub(super) struct Strips {
    grain: Grain,
    offset: f64,
    index: Vec<i64>,
    pub(super) points: Vec<f64>,
    /// `inner[k]` lies between points `k` and `k + 1`; the last is empty.
    pub(super) inner: Vec<InnerMass>,
}

impl Strips {
    pub(super) fn new(grain: Grain, offset: f64, index: Vec<i64>) -> Self {
        let count = index.len();
        Self { grain, offset, index, points: vec![0.0; count], inner: vec![InnerMass::default(); count] }
    }

    /// The position of the point `index`, at `from` or after it.
    pub(super) fn cell_from(&self, from: usize, index: i64) -> usize {
        from + self.index[from..].iter().position(|&point| point == index).unwrap_or(0)
    }

    /// Adds an atom of untilted mass at `loss`, which must lie between the first and the last point.
    pub(super) fn add(&mut self, loss: f64, mass: f64) {
        let h = self.grain.step();
        let position = (loss - self.offset) / h;
        let slot = self.index.partition_point(|&k| k as f64 <= position).saturating_sub(1);
        let above = (position - self.index[slot] as f64) * h;
        if above <= 0.0 {
            self.points[slot] += mass;
        } else {
            self.inner[slot].mass += mass;
            self.inner[slot].excess += mass * -(-above).exp_m1();
        }
    }

    /// Moves all mass onto the lattice points. `anchor` is the position of a point around which mass is concentrated
    /// so closely that its two cells belong together.
    pub(super) fn discretise(self, lambda: f64, side: Side, anchor: Option<usize>) -> Lattice {
        let mass = match side {
            Side::Upper => self.connect_the_dots(lambda),
            Side::Lower => self.collapse(lambda, anchor),
        };
        let (index, mass) = self.index.into_iter().zip(mass).filter(|&(_, m)| m > 0.0).unzip();
        Lattice { grain: self.grain, offset: self.offset, index, mass }
    }

    fn gap(&self, from: usize, to: usize) -> f64 {
        (self.index[to] - self.index[from]) as f64 * self.grain.step()
    }

    /// Splits each cell onto its two ends so that its `P`-mass and its `Q`-mass are kept (connect the dots,
    /// Doroshenko et al. 2022).
    ///
    /// # Guarantee
    /// The profile is the chord of the exact one between lattice points: never below it.
    fn connect_the_dots(&self, lambda: f64) -> Vec<f64> {
        let mut mass = self.points.clone();
        for k in 0..self.index.len().saturating_sub(1) {
            let inner = self.inner[k];
            if inner.mass <= 0.0 {
                continue;
            }
            let gap = self.gap(k, k + 1);
            let upper = (inner.excess / -(-gap).exp_m1()).clamp(0.0, inner.mass);
            mass[k] += inner.mass - upper;
            mass[k + 1] += upper * (lambda * gap).exp();
        }
        mass
    }

    /// Replaces blocks of cells by two neighbouring lattice points with the same `P`- and `Q`-mass, where that is
    /// provably a contraction.
    ///
    /// # Guarantee
    /// Every `(1 - e^{eps - S})_+` is convex in `e^{-L}` of each step, so replacing a block by a distribution below
    /// it in convex order (with the same mean of `e^{-L}`) never raises delta. The order is checked on the block's
    /// call function `c(K) = E(y - K)_+`, `y = 1 - e^{a - L}`, bounded below by its tangents at the two points; a
    /// block that never passes is rounded down to the lattice point below its mean, which lowers the loss.
    fn collapse(&self, lambda: f64, anchor: Option<usize>) -> Vec<f64> {
        let count = self.index.len();
        let mut mass = vec![0.0; count];
        // Outwards from the anchor, so that blocks that never contract are left at the far ends.
        let (mut low, mut high) = match anchor {
            Some(k) if k > 0 && k + 1 < count => {
                self.place(&self.block(k - 1, k + 1, lambda), k - 1, lambda, &mut mass);
                (k - 1, k + 1)
            }
            _ => (0, 0),
        };
        while high < count {
            let from = high;
            let block = loop {
                high += 1;
                let block = self.block(from, high, lambda);
                if high == count || block.is_done(high - from) {
                    break block;
                }
            };
            self.place(&block, from, lambda, &mut mass);
        }
        while low > 0 {
            let to = low;
            let block = loop {
                low -= 1;
                let block = self.block(low, to, lambda);
                if low == 0 || block.is_done(to - low) {
                    break block;
                }
            };
            self.place(&block, low, lambda, &mut mass);
        }
        mass
    }

    /// The points and cells `from..to`.
    fn block(&self, from: usize, to: usize, lambda: f64) -> StripBlock {
        let mut block = StripBlock::default();
        for k in from..to {
            let gap = self.gap(from, k);
            let untilt = (-lambda * gap).exp();
            let y = -(-gap).exp_m1();
            let inner = self.inner[k];
            let moment = untilt * (inner.mass * y + inner.excess * (-gap).exp());
            block.push(y, untilt * self.points[k], untilt * inner.mass, moment);
        }
        if to < self.index.len() {
            block.y.push(-(-self.gap(from, to)).exp_m1());
        }
        block
    }

    /// Puts the mass of a block, tilted at its first point, onto lattice points.
    fn place(&self, block: &StripBlock, from: usize, lambda: f64, mass: &mut [f64]) {
        if block.mass <= 0.0 {
            return;
        }
        let (low, share) = block.contracts().unwrap_or_else(|| (block.floor(), 0.0));
        for (slot, part) in [(from + low, 1.0 - share), (from + low + 1, share)] {
            if part > 0.0 && slot < mass.len() {
                mass[slot] += block.mass * part * (lambda * self.gap(from, slot)).exp();
            }
        }
    }
}

/// Consecutive cells, in the coordinate `y = 1 - e^{a - L}` from the block's first point `a`.
#[derive(Debug, Default)]
struct StripBlock {
    /// `y` of the block's lattice points, the end point included.
    y: Vec<f64>,
    /// Mass on point `k`, then mass and first moment of the cell above it.
    parts: Vec<(f64, f64, f64)>,
    mass: f64,
    moment: f64,
}

impl StripBlock {
    /// Adds a point and the cell above it.
    fn push(&mut self, y: f64, point: f64, inner: f64, moment: f64) {
        self.y.push(y);
        self.parts.push((point, inner, moment));
        self.mass += point + inner;
        self.moment += point * y + moment;
    }

    /// Whether the block needs no more cells, or will not contract however many it gets.
    fn is_done(&self, cells: usize) -> bool {
        self.mass == 0.0 || cells >= 48 || self.contracts().is_some()
    }

    /// The mean, lowered by its rounding error.
    fn mean(&self) -> f64 {
        self.moment / self.mass - 4.0 * f64::EPSILON * self.y.last().copied().unwrap_or(0.0)
    }

    /// The last lattice point not above the mean.
    fn floor(&self) -> usize {
        let mean = self.mean();
        self.y.partition_point(|&y| y <= mean).saturating_sub(1)
    }

    /// The lower of the two points that may take the block, and the share of the upper one, if the convex order holds.
    fn contracts(&self) -> Option<(usize, f64)> {
        let (mean, low) = (self.mean(), self.floor());
        let (&y0, &y1) = (self.y.get(low)?, self.y.get(low + 1)?);
        let share = ((mean - y0) / (y1 - y0)).clamp(0.0, 1.0);
        if share < 1e-6 {
            // So close to a point that rounding down to it costs nothing.
            return Some((low, 0.0));
        }
        // c(K) at both points with the slopes of its tangents towards the other point.
        let (mut c0, mut above0, mut c1, mut above1) = (0.0, 0.0, 0.0, 0.0);
        for (k, &(point, inner, moment)) in self.parts.iter().enumerate() {
            if k > low {
                c0 += point * (self.y[k] - y0);
                above0 += point;
                c1 += point * (self.y[k] - y1);
                above1 += point + inner;
                c1 += moment - inner * y1;
            }
            if k >= low {
                c0 += moment - inner * y0;
                above0 += inner;
            }
        }
        let (c0, above0, c1, above1) =
            (c0 / self.mass, above0 / self.mass, c1 / self.mass, above1 / self.mass);
        // Where the tangents c0 - above0 (K - y0) and c1 + above1 (y1 - K) meet, the lower bound is least.
        let slope = above0 - above1;
        let gap = y1 - y0;
        let meet = if slope > 0.0 { ((c0 - c1 - above1 * gap) / slope).clamp(0.0, gap) } else { 0.0 };
        let bound = c0 - above0 * meet;
        let line = (mean - y0) * (1.0 - meet / gap);
        (bound >= line).then_some((low, share))
    }
}
