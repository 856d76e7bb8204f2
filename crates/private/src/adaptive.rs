//! A clip norm that follows a quantile of the gradients' norms (Andrew et al. 2021).

use dapple_data::StepKey;
use dapple_engine::StepStats;

use crate::error::StepError;
use crate::noise::Noise;

/// The clip norm stays within this factor of the first, so that every noise and unit that it may need can be checked before the first step.
const MOST_MOVED: f64 = (1u64 << 20) as f64;

/// A clip norm that moves with the share of gradients within it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdaptiveClip {
    first: f64,
    quantile: f64,
    rate: f64,
    norm: f64,
}

impl AdaptiveClip {
    /// Makes a clip norm from its value before the first step, the share of gradients that is to lie within it, and how fast it follows.
    #[must_use]
    pub fn new(first: f64, quantile: f64, rate: f64) -> Self {
        Self { first, quantile, rate, norm: first }
    }

    /// The clip norm of the next step.
    #[must_use]
    pub fn norm(&self) -> f64 {
        self.norm
    }

    /// The smallest and the largest value that the clip norm can take.
    #[must_use]
    pub fn bounds(&self) -> [f64; 2] {
        [self.first / MOST_MOVED, self.first * MOST_MOVED]
    }

    /// Goes on from a clip norm that was kept. If it lies outside the bounds, nothing changes and the answer is false.
    pub fn restore(&mut self, norm: f64) -> bool {
        let [least, greatest] = self.bounds();
        let fits = (least..=greatest).contains(&norm);
        if fits {
            self.norm = norm;
        }
        fits
    }

    /// Moves the clip norm by the share that a step released: `C exp(-rate (share - quantile))`. It is kept in single precision, in which
    /// the exponential functions of all machines agree except in the rarest of cases.
    pub(crate) fn follow(&mut self, share: f64) {
        let [least, greatest] = self.bounds();
        let next = self.norm * (-self.rate * (share - self.quantile)).exp();
        self.norm = f64::from(next as f32).clamp(least, greatest);
    }
}

/// The share of gradients within the clip norm, from a noisy count.
///
/// # Guarantee
/// It is a function of `2 sum (b - 1/2) + Z` alone, rounded to a lattice. Here `b` is 1 for each drawn record that clipping left as it was,
/// and 0 for every other one, such as one whose gradient is not finite. So each record adds 1 or -1 to a whole number, and which of the two
/// depends on its own gradient alone. `Z` is what `noise` adds; its deviation is twice that of the noise on `sum (b - 1/2)`. The divisor is
/// the expected batch.
pub(crate) fn noisy_share(
    stats: &StepStats,
    noise: &Noise,
    key: &StepKey,
    batch: u64,
) -> Result<f64, StepError> {
    let (within, drawn) = (stats.unclipped as i64, stats.losses.len() as i64);
    let count = i32::try_from(2 * within - drawn).expect("no sum holds 2^30 records");
    let mut released = [f32::from_bits(count as u32)];
    noise.add(&mut released, &[], 1.0, key)?;
    Ok(f64::from(released[0]) / (2.0 * batch as f64) + 0.5)
}
