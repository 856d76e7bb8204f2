//! What the same protection costs without counting crops.

use dapple_accounting::{Bracket, Pld, Precision};

use crate::error::PlanError;

/// The largest difference of two values of a pixel with 8 bits a channel.
const FULL_SCALE: f64 = 255.0;

/// Privacy of images to which Gaussian noise of standard deviation `pixel_sigma` (on the 0 to 255 scale) is added once, before any
/// training: a private region of `region_pixels` pixels in `channels` channels moves the image by at most
/// `255 sqrt(channels * pixels)` in l2 norm.
///
/// # Guarantee
/// Everything computed from the noisy images is (upper end, delta)-private for the content of the region.
///
/// # Errors
/// No pixels or channels, or noise that is not a positive number within the accountant's limits.
pub fn data_level_noise(
    region_pixels: u64,
    channels: u32,
    pixel_sigma: f64,
    delta: f64,
    precision: Precision,
) -> Result<Bracket, PlanError> {
    let distance = FULL_SCALE * (region_pixels as f64 * f64::from(channels)).sqrt() / pixel_sigma;
    Ok(Pld::gaussian_distance(distance)?.epsilon(delta, precision)?)
}

/// The guarantee for `count` protected regions at once, from that for one: `(k epsilon, delta (e^{k epsilon} - 1) / (e^epsilon - 1))`.
///
/// # Guarantee
/// The group privacy of any (epsilon, delta)-private mechanism (Vadhan 2017, Lemma 2.2). Loose: protecting the union as one
/// region is tighter.
///
/// # Errors
/// A count of zero, or a delta that leaves the probabilities.
pub fn group(epsilon: f64, delta: f64, count: u32) -> Result<(f64, f64), PlanError> {
    let k = f64::from(count);
    let grown = if epsilon == 0.0 { k } else { (k * epsilon).exp_m1() / epsilon.exp_m1() };
    let joint = delta * grown;
    if count == 0 || !(epsilon >= 0.0 && joint > 0.0 && joint < 1.0) {
        return Err(PlanError::invalid(
            "privacy.delta",
            format!("group privacy for {count} regions has no probability below 1 at delta {delta}"),
            "lower delta, or protect the union of the regions as one region",
        ));
    }
    Ok((k * epsilon, joint))
}
