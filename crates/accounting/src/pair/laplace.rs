//! Two Laplace distributions at distance 1: the Laplace mechanism.

use super::{Cell, Cells, Probe};

/// `P` and `Q` are Laplace distributions of scale `1 / epsilon` at distance 1; the loss lies in `[-epsilon, epsilon]`
/// with atoms of mass 1/2 (under `P`) at `epsilon` and `e^-epsilon / 2` at `-epsilon`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Laplace {
    pub(crate) epsilon: f64,
}

impl Laplace {
    /// `P`-mass and `Q`-mass of the losses in `(from, to]`.
    fn mass(&self, from: f64, to: f64) -> Cell {
        let e = self.epsilon;
        // Under P: an atom e^-e / 2 at -e, the density e^((l - e) / 2) / 4 between, an atom 1/2 at e. Q = e^-l P.
        let (a, b) = (from.clamp(-e, e), to.clamp(-e, e));
        let half_width = 0.5 * (b - a);
        let mut cell = Cell {
            p: 0.5 * (0.5 * (a - e)).exp() * half_width.exp_m1(),
            q: 0.5 * (-0.5 * (b + e)).exp() * half_width.exp_m1(),
        };
        if from < -e && to >= -e {
            cell.p += 0.5 * (-e).exp();
            cell.q += 0.5;
        }
        if from < e && to >= e {
            cell.p += 0.5;
            cell.q += 0.5 * (-e).exp();
        }
        cell
    }

    pub(super) fn cells(&self, boundaries: &[f64]) -> Cells {
        let (Some(&first), Some(&last)) = (boundaries.first(), boundaries.last()) else {
            return Cells::default();
        };
        Cells {
            below: self.mass(f64::NEG_INFINITY, first),
            inner: boundaries.windows(2).map(|w| self.mass(w[0], w[1])).collect(),
            above: self.mass(last, f64::INFINITY),
            zero_atom: 0.0,
        }
    }

    pub(super) fn probe(&self) -> Vec<Probe> {
        const COUNT: usize = 200;
        let e = self.epsilon;
        let step = 2.0 * e / COUNT as f64;
        let atom = |loss: f64, from: f64, to: f64| Probe { loss, cell: self.mass(from, to) };
        let mut probes = vec![atom(-e, f64::NEG_INFINITY, -e), atom(e, e - 1e-9 * step, f64::INFINITY)];
        probes.extend((0..COUNT).map(|i| {
            let from = -e + step * i as f64;
            atom(from + 0.5 * step, from, (from + step).min(e - 1e-9 * step))
        }));
        probes
    }
}
