//! Laws of schedules: phases compose like steps.

#![allow(clippy::unwrap_used)]

use dapple_plan::spec::PhaseSpec;
use dapple_plan::{BracketPrecision, Plan, PlanSpec, Pld, Relation, Unknown, calibrate};
use proptest::prelude::*;

fn base() -> PlanSpec {
    PlanSpec::from_toml(
        "[privacy]\nrelation = \"replace\"\ndelta = 1e-5\nnoise_multiplier = 1.0\n[sampling]\nrecords = 1000\nbatch = 20\nsteps = 60\n",
    )
    .unwrap()
}

fn phase(steps: u64, batch: u64, noise_multiplier: f64) -> PhaseSpec {
    PhaseSpec {
        steps: Some(steps),
        batch: Some(batch),
        noise_multiplier: Some(noise_multiplier),
        ..PhaseSpec::default()
    }
}

fn scheduled(phases: Vec<PhaseSpec>) -> PlanSpec {
    PlanSpec { phases, ..base() }
}

fn upper(spec: &PlanSpec) -> f64 {
    Plan::check(spec).unwrap().epsilon(BracketPrecision::default()).unwrap().upper
}

#[test]
fn equal_phases_are_one_run() {
    let whole = Plan::check(&base()).unwrap();
    let steps = |steps| PhaseSpec { steps: Some(steps), ..PhaseSpec::default() };
    let split = Plan::check(&scheduled(vec![steps(10), steps(45), phase(5, 20, 1.0)])).unwrap();
    assert_eq!(split, whole);
    assert_eq!(split.hash(), whole.hash());
    // Phases that hardly differ are composed as different ones, and cost the same. Brackets are 0.1 % wide.
    let almost = scheduled(vec![steps(25), phase(35, 20, 1.0 + 1e-9)]);
    assert_eq!(Plan::check(&almost).unwrap().phases().len(), 2);
    assert!((upper(&almost) / upper(&base()) - 1.0).abs() < 2e-3);
}

#[test]
fn different_phases_agree_with_closed_forms() {
    // Full batches are Gaussians at distances 2 / sigma, whose squares add up. Brackets are 0.1 % wide here and below.
    let full = scheduled(vec![phase(4, 1000, 8.0), phase(9, 1000, 12.0)]);
    let mu = 2.0 * (4.0 / 64.0 + 9.0 / 144.0f64).sqrt();
    let expected =
        Pld::gaussian_distance(mu).unwrap().epsilon(1e-5, BracketPrecision::default()).unwrap().upper;
    assert!((upper(&full) / expected - 1.0).abs() < 2e-3);

    // Tokens with coupled gradients are a mixture of Gaussians over the draws of both phases. The reference figures are the double sum
    // over two binomials, computed with Python's math.comb and math.erfc.
    let mut coupled = scheduled(vec![phase(5, 100, 2.0), phase(20, 20, 1.0)]);
    coupled.privacy.relation = Some(Relation::Masked);
    coupled.set("public-gradient", "coupled").unwrap();
    let plan = Plan::check(&coupled).unwrap();
    let delta = plan.pld().unwrap().delta(0.5, BracketPrecision::default()).unwrap().upper;
    assert!((delta / 0.2961425974 - 1.0).abs() < 2e-3, "{delta}");
    assert!((upper(&coupled) / 17.2989241 - 1.0).abs() < 2e-3, "{}", upper(&coupled));
    assert!(plan.epsilon_rdp().unwrap() > 17.2989241);
}

#[test]
fn crops_and_views_change_by_phase() {
    let mut spec = base();
    for (key, value) in [("relation", "patch"), ("image", "100"), ("crop", "20"), ("patch", "5")] {
        spec.set(key, value).unwrap();
    }
    let with = |crop: u32, views: u32| {
        let mut spec = spec.clone();
        spec.set("crop", &crop.to_string()).unwrap();
        spec.set("views", &views.to_string()).unwrap();
        spec
    };
    let pixels = |side| Some(dapple_plan::spec::Pixels { x: side, y: side });
    let half = |crop, views| PhaseSpec { steps: Some(30), crop, views, ..PhaseSpec::default() };
    for (low, high, second) in
        [(with(20, 1), with(40, 1), half(pixels(40), None)), (with(20, 1), with(20, 4), half(None, Some(4)))]
    {
        let mixed = PlanSpec { phases: vec![half(None, None), second], ..spec.clone() };
        let (low, mixed_price, high) = (upper(&low), upper(&mixed), upper(&high));
        assert!(low < mixed_price && mixed_price < high, "{low} {mixed_price} {high}");
        let plan = Plan::check(&mixed).unwrap();
        assert_eq!(plan.inclusion_probability(), plan.phases()[1].inclusion_probability());
        assert!(
            plan.at_relation(Relation::Replace).epsilon(BracketPrecision::default()).unwrap().upper > high
        );
    }
}

#[test]
fn the_noise_of_open_phases_is_solved_for() {
    let open = PhaseSpec { steps: Some(30), ..PhaseSpec::default() };
    let mut spec = scheduled(vec![open, phase(30, 20, 2.0)]);
    spec.privacy.epsilon = Some(upper(&spec));
    let found = calibrate(&spec, &[], Unknown::NoiseMultiplier, BracketPrecision::default()).unwrap();
    assert!(found.certificate.epsilon.upper <= spec.privacy.epsilon.unwrap());
    let noise: Vec<f64> = found.plan.phases().iter().map(Plan::noise_multiplier).collect();
    // The upper end of a bracket of width 1e-3 varies by as much.
    assert!((noise[0] - 1.0).abs() < 3e-3 && noise[1] == 2.0, "{noise:?}");
    assert!(calibrate(&spec, &[], Unknown::Steps, BracketPrecision::default()).is_err());
    spec.phases[0].noise_multiplier = Some(1.0);
    assert!(calibrate(&spec, &[], Unknown::NoiseMultiplier, BracketPrecision::default()).is_err());
}

#[test]
fn plans_with_phases_are_written_and_read() {
    let spec = scheduled(vec![phase(5, 100, 2.0), PhaseSpec::default()]);
    assert_eq!(PlanSpec::from_toml(&spec.to_toml()).unwrap(), spec);
    assert_eq!(spec.merge(&PlanSpec::default()), spec);
    assert_eq!(PlanSpec::default().merge(&spec), spec);
    let error = Plan::check(&scheduled(vec![phase(5, 100, 2.0), phase(1, 1001, 1.0)])).unwrap_err();
    assert!(error.to_string().starts_with("phase 2: sampling.batch (--batch): "), "{error}");
    assert!(error.hint().is_some());
    assert!(Plan::check(&scheduled(vec![phase(1, 1, 1.0); 101])).is_err());
    assert!(Plan::check(&scheduled(vec![phase(6_000_000, 1, 1.0), phase(6_000_000, 2, 1.0)])).is_err());
}

proptest! {
    // Each case prices five plans, which take some tens of milliseconds each.
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn order_does_not_matter_and_the_extremes_bound(
        first in (1u64..100, 1u64..200, 0.7f64..3.0),
        second in (1u64..100, 1u64..200, 0.7f64..3.0),
        third in (1u64..100, 1u64..200, 0.7f64..3.0),
    ) {
        let phases: Vec<PhaseSpec> =
            [first, second, third].iter().map(|&(steps, batch, noise)| phase(steps, batch, noise)).collect();
        let here = upper(&scheduled(phases.clone()));
        let turned = upper(&scheduled(phases.iter().rev().cloned().collect()));
        // These are two brackets of relative width 1e-3 around one value.
        prop_assert!((here / turned - 1.0).abs() < 2e-3, "{} {}", here, turned);
        let steps = first.0 + second.0 + third.0;
        let all = [first, second, third];
        let most = all.iter().map(|phase| phase.1).max().unwrap();
        let least = all.iter().map(|phase| phase.1).min().unwrap();
        let loud = all.iter().map(|phase| phase.2).fold(0.0, f64::max);
        let quiet = all.iter().map(|phase| phase.2).fold(f64::INFINITY, f64::min);
        let (low, high) = (upper(&scheduled(vec![phase(steps, least, loud)])), upper(&scheduled(vec![phase(steps, most, quiet)])));
        prop_assert!(low <= 1.001 * here + 2e-6 && here <= 1.001 * high + 2e-6, "{} {} {}", low, here, high);
    }
}
