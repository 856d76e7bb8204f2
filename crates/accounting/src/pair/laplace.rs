//! Two Laplace distributions at distance 1: the Laplace mechanism.

use super::{Atom, CellMasses, LossCells, Probe};

/// `P` and `Q` are Laplace distributions of scale `1 / epsilon` at distance 1; the loss lies in `[-epsilon, epsilon]`
/// with atoms of mass 1/2 (under `P`) at `epsilon` and `e^-epsilon / 2` at `-epsilon`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Laplace {
    pub(crate) epsilon: f64,
}

impl Laplace {
    /// The two ends: masses `e^-e / 2` at `-e` and 1/2 at `e` under `P`, the other way round under `Q`.
    pub(super) fn atoms(&self) -> [Atom; 2] {
        let high = CellMasses { p: 0.5, q: 0.5 * (-self.epsilon).exp() };
        [Atom { loss: -self.epsilon, cell: high.swapped() }, Atom { loss: self.epsilon, cell: high }]
    }

    /// `P`-mass and `Q`-mass of the losses in `(from, to]` between the ends.
    fn mass(&self, from: f64, to: f64) -> CellMasses {
        let e = self.epsilon;
        // Under P the density e^((l - e) / 2) / 4; Q = e^-l P.
        let (a, b) = (from.clamp(-e, e), to.clamp(-e, e));
        let half_width = 0.5 * (b - a);
        CellMasses {
            p: 0.5 * (0.5 * (a - e)).exp() * half_width.exp_m1(),
            q: 0.5 * (-0.5 * (b + e)).exp() * half_width.exp_m1(),
        }
    }

    pub(super) fn cells(&self, boundaries: &[f64]) -> LossCells {
        let (Some(&first), Some(&last)) = (boundaries.first(), boundaries.last()) else {
            return LossCells::default();
        };
        LossCells {
            below: self.mass(f64::NEG_INFINITY, first),
            inner: boundaries.windows(2).map(|w| self.mass(w[0], w[1])).collect(),
            above: self.mass(last, f64::INFINITY),
            infinite: 0.0,
        }
    }

    pub(super) fn probe(&self) -> Vec<Probe> {
        const COUNT: usize = 200;
        let e = self.epsilon;
        let step = 2.0 * e / COUNT as f64;
        let between = (0..COUNT).map(|i| {
            let from = -e + step * i as f64;
            Probe { loss: from + 0.5 * step, cell: self.mass(from, from + step) }
        });
        between.chain(self.atoms().map(|Atom { loss, cell }| Probe { loss, cell })).collect()
    }
}
