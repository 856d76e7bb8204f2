//! What the same protection costs without counting crops.

use dapple_accounting::{Bracket, BracketPrecision, baselines};

use crate::Plan;
use crate::Relation;
use crate::error::PlanError;

/// The privacy of adding Gaussian noise of standard deviation `pixel_sigma` (on the 0 to 255 scale) to images once, before any training,
/// for a private region of `region_pixels` pixels in `channels` channels.
///
/// # Guarantee
/// Everything computed from the noisy images is (upper end, delta)-private for the content of the region.
///
/// # Errors
/// An empty region, or noise that is not a positive number within the accountant's limits.
pub fn data_level_noise(
    region_pixels: u64,
    channels: u32,
    pixel_sigma: f64,
    delta: f64,
    precision: BracketPrecision,
) -> Result<Bracket, PlanError> {
    Ok(baselines::data_level_noise(region_pixels, channels, pixel_sigma)?.epsilon(delta, precision)?)
}

/// The privacy of the plan's run if every view of an image got fresh Gaussian pixel noise in place of crops. A view tells the two images
/// apart with probability at most their total variation distance, which replaces the inclusion probability (Schuchardt et al. 2025).
///
/// # Guarantee
/// The run is (upper end, delta)-private for the content of a region of `region_pixels` pixels in `channels` channels, if each step sees
/// one view of a record.
///
/// # Errors
/// As [`data_level_noise`] and [`Plan::epsilon`].
pub fn noise_augmentation(
    plan: &Plan,
    region_pixels: u64,
    channels: u32,
    pixel_sigma: f64,
    precision: BracketPrecision,
) -> Result<Bracket, PlanError> {
    let distance = baselines::noise_augmentation_rate(region_pixels, channels, pixel_sigma)?;
    let run = plan.at_relation(Relation::Patch).compose_parts(|_| distance)?;
    Ok(run.epsilon(plan.delta(), precision)?)
}

/// The guarantee `(k epsilon, delta')` for `count` protected regions at once, from that for one.
///
/// # Guarantee
/// This is the group privacy of any (epsilon, delta)-private mechanism (Vadhan 2017, Lemma 2.2). It is loose: protecting the union of the
/// regions as one region is tighter.
///
/// # Errors
/// There is no region, or the joint delta is not below 1.
pub fn group(epsilon: f64, delta: f64, count: u32) -> Result<(f64, f64), PlanError> {
    let joint = baselines::group(epsilon, delta, count);
    if count == 0 || !(joint.0 >= 0.0 && joint.1 > 0.0 && joint.1 < 1.0) {
        return Err(PlanError::invalid(
            "privacy.delta",
            format!("group privacy for {count} regions has no failure probability below 1 at delta {delta}"),
            "lower delta, or protect the union of the regions as one region",
        ));
    }
    Ok(joint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlanSpec;

    #[test]
    fn baselines_follow_their_formulas() {
        // One pixel of one channel at sigma = 255 is a Gaussian pair at distance 1: epsilon 4.37718 at delta 1e-5, by bisection of
        // Phi(1/2 - e) - exp(e) Phi(-1/2 - e) with Python's math.erfc. These are closed forms, so the printed digits are the tolerance.
        let once = data_level_noise(1, 1, 255.0, 1e-5, BracketPrecision::default()).unwrap();
        assert!((once.upper - 4.37718).abs() < 1e-5, "{once:?}");
        // These figures for colour patches of side 10, 20 and 40 at sigma = 1000 were computed independently, to three decimals.
        for (side, expected) in [(10, 27.893), (20, 75.874), (40, 230.512)] {
            let found = data_level_noise(side * side, 3, 1000.0, 1e-5, BracketPrecision::default()).unwrap();
            assert!((found.upper - expected).abs() < 1e-3, "{side}: {found:?}");
        }
        assert!(data_level_noise(0, 3, 1.0, 1e-5, BracketPrecision::default()).is_err());

        let (epsilon, delta) = group(1.0, 1e-6, 2).unwrap();
        assert_eq!(epsilon, 2.0);
        // (e^2 - 1) / (e - 1) = e + 1
        assert!((delta / (1e-6 * (1.0 + 1f64.exp())) - 1.0).abs() < 1e-12);
        assert!(group(1.0, 1e-6, 0).is_err() && group(10.0, 1e-2, 5).is_err());
    }

    #[test]
    fn noise_augmentation_lies_between_nothing_and_record_level() {
        let mut spec = PlanSpec::default();
        for (key, value) in [
            ("batch", "10"),
            ("records", "100"),
            ("steps", "20"),
            ("noise-multiplier", "2"),
            ("delta", "1e-5"),
        ] {
            spec.set(key, value).unwrap();
        }
        let plan = Plan::check(&spec).unwrap();
        let record = plan.at_relation(Relation::Replace).epsilon(BracketPrecision::default()).unwrap().upper;
        let at = |sigma| noise_augmentation(&plan, 4, 3, sigma, BracketPrecision::default()).unwrap().upper;
        // Little pixel noise reveals almost everything, and a lot of it reveals little.
        assert!((at(1.0) / record - 1.0).abs() < 1e-3);
        assert!(at(1e4) < 0.2 * record && at(1e4) > 0.0);
    }
}
