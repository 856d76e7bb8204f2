//! A pair given by finitely many losses: the result of a numerical composition, ready for further operations.

use super::{Cell, Cells, Probe, Side};

/// Atoms of a loss distribution: increasing losses with their `P`-masses.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Atoms {
    pub(crate) losses: Vec<f64>,
    pub(crate) masses: Vec<f64>,
    /// `P`-mass at infinite loss.
    pub(crate) infinite: f64,
}

/// Two discrete distributions that enclose the exact one.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Discrete {
    /// Never underestimates delta.
    pub(crate) upper: Atoms,
    /// Never overestimates delta.
    pub(crate) lower: Atoms,
}

impl Discrete {
    fn atoms(&self, side: Side) -> &Atoms {
        match side {
            Side::Upper => &self.upper,
            Side::Lower => &self.lower,
        }
    }

    pub(super) fn cells(&self, boundaries: &[f64], side: Side) -> Cells {
        let atoms = self.atoms(side);
        let mut strips = vec![Cell::default(); boundaries.len() + 1];
        for (&loss, &p) in atoms.losses.iter().zip(&atoms.masses) {
            // The strip of (b_{i-1}, b_i] is the number of boundaries below the loss.
            let strip = &mut strips[boundaries.partition_point(|&b| b < loss)];
            strip.p += p;
            strip.q += p * (-loss).exp();
        }
        // What Q lacks to 1 lies where P has nothing: at loss minus infinity.
        let lacking = 1.0 - strips.iter().map(|strip| strip.q).sum::<f64>();
        if side == Side::Upper
            && let Some(lowest) = strips.first_mut()
        {
            lowest.q += lacking.max(0.0);
        }
        let mut above = strips.pop().unwrap_or_default();
        above.p += atoms.infinite;
        if strips.is_empty() {
            return Cells { above, ..Cells::default() };
        }
        let below = strips.remove(0);
        Cells { below, inner: strips, above, zero_atom: 0.0 }
    }

    /// Neighbouring atoms together, but the outermost alone: probes tell where the lattice ends, and what lies beyond its ends is
    /// infinite or lost.
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
                let q: f64 = losses.iter().zip(masses).map(|(l, m)| m * (-l).exp()).sum();
                let loss = match losses {
                    [_, _, ..] if p > 0.0 && q > 0.0 => (p / q).ln(),
                    _ => losses[losses.len() / 2],
                };
                Probe { loss, cell: Cell { p, q } }
            })
            .collect()
    }
}
