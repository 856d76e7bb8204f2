//! Noise on the pixels of views lowers the price of protecting a region by the total variation distance that it leaves.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{assert_overlap, bracket, spec_of};
use dapple_plan::{BracketPrecision, Plan, PlanError, PlanSpec, baseline};

const BASE: [(&str, &str); 8] = [
    ("batch", "50"),
    ("records", "100"),
    ("steps", "1"),
    ("noise-multiplier", "1"),
    ("delta", "1e-3"),
    ("patch", "2x2"),
    ("image", "20x20"),
    ("relation", "patch"),
];

fn spec(settings: &[(&str, &str)]) -> PlanSpec {
    spec_of(BASE.iter().chain(settings))
}

fn plan(settings: &[(&str, &str)]) -> Plan {
    Plan::check(&spec(settings)).unwrap()
}

/// 2 Phi(sqrt(12) / 20) - 1, the distance for 2x2 pixels of three channels at a deviation of 10, from scipy.stats.norm.cdf; and what computed
/// numbers may differ by, for twelve values.
const DISTANCE: f64 = 0.13750976986407837 + 12.0 / 1_073_741_824.0;

#[test]
fn the_distance_multiplies_the_inclusion_probability() {
    let noisy = ("pipeline.pixel_noise", "10");
    let close =
        |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-12, "{found} {expected}");
    close(plan(&[noisy]).inclusion_probability(), DISTANCE);
    // A crop of 8x8 sees the patch from 81 of 169 places.
    close(plan(&[noisy, ("crop", "8x8")]).inclusion_probability(), 81.0 / 169.0 * DISTANCE);
    let views = plan(&[noisy, ("crop", "8x8"), ("views", "3")]).inclusion_probability();
    close(views, 1.0 - (1.0 - 81.0 / 169.0 * DISTANCE).powi(3));
    // Little noise hides nothing.
    close(plan(&[("pipeline.pixel_noise", "0.01"), ("crop", "8x8")]).inclusion_probability(), 81.0 / 169.0);
    // Whole records are not hidden by noise on a few pixels.
    assert_eq!(plan(&[noisy, ("relation", "replace")]).inclusion_probability(), 1.0);
}

#[test]
fn a_plan_costs_what_the_baseline_says() {
    let plain = plan(&[("steps", "30")]);
    let expected = baseline::noise_augmentation(&plain, 4, 3, 2550.0, BracketPrecision::default()).unwrap();
    assert_overlap(bracket(&plan(&[("steps", "30"), ("pipeline.pixel_noise", "10")])), expected);
}

/// The likelihood-ratio test on the noisy region decides the sign of the gradient, so that one content adds +C more often and the other
/// -C. What the two sums reveal is integrated, and stays below what is certified, but not below what half of the distance would certify.
#[test]
fn the_best_use_of_a_noisy_view_gains_no_more_than_is_certified() {
    let certified = |deviation: &str| plan(&[("pipeline.pixel_noise", deviation)]);
    for deviation in ["1", "3", "10"] {
        let plan = certified(deviation);
        let (distance, rate) = (plan.inclusion_probability(), plan.sample_rate());
        let density = |z: f64, more: f64| {
            let normal = |mean: f64| (-0.5 * (z - mean).powi(2)).exp() / std::f64::consts::TAU.sqrt();
            (1.0 - rate) * normal(0.0) + rate * (more * normal(1.0) + (1.0 - more) * normal(-1.0))
        };
        let gained = |epsilon: f64| -> f64 {
            let step = 1e-3;
            let point = |index: i32| {
                let z = f64::from(index) * step;
                let (one, other) = (density(z, 0.5 + 0.5 * distance), density(z, 0.5 - 0.5 * distance));
                (one - epsilon.exp() * other).max(0.0) * step
            };
            (-12_000..12_000).map(point).sum()
        };
        let epsilon = bracket(&plan).upper;
        // The sum is the integral to far more digits than are compared.
        assert!(gained(epsilon) <= plan.delta(), "{deviation}: {} {epsilon}", gained(epsilon));
        assert!(gained(0.25 * epsilon) > plan.delta(), "{deviation}: {}", gained(0.25 * epsilon));
    }
}

#[test]
fn what_mixes_or_repeats_pixels_is_refused() {
    let refused = |settings: &[(&str, &str)]| -> PlanError {
        let mut settings = settings.to_vec();
        settings.push(("pipeline.pixel_noise", "1"));
        Plan::check(&spec(&settings)).unwrap_err()
    };
    for operation in ["[\"resize 10x10\"]", "[\"blur 1\"]", "[\"pad 2 reflect\"]", "[\"pointwise\"]"] {
        let error = refused(&[("pipeline.operations", operation), ("crop", "8x8")]);
        assert!(error.to_string().contains("before the noise") && error.hint().is_some(), "{error}");
    }
    let error = refused(&[("crop-scale", "0.2:1")]);
    assert!(error.to_string().contains("resized crop") && error.hint().is_some(), "{error}");
    let error = refused(&[("pad", "2"), ("pad-mode", "reflect"), ("crop", "8x8")]);
    assert!(error.to_string().contains("before the noise"), "{error}");
    for moved in ["[\"pad 2\"]", "[\"flip-horizontal\"]", "[\"turn-clockwise\"]"] {
        plan(&[("pipeline.operations", moved), ("crop", "8x8"), ("pipeline.pixel_noise", "1")]);
    }
    for wrong in ["0", "-1", "nan", "4097", "1e12"] {
        let mut spec = spec(&[]);
        spec.pipeline.pixel_noise = Some(wrong.parse().unwrap());
        let error = Plan::check(&spec).unwrap_err();
        assert!(error.to_string().contains("no standard deviation"), "{error}");
    }
}

#[test]
fn the_certificate_tells_of_the_noise() {
    let certificate = plan(&[("pipeline.pixel_noise", "10")]).price(BracketPrecision::default()).unwrap();
    let said = certificate.assumptions.join("\n");
    assert!(said.contains("standard deviation 10 before anything else sees them"), "{said}");
    assert!(said.contains("at most 0.1376") && !certificate.protects.contains("label pixels"), "{said}");
}
