//! A clip norm that follows a quantile: what it costs, and where it is refused.
#![allow(clippy::unwrap_used, reason = "a test")]

use dapple_plan::spec::TrainSpec;
use dapple_plan::{
    BracketPrecision, Certificate, GradientBound, Plan, PlanError, PlanSpec, Unknown, calibrate,
};
use proptest::prelude::*;

const FIXED: &str =
    "[privacy]\nnoise_multiplier = 1.5\ndelta = 1e-5\n[sampling]\nbatch = 400\nrecords = 1000\nsteps = 30\n";

fn spec(more: &str) -> PlanSpec {
    PlanSpec::from_toml(FIXED).unwrap().merge(&PlanSpec::from_toml(more).unwrap())
}

fn plan(more: &str) -> Plan {
    Plan::check(&spec(more)).unwrap()
}

fn refused(more: &str) -> PlanError {
    Plan::check(&spec(more)).unwrap_err()
}

/// The standard normal distribution function.
fn normal(x: f64) -> f64 {
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

/// Sum and count as two Gaussian mechanisms side by side, in closed form: of a step that draws everybody, with the noise that training adds. The
/// shifts of both add up in squares, over all steps, and delta follows from the sum (Balle and Wang 2018).
#[test]
fn the_price_is_that_of_sum_and_count_together() {
    for more in ["", "privacy.count_noise = 0.9", "privacy.count_noise = 3.0\nprivacy.noise_multiplier = 4.0"]
    {
        let plan = plan(&format!("privacy.clip_quantile = 0.5\nsampling.batch = 1000\n{more}"));
        let (z_g, s) = (plan.gradient_noise(), plan.count_noise().unwrap());
        assert!(z_g > plan.noise_multiplier());
        let mu = (30.0 * (z_g.powi(-2) + (2.0 * s).powi(-2))).sqrt();
        let epsilon = plan.price(BracketPrecision::default()).unwrap().epsilon;
        let delta =
            |epsilon: f64| normal(mu / 2.0 - epsilon / mu) - epsilon.exp() * normal(-mu / 2.0 - epsilon / mu);
        // Noise is rounded up by 1e-12, which moves delta by about as little.
        assert!(delta(epsilon.upper) <= plan.delta() * (1.0 + 1e-9), "{more}: {}", delta(epsilon.upper));
        assert!(delta(epsilon.lower.unwrap()) >= plan.delta() * (1.0 - 1e-9), "{more}");
    }
}

proptest! {
    /// `1 / z_g^2 + 1 / (2 s)^2 <= 1 / z^2`, and the noise is no larger than it must be.
    #[test]
    fn shares_of_the_noise_add_up(z in 0.1f64..50.0, share in 0.51f64..1e6) {
        let s = share * z;
        let plan = plan(&format!("privacy.clip_quantile = 0.5\nprivacy.noise_multiplier = {z}\nprivacy.count_noise = {s}"));
        // In wider numbers: both sides times (2 s z z_g)^2, of products that are split without error.
        let [z, s, z_g] = [plan.noise_multiplier(), 2.0 * plan.count_noise().unwrap(), plan.gradient_noise()];
        let used = (z / z_g).powi(2) + (z / s).powi(2);
        prop_assert!(used <= 1.0, "{used}");
        prop_assert!(used >= 1.0 - 1e-10, "{used}");
    }
}

#[test]
fn the_price_does_not_change_and_the_hash_does() {
    let price = |plan: &Plan| plan.price(BracketPrecision::default()).unwrap();
    let (fixed, adapted) = (plan(""), plan("privacy.clip_quantile = 0.5"));
    assert_eq!(price(&fixed).epsilon, price(&adapted).epsilon);
    let mut hashes: Vec<String> = ["", "privacy.clip_rate = 0.3", "privacy.count_noise = 19.0"]
        .map(|more| plan(&format!("privacy.clip_quantile = 0.5\n{more}")).hash().to_owned())
        .into();
    hashes.push(fixed.hash().to_owned());
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), 4);
    // What is given as the default is the default.
    let stated = plan("privacy.clip_quantile = 0.5\nprivacy.clip_rate = 0.2\nprivacy.count_noise = 20.0");
    assert_eq!(stated.hash(), adapted.hash());
    assert_eq!((fixed.gradient_noise(), fixed.count_noise()), (1.5, None));
    // A batch so small that a twentieth of it would take all of the noise: the count has the noise multiplier.
    let small = plan("privacy.clip_quantile = 0.5\nsampling.batch = 10");
    assert_eq!(small.count_noise(), Some(1.5));
    assert!((small.gradient_noise() / 1.5 - (4f64 / 3.0).sqrt()).abs() < 1e-9);
}

#[test]
fn a_certificate_says_that_the_count_is_counted() {
    let certificate = plan("privacy.clip_quantile = 0.7").price(BracketPrecision::default()).unwrap();
    let words = "adapted (quantile 0.7, count noise 20), counted";
    assert!(certificate.text().contains(&format!("clip norm         {words}\n")), "{}", certificate.text());
    assert!(certificate.statement().contains(&format!("| clip norm | {words} |")));
    assert!(
        certificate
            .statement()
            .contains("every noisy count of gradients within the clip norm of all 30 steps")
    );
    assert!(certificate.theorem.contains("Andrew et al. 2021, Theorem 1"));
    assert!(certificate.assumptions.iter().any(|sentence| sentence.contains("the 0.7-quantile")));
    assert_eq!(Certificate::from_json(&certificate.to_json()), Ok(certificate.clone()));
    let fixed = plan("").price(BracketPrecision::default()).unwrap();
    assert!(!fixed.to_json().contains("adaptive_clip") && !fixed.text().contains("clip norm"));
}

#[test]
fn what_no_theorem_covers_is_refused() {
    for (more, problem) in [
        ("privacy.relation = 'masked'", "masked"),
        ("privacy.records_per_clip = 2", "microbatches"),
        ("partition.submodels = 4", "submodels"),
    ] {
        let error = refused(&format!("privacy.clip_quantile = 0.5\n{more}"));
        assert!(
            matches!(&error, PlanError::NoTheorem { .. }) && error.to_string().contains(problem),
            "{error}"
        );
        assert!(error.hint().unwrap().contains("clip_quantile"), "{error}");
    }
    for (more, key) in [
        ("privacy.clip_quantile = 0.0", "privacy.clip_quantile"),
        ("privacy.clip_quantile = 1.0", "privacy.clip_quantile"),
        ("privacy.clip_quantile = nan", "privacy.clip_quantile"),
        ("privacy.clip_quantile = 0.5\nprivacy.clip_rate = 0.0", "privacy.clip_rate"),
        ("privacy.clip_quantile = 0.5\nprivacy.clip_rate = inf", "privacy.clip_rate"),
        ("privacy.clip_quantile = 0.5\nprivacy.count_noise = 0.0", "privacy.count_noise"),
        ("privacy.clip_quantile = 0.5\nprivacy.count_noise = 0.75", "privacy.count_noise"),
        ("privacy.clip_rate = 0.2", "privacy.clip_rate"),
        ("privacy.count_noise = 20.0", "privacy.count_noise"),
    ] {
        let error = refused(more);
        assert!(error.to_string().starts_with(key) && error.hint().is_some(), "{more}: {error}");
    }
    // In a schedule every phase must leave the gradients enough.
    let phases = "privacy.clip_quantile = 0.5\nprivacy.count_noise = 1.0\n[[phases]]\nsteps = 10\n[[phases]]\nsteps = 10\nnoise_multiplier = 3.0\n";
    assert!(refused(phases).to_string().starts_with("phase 2: privacy.count_noise"));
}

#[test]
fn clipping_that_knows_no_gradient_within_the_norm_is_refused() {
    let adapted = plan("privacy.clip_quantile = 0.5");
    let train = |text: &str| PlanSpec::from_toml(&format!("[train]\n{text}")).unwrap().train;
    for kind in ["automatic", "per-layer"] {
        let error = GradientBound::check(&adapted, &train(&format!("clipping = '{kind}'"))).unwrap_err();
        assert!(error.to_string().starts_with("train.clipping") && error.hint().is_some(), "{error}");
        GradientBound::check(&plan(""), &train(&format!("clipping = '{kind}'"))).unwrap();
    }
    assert_eq!(
        GradientBound::check(&adapted, &TrainSpec::default()),
        Ok(GradientBound::Flat { max_norm: 1.0 })
    );
    assert_eq!(GradientBound::check(&adapted, &train("private = false")), Ok(GradientBound::Off));
}

/// A noise multiplier that is solved for may turn out too large for the noise that was asked for on the count.
#[test]
fn solving_for_the_noise_keeps_the_count_affordable() {
    let open = |count: &str| {
        let mut spec = spec(&format!("privacy.clip_quantile = 0.5\nprivacy.epsilon = 1.0\n{count}"));
        spec.privacy.noise_multiplier = None;
        calibrate(&spec, &[], Unknown::NoiseMultiplier, BracketPrecision::default())
    };
    let solved = open("").unwrap();
    assert!(solved.plan.gradient_noise() > solved.plan.noise_multiplier());
    assert!(solved.certificate.adaptive_clip.unwrap().gradient_noise.is_finite());
    let error = open("privacy.count_noise = 1.0").unwrap_err();
    assert!(error.to_string().starts_with("privacy.count_noise"), "{error}");
}
