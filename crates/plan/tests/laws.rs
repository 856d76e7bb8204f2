//! Laws of plans: what may move epsilon, and in which direction.

#![allow(clippy::panic, clippy::unwrap_used)]

use dapple_plan::spec::{Delta, Pixels, PlanSpec};
use dapple_plan::{BracketPrecision, Plan, Relation, Scheme, SolvedValue, Unknown, calibrate};
use proptest::prelude::*;

/// The setting of Figure 2a of the patch-level paper: images of 1000x1000, crops of 100x100, patches of 10x10, batch 100 of 3000.
fn figure_2a(scheme: Scheme) -> PlanSpec {
    let mut spec = PlanSpec::default();
    spec.privacy.delta = Some(Delta::Value(1e-5));
    spec.privacy.noise_multiplier = Some(1.0);
    spec.region.patch = Some(Pixels { x: 10, y: 10 });
    spec.pipeline.image = Some(Pixels { x: 1000, y: 1000 });
    spec.pipeline.crop = Some(Pixels { x: 100, y: 100 });
    spec.sampling.scheme = Some(scheme);
    spec.sampling.batch = Some(100);
    spec.sampling.records = Some(3000);
    spec.sampling.epochs = Some(100);
    spec
}

fn epsilon(spec: &PlanSpec) -> f64 {
    let bracket = Plan::check(spec).unwrap().epsilon(BracketPrecision::default()).unwrap();
    assert!(
        bracket.lower.is_none_or(|lower| 0.0 <= lower && lower <= bracket.upper) && bracket.upper.is_finite()
    );
    bracket.upper
}

/// Two brackets of relative width 1e-3 around ordered values may overlap by that much.
const SLACK: f64 = 1.001;

#[test]
fn figure_2a_values() {
    // The reference figures were computed independently. Brackets are 0.1 % wide, hence the tolerance of 0.2 %. The second figure is a
    // plain composition of the discretised pair by a textbook Fourier transform, on grids down to 6e-6.
    for (relation, scheme, expected) in [
        (Relation::Patch, Scheme::WithoutReplacement, 2.7374),
        (Relation::Patch, Scheme::Poisson, 0.19186),
        (Relation::Replace, Scheme::WithoutReplacement, 97.71),
        (Relation::Replace, Scheme::Poisson, 22.94),
    ] {
        let mut spec = figure_2a(scheme);
        spec.privacy.relation = Some(relation);
        let found = epsilon(&spec);
        assert!((found / expected - 1.0).abs() < 2e-3, "{relation} {scheme:?}: {found}");
    }
}

#[test]
fn a_crop_of_the_whole_image_is_record_level() {
    for scheme in [Scheme::Poisson, Scheme::WithoutReplacement] {
        let mut whole = figure_2a(scheme);
        whole.pipeline.crop = whole.pipeline.image;
        let mut uncropped = whole.clone();
        uncropped.pipeline.crop = None;
        let mut record = whole.clone();
        record.privacy.relation = Some(Relation::Replace);
        assert_eq!(epsilon(&whole), epsilon(&record));
        assert_eq!(epsilon(&uncropped), epsilon(&record));
    }
}

#[test]
fn views_add_up_and_full_batches_are_plain_gaussians() {
    let mut spec = figure_2a(Scheme::Poisson);
    let one = epsilon(&spec);
    spec.pipeline.views = Some(4);
    let plan = Plan::check(&spec).unwrap();
    let c = plan.spatial().seen().unwrap().probability();
    // The probability is rounded up after a handful of roundings.
    assert!((plan.inclusion_probability() / (1.0 - (1.0 - c).powi(4)) - 1.0).abs() < 1e-12);
    assert!(epsilon(&spec) > one);

    // A full batch in every step is one Gaussian mechanism at distance sqrt(steps) / sigma, whatever the scheme.
    let mut full = PlanSpec::default();
    for (key, value) in
        [("batch", "50"), ("records", "50"), ("steps", "4"), ("noise-multiplier", "8"), ("delta", "1/n")]
    {
        full.set(key, value).unwrap();
    }
    let expected = dapple_plan::Pld::gaussian(1.0, 4.0).unwrap();
    let expected = expected.epsilon(1.0 / 50.0, BracketPrecision::default()).unwrap().upper;
    // Both are closed forms, and only the order of rounding differs.
    assert!((epsilon(&full) / expected - 1.0).abs() < 1e-6);
}

#[test]
fn the_second_opinion_agrees_from_above() {
    // For Poisson add-remove with sigma 1, rate 0.01 and 10000 steps, epsilon is 6.1877 by privacy-loss distributions. The Renyi bound
    // lies above it, here by less than 15 %.
    let mut spec = PlanSpec::default();
    for (key, value) in [
        ("batch", "100"),
        ("records", "10000"),
        ("steps", "10000"),
        ("noise-multiplier", "1"),
        ("delta", "1e-5"),
    ] {
        spec.set(key, value).unwrap();
    }
    let tight = epsilon(&spec);
    // The bracket is 0.1 % wide.
    assert!((tight / 6.1877 - 1.0).abs() < 2e-3);
    let certificate = Plan::check(&spec).unwrap().price_rdp().unwrap();
    assert_eq!((certificate.accountant.name(), certificate.epsilon.lower), ("rdp", None));
    assert!(certificate.epsilon.upper > tight && certificate.epsilon.upper < 1.15 * tight, "{certificate:?}");
    let patch = Plan::check(&figure_2a(Scheme::Poisson)).unwrap();
    assert!(
        patch.price_rdp().unwrap().epsilon.upper
            > patch.epsilon(BracketPrecision::default()).unwrap().lower.unwrap()
    );
}

#[test]
fn calibration_inverts_accounting() {
    let mut spec = figure_2a(Scheme::Poisson);
    spec.privacy.epsilon = Some(epsilon(&spec));
    for unknown in Unknown::ALL {
        let mut asked = spec.clone();
        if unknown == Unknown::Steps {
            asked.sampling.epochs = None;
        }
        let found = calibrate(&asked, &[], unknown, BracketPrecision::default()).unwrap();
        assert!(found.certificate.epsilon.upper <= spec.privacy.epsilon.unwrap());
        assert_eq!(found.certificate, found.plan.price(BracketPrecision::default()).unwrap());
        let expected = match unknown {
            Unknown::NoiseMultiplier => 1.0,
            Unknown::Epochs | Unknown::Batch | Unknown::Crop => 100.0,
            Unknown::Steps => 3000.0,
            Unknown::Patch => 10.0,
        };
        let value = match found.solved.value {
            SolvedValue::Whole(value) => value as f64,
            SolvedValue::Real(value) => value,
        };
        // The upper end of a bracket of width 1e-3 varies by as much, and epsilon grows here about like the square root of the steps, so
        // the steps vary by 0.2 %.
        assert!((value / expected - 1.0).abs() < 3e-3, "{unknown:?}: {value}");
    }
}

#[test]
fn targets_out_of_reach_are_refused() {
    let mut spec = figure_2a(Scheme::Poisson);
    spec.privacy.epsilon = Some(1e-9);
    for unknown in [Unknown::Epochs, Unknown::Crop, Unknown::Patch, Unknown::Batch] {
        let error = calibrate(&spec, &[], unknown, BracketPrecision::default()).unwrap_err();
        assert!(error.to_string().starts_with(&format!("no {}", unknown.name())), "{error}");
        assert!(error.hint().is_some());
    }
}

#[test]
fn the_hash_sees_what_matters() {
    let base = "[privacy]\ndelta = 1e-5\nnoise_multiplier = 1.0\n[sampling]\nbatch = 10\nrecords = 100\nepochs = 3\n";
    let hash = |text: &str| Plan::check(&PlanSpec::from_toml(text).unwrap()).unwrap().hash().to_owned();
    let original = hash(base);
    assert_eq!(original.len(), 64);
    let turned = "[sampling]\nepochs = 3\nrecords = 100\nbatch = 10\n[privacy]\nnoise_multiplier = 1\ndelta = 0.00001\n";
    assert_eq!(hash(turned), original);
    assert_eq!(hash(&format!("{base}[performance]\nthreads = 7\nmicrobatch = 3\n")), original);
    let defaults = "\n[pipeline]\nviews = 1\n";
    assert_eq!(hash(&format!("{base}scheme = \"poisson\"{defaults}")), original);
    assert_eq!(hash(&base.replace("epochs = 3", "steps = 30")), original);
    for (from, to) in
        [("1e-5", "1e-6"), ("batch = 10", "batch = 11"), ("epochs = 3", "epochs = 4"), ("1.0", "1.1")]
    {
        assert_ne!(hash(&base.replace(from, to)), original, "{to}");
    }
}

proptest! {
    // Each case prices a plan several times, in a few milliseconds each.
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn epsilon_moves_the_right_way(
        without_replacement: bool,
        patch: bool,
        sigma in 0.6f64..8.0,
        batch in 1u64..200,
        steps in 1u64..2000,
        crop in 20u32..1000,
    ) {
        let mut spec = figure_2a(if without_replacement { Scheme::WithoutReplacement } else { Scheme::Poisson });
        spec.privacy.relation = Some(if patch { Relation::Patch } else { Relation::Replace });
        spec.privacy.noise_multiplier = Some(sigma);
        spec.pipeline.crop = Some(Pixels { x: crop, y: crop });
        spec.sampling.batch = Some(batch);
        spec.sampling.epochs = None;
        spec.sampling.steps = Some(steps);
        let here = epsilon(&spec);
        let changed = |change: &dyn Fn(&mut PlanSpec)| {
            let mut other = spec.clone();
            change(&mut other);
            epsilon(&other)
        };
        let tolerance = 2e-6; // epsilons closer than this are not told apart
        prop_assert!(changed(&|s| s.sampling.steps = Some(2 * steps)) * SLACK + tolerance >= here);
        prop_assert!(changed(&|s| s.sampling.batch = Some(2 * batch)) * SLACK + tolerance >= here);
        prop_assert!(changed(&|s| s.privacy.noise_multiplier = Some(1.5 * sigma)) <= here * SLACK + tolerance);
        let whole = Pixels { x: 1000, y: 1000 };
        prop_assert!(changed(&|s| s.pipeline.crop = Some(whole)) * SLACK + tolerance >= here);
        prop_assert!(changed(&|s| s.privacy.relation = Some(Relation::Replace)) * SLACK + tolerance >= here);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// A run goes on with exactly what it wrote down.
    #[test]
    fn every_number_of_a_plan_is_read_back_to_its_bits(bits in prop::array::uniform4(any::<u64>())) {
        let values = bits.map(f64::from_bits);
        prop_assume!(values.iter().all(|value| value.is_finite()));
        let mut spec = figure_2a(Scheme::Poisson);
        spec.privacy.noise_multiplier = Some(values[0]);
        spec.privacy.delta = Some(Delta::Value(values[1]));
        spec.privacy.max_grad_norm = Some(values[2]);
        spec.optimiser.learning_rate = Some(values[3]);
        let read = PlanSpec::from_toml(&spec.to_toml()).unwrap();
        prop_assert_eq!(read.digest(), spec.digest());
        let Some(Delta::Value(delta)) = read.privacy.delta else { panic!("{:?}", read.privacy.delta) };
        let found = [read.privacy.noise_multiplier, Some(delta), read.privacy.max_grad_norm, read.optimiser.learning_rate];
        prop_assert_eq!(found.map(|value| value.unwrap().to_bits()), bits);
    }
}
