//! What others would do instead: noise on the pixels, noise as augmentation, group privacy.

use crate::error::{Result, in_range};
use crate::numerics::normal;
use crate::pld::Pld;

/// The largest value of a pixel channel.
const PIXEL_RANGE: f64 = 255.0;

/// The l2 sensitivity of an image under substitution of `pixels` pixels with `channels` channels of 8 bits
/// (patch-level paper, section 5.1: `255 sqrt(3 H_R W_R)`).
#[must_use]
pub fn pixel_sensitivity(pixels: u64, channels: u32) -> f64 {
    PIXEL_RANGE * (f64::from(channels) * pixels as f64).sqrt()
}

/// Gaussian noise of standard deviation `sigma`, added once to every pixel before training. This is a single release, so there is nothing
/// to compose.
///
/// # Errors
/// A sigma that is not positive and finite, or an empty region.
pub fn data_level_noise(pixels: u64, channels: u32, sigma: f64) -> Result<Pld> {
    let sigma = in_range("pixel noise", sigma, 1e-6, 1e9, "[1e-6, 1e9]")?;
    Pld::gaussian_distance(pixel_sensitivity(pixels, channels) / sigma)
}

/// The probability that a view with fresh Gaussian pixel noise tells the two images apart: the total variation distance of
/// the noised regions (Schuchardt et al. 2025). Sampling at rate `g` gives the effective rate `g` times this.
///
/// # Guarantee
/// Rounded up, so that the effective rate is never too small.
///
/// # Errors
/// A sigma that is not positive and finite.
pub fn noise_augmentation_rate(pixels: u64, channels: u32, sigma: f64) -> Result<f64> {
    let sigma = in_range("pixel noise", sigma, 1e-6, 1e9, "[1e-6, 1e9]")?;
    let half = 0.5 * pixel_sensitivity(pixels, channels) / sigma;
    // TV(N(0), N(d)) = 2 Phi(d / 2) - 1
    Ok((normal::interval(-half, half) * (1.0 + 1e-14)).min(1.0))
}

/// Group privacy: what an `(epsilon, delta)` guarantee for one region says about `count` regions
/// (Vadhan 2017, Lemma 2.2): `(k epsilon, delta (e^{k epsilon} - 1) / (e^epsilon - 1))`.
#[must_use]
pub fn group(epsilon: f64, delta: f64, count: u32) -> (f64, f64) {
    let k = f64::from(count);
    let factor = if epsilon > 0.0 { (k * epsilon).exp_m1() / epsilon.exp_m1() } else { k };
    (k * epsilon, (delta * factor).min(1.0))
}
