//! Advice on batch, steps and bands: every setting meets the budget within the work, and the best one leaves the least noise.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::spec_of;
use dapple_plan::spec::Bands;
use dapple_plan::{BracketPrecision, Plan, PlanSpec, advise, noise_in_what_is_learned};

fn spec(more: &[(&str, &str)]) -> PlanSpec {
    let base = [
        ("privacy.epsilon", "2"),
        ("privacy.delta", "1e-5"),
        ("pipeline.image", "200x200"),
        ("pipeline.crop", "40x40"),
        ("region.patch", "10x10"),
        ("sampling.batch", "50"),
        ("sampling.records", "3000"),
        ("sampling.steps", "600"),
    ];
    spec_of(base.iter().chain(more))
}

#[test]
fn every_setting_meets_the_budget_within_the_work() {
    let (spec, work) = (spec(&[]), 50 * 600);
    let advised = advise(&spec, &[], work).unwrap();
    assert!(advised.by_batch.len() > 4 && advised.by_batch.iter().any(|advice| advice.bands > 1));
    for advice in &advised.by_batch {
        assert!(advice.batch * advice.steps <= work && advised.best.noise <= advice.noise);
        let written = PlanSpec::from_toml(&advice.toml()).unwrap();
        let mut whole = spec.merge(&written);
        whole.privacy.noise_multiplier = Some(advice.noise_multiplier);
        let plan = Plan::check(&whole).unwrap();
        assert!(plan.epsilon(BracketPrecision::default()).unwrap().upper <= 2.0, "{advice:?}");
        assert_eq!(noise_in_what_is_learned(&plan), advice.noise);
    }
}

/// With one band the estimate is that of sums of independent noise, by hand.
#[test]
fn noise_is_that_of_sums() {
    let mut spec = spec(&[("privacy.noise_multiplier", "0.8")]);
    let independent = noise_in_what_is_learned(&Plan::check(&spec).unwrap());
    // Two quotients and a root.
    assert!((independent / (0.8 / (50.0 * 600f64.sqrt())) - 1.0).abs() < 1e-15);
    spec.noise.bands = Some(Bands::Count(8));
    assert!(noise_in_what_is_learned(&Plan::check(&spec).unwrap()) < independent);
}

/// Half the batch is smaller than a microbatch here, and with half the batch there would be more steps than a run may have.
#[test]
fn batches_that_make_no_plan_are_passed_over() {
    let together = advise(&spec(&[("privacy.records_per_clip", "50")]), &[], 50 * 60).unwrap();
    assert_eq!(together.by_batch[0].batch, 50);
    let whole = spec(&[("pipeline.crop", "200x200"), ("sampling.batch", "1500")]);
    let long = advise(&whole, &[], 1500 * 8_000_000).unwrap();
    assert_eq!(long.by_batch[0].batch, 1500);
}

#[test]
fn what_no_advice_is_for_is_refused() {
    let balanced =
        spec_of(&[("privacy.epsilon", "1"), ("sampling.scheme", "balanced"), ("sampling.records", "10")]);
    assert!(advise(&balanced, &[], 100).is_err());
    let phases = PlanSpec::from_toml("[[phases]]\nsteps = 3").unwrap();
    assert!(advise(&spec(&[]).merge(&phases), &[], 100).is_err());
    // Private parts have no noise across steps, and clip norms that follow a quantile neither.
    let adapted = advise(&spec(&[("privacy.clip_quantile", "0.5")]), &[], 3000).unwrap();
    assert!(adapted.by_batch.iter().all(|advice| advice.bands == 1));
}
