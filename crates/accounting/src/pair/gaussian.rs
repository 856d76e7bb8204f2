//! Two normal distributions of one variance: the Gaussian mechanism.

use super::{CellMasses, LossCells, Probe};
use crate::numerics::normal;

/// `P = N(mu, 1)`, `Q = N(0, 1)`; the loss at `t` is `mu t - mu^2 / 2`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Gaussian {
    pub(crate) mu: f64,
}

/// How far beyond the means, in standard deviations, a probe looks.
pub(super) const PROBE_REACH: f64 = 13.0;
/// The spacing of probes, in standard deviations.
pub(super) const PROBE_STEP: f64 = 0.1;

impl Gaussian {
    pub(super) fn cells(&self, boundaries: &[f64]) -> LossCells {
        let mu = self.mu;
        outcome_cells(
            boundaries,
            |b| b / mu + 0.5 * mu,
            |from, to| CellMasses { p: normal::interval(from - mu, to - mu), q: normal::interval(from, to) },
        )
    }

    pub(super) fn probe(&self) -> Vec<Probe> {
        let mu = self.mu;
        let count = ((mu + 2.0 * PROBE_REACH) / PROBE_STEP).ceil();
        (0..count as usize)
            .map(|i| {
                let from = -PROBE_REACH + PROBE_STEP * i as f64;
                let to = from + PROBE_STEP;
                Probe {
                    loss: mu * 0.5 * (from + to) - 0.5 * mu * mu,
                    cell: CellMasses {
                        p: normal::interval(from - mu, to - mu),
                        q: normal::interval(from, to),
                    },
                }
            })
            .collect()
    }
}

/// Cuts the real line of outcomes at the outcomes whose losses are `boundaries`.
pub(super) fn outcome_cells(
    boundaries: &[f64],
    mut outcome: impl FnMut(f64) -> f64,
    mass: impl Fn(f64, f64) -> CellMasses,
) -> LossCells {
    let cuts: Vec<f64> = boundaries.iter().map(|&b| outcome(b)).collect();
    let (Some(&first), Some(&last)) = (cuts.first(), cuts.last()) else { return LossCells::default() };
    LossCells {
        below: mass(f64::NEG_INFINITY, first),
        inner: cuts.windows(2).map(|w| mass(w[0], w[1])).collect(),
        above: mass(last, f64::INFINITY),
        infinite: 0.0,
    }
}
