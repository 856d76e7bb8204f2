//! What was compared, and what was found.

/// Largest difference allowed, as a share of the largest value.
pub(crate) const TOLERANCE: f64 = 1e-4;
/// The same for norms and for what was clipped by them. Norms of layers whose gradients are never written down are upper bounds, raised by
/// `(positions + 8) 2^-20` of the sizes of what they are made of: for 64 positions, of which each adds to the norm independently, by 6e-4
/// of it.
pub(crate) const RAISED: f64 = 1e-3;

/// Counts comparisons and remembers the failures.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) worst: f64,
    pub(crate) count: usize,
    pub(crate) failures: Vec<String>,
}

impl Report {
    /// Compares value by value, to the full tolerance.
    pub(crate) fn compare(&mut self, name: &str, got: &[f32], want: &[f64]) {
        self.compare_within(name, got, want, TOLERANCE, 0.0);
    }

    /// Compares value by value, to a share of the largest and `grain`.
    pub(crate) fn compare_within(
        &mut self,
        name: &str,
        got: &[f32],
        want: &[f64],
        tolerance: f64,
        grain: f64,
    ) {
        let scale = want.iter().fold(1e-30f64, |max, value| max.max(value.abs()));
        let difference = got.iter().zip(want).fold(0.0f64, |max, (got, want)| {
            let difference = (f64::from(*got) - want).abs();
            if difference.is_nan() { f64::INFINITY } else { max.max((difference - grain).max(0.0) / scale) }
        });
        self.count += 1;
        self.worst = self.worst.max(difference);
        if got.len() != want.len() || difference > tolerance {
            self.failures.push(format!("{name}: {difference:.2e} ({} of {})", got.len(), want.len()));
        }
    }

    /// Counts one comparison that holds or fails.
    pub(crate) fn expect(&mut self, holds: bool, problem: impl FnOnce() -> String) {
        self.count += 1;
        if !holds {
            self.failures.push(problem());
        }
    }

    pub(crate) fn join(&mut self, other: Self) {
        self.worst = self.worst.max(other.worst);
        self.count += other.count;
        self.failures.extend(other.failures);
    }
}
