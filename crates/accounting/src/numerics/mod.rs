//! Normal masses, Fourier convolution with an error bound, bracketing root finders.

pub(crate) mod fft;
pub(crate) mod normal;
pub(crate) mod root;

/// The unit roundoff of `f64`.
pub(crate) const UNIT_ROUNDOFF: f64 = f64::EPSILON / 2.0;

/// `ln(1 - q + q e^l)`: the loss of a mechanism that runs with probability `q`.
pub(crate) fn log_mix(rate: f64, loss: f64) -> f64 {
    if loss > 500.0 { loss + rate.ln() } else { (rate * loss.exp_m1()).ln_1p() }
}

/// The inverse of [`log_mix`], minus infinity below its range.
pub(crate) fn log_unmix(rate: f64, loss: f64) -> f64 {
    if loss > 500.0 { loss - rate.ln() } else { (loss.exp_m1() / rate).max(-1.0).ln_1p() }
}
