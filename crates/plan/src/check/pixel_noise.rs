//! Gaussian noise on the pixels of views, and how much of a region it hides.

use dapple_accounting::baselines;
use dapple_geometry::{Operation, PaddingMode};

use super::Protected;
use crate::error::PlanError;

const KEY: &str = "pipeline.pixel_noise";
/// The channels of an image that are counted. Images of fewer are hidden better.
const CHANNELS: u32 = 3;
/// The largest value of a byte, in which the accountant counts noise.
const WHITE: f64 = 255.0;

/// The largest standard deviation, for values from 0 to 1. Noise is added on a lattice that is made for no larger ones.
const MOST: f64 = 4096.0;
/// What the total variation distance of each noisy value may be above that of ideal noise, because normal numbers are computed in double
/// precision before they are rounded to the lattice.
const COMPUTED: f64 = 1.0 / (1u64 << 30) as f64;

/// Gaussian noise on every value of every view, drawn anew for each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PixelNoise {
    deviation: f64,
    distance: f64,
}

impl PixelNoise {
    /// Checks the noise of a plan and prices what it hides of the protected region, if there is one.
    ///
    /// # Guarantee
    /// [`PixelNoise::distance`] is never below the total variation distance between two noisy views of which only the content of the
    /// region differs: their values are from 0 to 1 before the noise, at most three for each pixel, and operations before the noise show
    /// no pixel twice and mix none.
    ///
    /// # Errors
    /// A deviation that is not a positive number within the accountant's limits, or operations or crops that mix or repeat pixels.
    pub(super) fn check(
        deviation: f64,
        protected: Option<&Protected>,
        before: &[Operation],
        resizes_crops: bool,
    ) -> Result<Self, PlanError> {
        let Some(protected) = protected else { return Self::new(deviation, 0) };
        if resizes_crops {
            return Err(PlanError::invalid(
                KEY,
                "a resized crop mixes or repeats pixels before the noise",
                "give --crop WxH in the place of --crop-scale: the noise is counted for pixels that are shown once, as they are",
            ));
        }
        let moves = |operation: &Operation| {
            matches!(
                operation,
                Operation::Pad { mode: PaddingMode::Zero, .. }
                    | Operation::FlipHorizontal
                    | Operation::FlipVertical
                    | Operation::Turn { .. }
            )
        };
        if let Some(other) = before.iter().find(|operation| !moves(operation)) {
            return Err(PlanError::invalid(
                KEY,
                format!("`{}` mixes or repeats pixels before the noise", super::operations::write(other)),
                "leave one of them out: the noise is counted for pixels that are shown once, as they are",
            ));
        }
        Self::new(deviation, protected.largest_region_pixels()?)
    }

    fn new(deviation: f64, pixels: u64) -> Result<Self, PlanError> {
        let distance = baselines::noise_augmentation_rate(pixels, CHANNELS, WHITE * deviation);
        let invalid = || {
            let hint = format!("give a positive number of at most {MOST}");
            PlanError::invalid(KEY, format!("{deviation} is no standard deviation"), hint)
        };
        let distance = distance.ok().filter(|_| deviation <= MOST).ok_or_else(invalid)?;
        let computed = (pixels as f64) * f64::from(CHANNELS) * COMPUTED;
        Ok(Self { deviation, distance: (distance + computed).next_up().min(1.0) })
    }

    /// The standard deviation, for values from 0 to 1.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        self.deviation
    }

    /// The most channels of an image for which the distance holds.
    #[must_use]
    pub fn channels(&self) -> u32 {
        CHANNELS
    }

    /// The probability that a view which shows the region tells two contents of it apart; 0 if nothing is protected.
    #[must_use]
    pub fn distance(&self) -> f64 {
        self.distance
    }
}
