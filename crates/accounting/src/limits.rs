//! The ranges in which the accountant is proved and tested.

use crate::error::{Result, in_range};

/// The largest epsilon that is reported.
pub const MAX_EPSILON: f64 = 1e4;

/// Checks a noise multiplier.
///
/// # Errors
/// Outside [0.05, 1e4].
pub fn noise_multiplier(value: f64) -> Result<f64> {
    in_range("noise multiplier", value, 0.05, 1e4, "[0.05, 10000]")
}

/// Checks a sample rate.
///
/// # Errors
/// Outside [1e-8, 1].
pub fn sample_rate(value: f64) -> Result<f64> {
    in_range("sample rate", value, 1e-8, 1.0, "[1e-8, 1]")
}

/// Checks a delta.
///
/// # Errors
/// Outside [1e-15, 0.5].
pub fn delta(value: f64) -> Result<f64> {
    in_range("delta", value, 1e-15, 0.5, "[1e-15, 0.5]")
}

/// Checks a delta that a distribution is asked about. It may be anything below 1, and also 0 where all losses are bounded.
///
/// # Errors
/// Neither 0 nor in [1e-15, 1).
pub fn any_delta(value: f64) -> Result<f64> {
    if value == 0.0 {
        return Ok(value);
    }
    in_range("delta", value, 1e-15, 1.0_f64.next_down(), "[1e-15, 1)")
}

/// Checks a number of steps.
///
/// # Errors
/// Outside [1, 1e7].
pub fn steps(value: u64) -> Result<u64> {
    in_range("steps", value as f64, 1.0, 1e7, "[1, 10000000]").map(|_| value)
}

/// Checks an epsilon.
///
/// # Errors
/// Negative, not a number, or above [`MAX_EPSILON`].
pub fn epsilon(value: f64) -> Result<f64> {
    in_range("epsilon", value, 0.0, MAX_EPSILON, "[0, 10000]")
}
