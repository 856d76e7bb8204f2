//! Windows that provably hold a composed distribution.

use super::lattice::Lattice;

/// The moment generating function of a lattice distribution, bounded from above by chords over short runs.
pub(super) struct ChernoffWindow {
    /// Ends of each run with the masses that chords put on them, relative to the mean.
    ends: Vec<(f64, f64)>,
    count: f64,
    mean: f64,
    deviation: f64,
}

impl ChernoffWindow {
    pub(super) fn new(lattice: &Lattice, count: u64) -> Self {
        let h = lattice.step();
        let (mean, deviation) = lattice.moments();
        let longest = (0.1 * deviation / h) as i64;
        let mut ends = vec![];
        let mut from = 0;
        while from < lattice.index.len() {
            let first = lattice.index[from];
            let mut to = from;
            let (mut mass, mut moment) = (0.0, 0.0);
            while to < lattice.index.len() && lattice.index[to] - first <= longest {
                mass += lattice.mass[to];
                moment += lattice.mass[to] * (lattice.index[to] - first) as f64;
                to += 1;
            }
            let run = lattice.index[to - 1] - first;
            let a = lattice.offset + first as f64 * h - mean;
            if run == 0 {
                ends.push((a, mass));
            } else {
                let upper = (moment / run as f64).min(mass);
                ends.push((a, mass - upper));
                ends.push((a + run as f64 * h, upper));
            }
            from = to;
        }
        Self { ends, count: count as f64, mean, deviation }
    }

    fn log_moment(&self, theta: f64) -> f64 {
        self.count * self.ends.iter().map(|(x, m)| m * (theta * x).exp()).sum::<f64>().ln()
    }

    /// The Chernoff bound: beyond it, on the side of `sign`, lies at most `budget` of the composed mass.
    pub(super) fn reach(windows: &[Self], budget: f64, sign: f64) -> f64 {
        let mean: f64 = windows.iter().map(|w| w.count * w.mean).sum();
        let deviation = windows.iter().map(|w| w.count * w.deviation.powi(2)).sum::<f64>().sqrt();
        // A composition cannot leave the range of its parts.
        let range: f64 = windows
            .iter()
            .map(|w| {
                let end = if sign > 0.0 { w.ends.last() } else { w.ends.first() };
                w.count * end.map_or(0.0, |(x, _)| sign * x)
            })
            .sum();
        if deviation == 0.0 {
            return mean + sign * range;
        }
        let needed = -budget.ln();
        let start = (2.0 * needed).sqrt() / deviation;
        let bound = |theta: f64| {
            let moment: f64 = windows.iter().map(|w| w.log_moment(sign * theta)).sum();
            let value = (moment + needed) / theta;
            if value.is_nan() { f64::INFINITY } else { value }
        };
        let mut best = range;
        let mut theta = start * 1.5;
        let mut misses = 0;
        while misses < 2 && theta > start * 1e-6 {
            let value = bound(theta);
            if value < best {
                best = value;
                misses = 0;
            } else if best < range {
                misses += 1;
            }
            theta *= 0.7;
        }
        mean + sign * best
    }
}
