//! What was compared, and what was found.

/// Largest difference allowed, as a share of the largest value.
pub(crate) const TOLERANCE: f64 = 1e-4;

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
        let scale = want.iter().fold(1e-30f64, |max, value| max.max(value.abs()));
        let difference = got.iter().zip(want).fold(0.0f64, |max, (got, want)| {
            let difference = (f64::from(*got) - want).abs() / scale;
            if difference.is_nan() { f64::INFINITY } else { max.max(difference) }
        });
        self.count += 1;
        self.worst = self.worst.max(difference);
        if got.len() != want.len() || difference > TOLERANCE {
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
