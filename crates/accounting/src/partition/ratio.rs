//! A pair known through the law of its likelihood ratio.

use std::sync::{Arc, OnceLock};

use super::law::RatioLaw;
use super::lognormal::Mean;
use crate::pair::{CellMasses, LossCells, Probe, Side};
use crate::work::Work;

/// `(P, Q)` through laws of `R = dP/dQ` under `Q` that lie above and below the exact one in convex order.
///
/// # Guarantee
/// `H_a` of the upper law is never below the exact one and that of the lower never above it, in *both* directions: `H_a(P || Q)`
/// and `H_a(Q || P)` are means of convex functions of `R`. The same holds after Poisson sampling (`1 - q + q R` is affine in
/// `R`) and in products (a product of convex functions of independent ratios is convex in each).
#[derive(Debug, Clone)]
pub(crate) struct Ratio {
    parts: Vec<RatioPart>,
    /// Made when they are first asked for: a search asks for upper bounds alone.
    upper: OnceLock<Outcomes>,
    lower: OnceLock<Outcomes>,
    rough: OnceLock<Arc<Self>>,
}

/// One of the laws that a ratio is drawn from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RatioPart {
    pub(super) probability: f64,
    pub(super) mean: Mean,
    /// The distance of a Gaussian pair beside it.
    pub(super) beside: Option<f64>,
}

impl PartialEq for Ratio {
    fn eq(&self, other: &Self) -> bool {
        self.parts == other.parts
    }
}

/// Outcomes by increasing loss.
#[derive(Debug, Clone, PartialEq)]
struct Outcomes {
    losses: Vec<f64>,
    cells: Vec<CellMasses>,
    /// `P`-mass where `Q` has none.
    infinite: f64,
    /// Terms of the sums that made them.
    terms: f64,
}

impl Ratio {
    /// The ratio of a mixture whose parts are told apart: one of several, each with its probability.
    ///
    /// # Guarantee
    /// `E f(R)` of a mixture is the mean of those of its parts, so that it keeps the convex order.
    pub(super) fn mixture(parts: Vec<RatioPart>) -> Self {
        Self { parts, upper: OnceLock::new(), lower: OnceLock::new(), rough: OnceLock::new() }
    }

    /// The same ratio from wider cells, which bound it in the same order in a fraction of the time.
    pub(crate) fn rough(&self) -> Arc<Self> {
        let rough = |part: &RatioPart| RatioPart { mean: part.mean.rough(), ..*part };
        self.rough.get_or_init(|| Arc::new(Self::mixture(self.parts.iter().map(rough).collect()))).clone()
    }

    /// The work of all that has been made so far, rough or not.
    pub(crate) fn work(&self) -> f64 {
        let made = [&self.upper, &self.lower].into_iter().filter_map(OnceLock::get);
        let own: f64 = made.map(|outcomes| outcomes.terms).sum();
        own / Work::TERMS_A_UNIT + self.rough.get().map_or(0.0, |rough| rough.work())
    }

    fn outcomes(&self, side: Side) -> &Outcomes {
        let known = match side {
            Side::Upper => &self.upper,
            Side::Lower => &self.lower,
        };
        known.get_or_init(|| {
            let law = |part: &RatioPart| match part.beside {
                Some(mu) => part.mean.law_beside(mu, side),
                None => part.mean.law(side),
            };
            Outcomes::new(
                RatioLaw::mixture(self.parts.iter().map(|part| (part.probability, law(part))).collect()),
                side,
            )
        })
    }

    pub(crate) fn cells(&self, boundaries: &[f64], side: Side) -> LossCells {
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
        LossCells { below, inner, above, infinite: 0.0 }
    }

    pub(crate) fn probe(&self) -> Vec<Probe> {
        const COUNT: usize = 2000;
        let cells = &self.outcomes(Side::Upper).cells;
        let stride = cells.len().div_ceil(COUNT).max(1);
        cells
            .chunks(stride)
            .map(sum)
            .filter(|cell| cell.p > 0.0 && cell.q > 0.0)
            .map(|cell| Probe { loss: (cell.p / cell.q).ln(), cell })
            .collect()
    }
}

impl Outcomes {
    /// Rounding errors are relative errors of atoms, whose ratios are exact: scaling `P` and `Q` together by
    /// `1 + error` (upper) or `1 - error` (lower) covers them, since `H_a` is linear in that scale.
    fn new(law: RatioLaw, side: Side) -> Self {
        let sign = match side {
            Side::Upper => 1.0,
            Side::Lower => -1.0,
        };
        let scale = (1.0 + sign * law.rounding).max(0.0);
        let cells =
            law.values.iter().zip(&law.masses).map(|(r, m)| CellMasses { p: scale * r * m, q: scale * m });
        Self {
            // A ratio of 0 stays above a boundary at minus infinity, which stands for losses that sampling makes impossible.
            losses: law.values.iter().map(|r| r.ln().max(f64::MIN)).collect(),
            cells: cells.collect(),
            infinite: if sign > 0.0 { scale * law.escaped } else { 0.0 },
            terms: law.terms,
        }
    }
}

/// Sums by halves: an error of a few roundings, however many terms.
fn sum(cells: &[CellMasses]) -> CellMasses {
    if cells.len() <= 8 {
        return cells.iter().fold(CellMasses::default(), |total, cell| CellMasses {
            p: total.p + cell.p,
            q: total.q + cell.q,
        });
    }
    let (left, right) = cells.split_at(cells.len() / 2);
    let (left, right) = (sum(left), sum(right));
    CellMasses { p: left.p + right.p, q: left.q + right.q }
}
