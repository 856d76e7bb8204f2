//! A pair known through the law of its likelihood ratio.

use super::law::Law;
use crate::pair::{Cell, Cells, Probe, Side};

/// `(P, Q)` through laws of `R = dP/dQ` under `Q` that lie above and below the exact one in convex order.
///
/// # Guarantee
/// `H_a` of the upper law is never below the exact one and that of the lower never above it, in *both* directions: `H_a(P || Q)`
/// and `H_a(Q || P)` are means of convex functions of `R`. The same holds after Poisson sampling (`1 - q + q R` is affine in
/// `R`) and in products (a product of convex functions of independent ratios is convex in each).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ratio {
    upper: Outcomes,
    lower: Outcomes,
}

/// Outcomes by increasing loss.
#[derive(Debug, Clone, PartialEq)]
struct Outcomes {
    losses: Vec<f64>,
    cells: Vec<Cell>,
    /// `P`-mass where `Q` has none.
    infinite: f64,
}

impl Ratio {
    /// The ratio of a mixture whose parts are told apart: one of several, each given by its probability and its laws from above
    /// and below.
    ///
    /// # Guarantee
    /// `E f(R)` of a mixture is the mean of those of its parts, so that it keeps the convex order.
    pub(super) fn mixture(parts: impl Iterator<Item = (f64, [Law; 2])>) -> Self {
        let (mut upper, mut lower) = (vec![], vec![]);
        for (probability, [above, below]) in parts {
            upper.push((probability, above));
            lower.push((probability, below));
        }
        Self::new(Law::mixture(upper), Law::mixture(lower))
    }

    /// Rounding errors are relative errors of atoms, whose ratios are exact: scaling `P` and `Q` together by
    /// `1 + error` (upper) or `1 - error` (lower) covers them, since `H_a` is linear in that scale.
    fn new(upper: Law, lower: Law) -> Self {
        let outcomes = |law: Law, sign: f64| {
            let scale = (1.0 + sign * law.rounding).max(0.0);
            let cells =
                law.values.iter().zip(&law.masses).map(|(r, m)| Cell { p: scale * r * m, q: scale * m });
            Outcomes {
                // A ratio of 0 stays above a boundary at minus infinity, which stands for losses that sampling makes impossible.
                losses: law.values.iter().map(|r| r.ln().max(f64::MIN)).collect(),
                cells: cells.collect(),
                infinite: if sign > 0.0 { scale * law.escaped } else { 0.0 },
            }
        };
        Self { upper: outcomes(upper, 1.0), lower: outcomes(lower, -1.0) }
    }

    fn outcomes(&self, side: Side) -> &Outcomes {
        match side {
            Side::Upper => &self.upper,
            Side::Lower => &self.lower,
        }
    }

    pub(crate) fn cells(&self, boundaries: &[f64], side: Side) -> Cells {
        let outcomes = self.outcomes(side);
        let mut cuts = boundaries.iter().map(|&b| outcomes.losses.partition_point(|&loss| loss <= b));
        let mut from = 0;
        let mut until = |to: usize| {
            let cell = sum(&outcomes.cells[from..to]);
            from = to;
            cell
        };
        let below = cuts.next().map(&mut until).unwrap_or_default();
        let inner = cuts.map(&mut until).collect();
        let mut above = until(outcomes.cells.len());
        above.p += outcomes.infinite;
        Cells { below, inner, above, infinite: 0.0 }
    }

    pub(crate) fn probe(&self) -> Vec<Probe> {
        const COUNT: usize = 2000;
        let stride = self.upper.cells.len().div_ceil(COUNT).max(1);
        self.upper
            .cells
            .chunks(stride)
            .map(sum)
            .filter(|cell| cell.p > 0.0 && cell.q > 0.0)
            .map(|cell| Probe { loss: (cell.p / cell.q).ln(), cell })
            .collect()
    }
}

/// Sums by halves: an error of a few roundings, however many terms.
fn sum(cells: &[Cell]) -> Cell {
    if cells.len() <= 8 {
        return cells
            .iter()
            .fold(Cell::default(), |total, cell| Cell { p: total.p + cell.p, q: total.q + cell.q });
    }
    let (left, right) = cells.split_at(cells.len() / 2);
    let (left, right) = (sum(left), sum(right));
    Cell { p: left.p + right.p, q: left.q + right.q }
}
