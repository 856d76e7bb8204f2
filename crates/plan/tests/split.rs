//! Split models: the laws that a plan must obey, and an independent estimate.

#![allow(clippy::unwrap_used)]

mod common;

use common::{assert_overlap, bracket, spec_of};
use dapple_plan::spec::TrainSpec;
use dapple_plan::{BracketPrecision, GradientBound, Plan, PlanSpec, Pld, RandomnessSource};

fn spec(settings: &[(&str, &str)]) -> PlanSpec {
    let base = [
        ("records", "1000"),
        ("batch", "100"),
        ("steps", "50"),
        ("noise-multiplier", "1"),
        ("delta", "1e-5"),
    ];
    spec_of(base.iter().chain(settings))
}

fn plan(settings: &[(&str, &str)]) -> Plan {
    Plan::check(&spec(settings)).unwrap()
}

#[test]
fn one_submodel_is_the_model() {
    let whole = plan(&[]);
    assert_eq!(plan(&[("submodels", "1")]), whole);
    assert_eq!(plan(&[("submodels", "1")]).hash(), whole.hash());
    assert_eq!(plan(&[("submodels", "1"), ("split-norm", "1"), ("nonsplit-norm", "0")]), whole);
    // Two parts of one model that are clipped separately are a Gaussian of the joint norm.
    let apart = plan(&[("submodels", "1"), ("split-norm", "0.6"), ("nonsplit-norm", "0.8")]);
    assert_overlap(bracket(&apart), bracket(&whole));
    let shared = plan(&[("submodels", "1"), ("split-fraction", "0.3")]);
    assert_overlap(bracket(&shared), bracket(&whole));
    // The root of a sum of two squares is exact but for a rounding or two.
    assert!((shared.sensitivity() - 1.0).abs() < 1e-15);
}

#[test]
fn more_submodels_hide_more() {
    let mut last = bracket(&plan(&[])).upper;
    for submodels in ["2", "4", "8", "64"] {
        let here = bracket(&plan(&[("submodels", submodels)])).upper;
        assert!(here < last, "{submodels}");
        last = here;
    }
    // The part that is not split gains nothing, so the price lies between those of all and of nothing.
    let (all, none) = (bracket(&plan(&[("submodels", "4")])).upper, bracket(&plan(&[])).upper);
    let mut last = none;
    for share in ["0.1", "0.5", "0.9", "1"] {
        let here = bracket(&plan(&[("submodels", "4"), ("split-fraction", share)])).upper;
        assert!(here < last, "{share}");
        last = here;
    }
    // Brackets are 0.1 % wide.
    assert!((last / all - 1.0).abs() < 2e-3);
    // If the submodel is known, the price is that of the whole model.
    let split = plan(&[("submodels", "4"), ("split-fraction", "0.5")]);
    assert_overlap(bracket(&split.with_known_submodels()), bracket(&plan(&[])));
}

#[test]
fn norms_are_in_units_of_the_clip_norm() {
    // Twice the clip norm everywhere means half the noise, and the certificate says what gradients are clipped to.
    let double =
        plan(&[("submodels", "4"), ("split-norm", "2"), ("nonsplit-norm", "0"), ("noise-multiplier", "2")]);
    assert_overlap(bracket(&double), bracket(&plan(&[("submodels", "4")])));
    let words = |plan: &Plan| plan.price(BracketPrecision::default()).unwrap().assumptions.join(" ");
    assert!(words(&double).contains("is clipped to 2 C, C being the clip norm"), "{}", words(&double));
    let parts = plan(&[("submodels", "4"), ("split-norm", "2"), ("nonsplit-norm", "0.5")]);
    assert!(words(&parts).contains("clipped to 2 C in its split part and to 0.5 C in the rest"));
}

#[test]
fn full_batches_are_unsampled() {
    let full = plan(&[("batch", "1000"), ("submodels", "3"), ("noise-multiplier", "8")]);
    let plain =
        Pld::split(3, 8.0).unwrap().self_compose(50).epsilon(1e-5, BracketPrecision::default()).unwrap();
    assert_overlap(bracket(&full), plain);
}

#[test]
fn dropout_is_two_submodels() {
    let dropout = plan(&[("dropout", "0.5"), ("split-norm", "0.9"), ("nonsplit-norm", "0.2")]);
    let two = plan(&[("submodels", "2"), ("split-norm", "0.9"), ("nonsplit-norm", "0.2")]);
    assert_eq!(bracket(&dropout), bracket(&two));
    assert_ne!(dropout.hash(), two.hash());
    let words = dropout.price(BracketPrecision::default()).unwrap().assumptions.join(" ");
    assert!(
        words.contains("Dropout keeps each node") && words.contains("biases behind such a node"),
        "{words}"
    );
}

#[test]
fn mixtures_of_partitions_lie_between() {
    let mixed = plan(&[("partition.mixture", "[[2, 0.3], [8, 0.7]]")]);
    let (two, eight) = (plan(&[("submodels", "2")]), plan(&[("submodels", "8")]));
    assert!(
        bracket(&eight).upper < bracket(&mixed).lower.unwrap()
            && bracket(&mixed).upper < bracket(&two).lower.unwrap()
    );
    assert!(mixed.price_rdp().unwrap().epsilon.upper > bracket(&mixed).lower.unwrap());
    // Partitions with the same number of submodels count as one.
    let same = plan(&[("partition.mixture", "[[2, 0.3], [2, 0.7]]")]);
    assert_overlap(bracket(&same), bracket(&two));
    let text = spec(&[("partition.mixture", "[[2, 0.3], [8, 0.7]]")]).to_toml();
    assert_eq!(Plan::check(&PlanSpec::from_toml(&text).unwrap()).unwrap(), mixed);
    for (mixture, message) in [
        ("[]", "add up to 0"),
        ("[[2, 0.5]]", "add up to 0.5"),
        ("[[0, 1]]", "0 submodels"),
        ("[[2, -1], [2, 2]]", "-1 is no probability"),
        ("[[2, nan]]", "NaN is no probability"),
    ] {
        let error = Plan::check(&spec(&[("partition.mixture", mixture)])).unwrap_err();
        assert!(error.to_string().contains(message), "{mixture}: {error}");
    }
}

#[test]
fn users_update_submodels_as_records_do() {
    let record = plan(&[("submodels", "3")]);
    let user = plan(&[("submodels", "3"), ("relation", "user")]);
    assert_eq!(bracket(&record), bracket(&user));
    let words = user.price(BracketPrecision::default()).unwrap().assumptions.join(" ");
    assert!(words.contains("each user updates one of 3 submodels"), "{words}");
}

#[test]
fn substitutions_do_not_gain_and_do_not_lose() {
    for relation in ["replace", "masked"] {
        let whole = plan(&[("relation", relation)]);
        let split = plan(&[("relation", relation), ("submodels", "4")]);
        assert_eq!(bracket(&split), bracket(&whole));
        assert!(!split.counts_submodels());
        let certificate = split.price(BracketPrecision::default()).unwrap();
        assert!(certificate.theorem.contains("not counted"), "{}", certificate.theorem);
        assert!(!certificate.partition.unwrap().counted);
    }
    // Parts of larger norms move the sum by more.
    let large =
        plan(&[("relation", "replace"), ("submodels", "4"), ("split-norm", "3"), ("nonsplit-norm", "4")]);
    assert_eq!(bracket(&large), bracket(&plan(&[("relation", "replace"), ("noise-multiplier", "0.2")])));
    assert_eq!(large.sensitivity(), 10.0);
    // A public gradient of 2 C beside contributions of 5 C reaches as far as one of 0.4 C beside contributions of C.
    let coupled = [("relation", "masked"), ("public-gradient", "coupled-clipped")];
    let parts = [("submodels", "4"), ("split-norm", "3"), ("nonsplit-norm", "4"), ("public-clip", "2")];
    let scaled = [("public-clip", "0.4"), ("noise-multiplier", "0.2")];
    assert_eq!(
        bracket(&plan(&[&coupled[..], &parts].concat())),
        bracket(&plan(&[&coupled[..], &scaled].concat()))
    );
}

#[test]
fn a_submodel_of_a_rare_step_is_hidden_twice() {
    // One of 40 steps and one of 5 submodels are one of 200 places.
    let hidden = plan(&[("sampling", "balanced"), ("records", "4000"), ("steps", "40"), ("submodels", "5")]);
    let places = Pld::split(200, 1.0).unwrap().epsilon(1e-5, BracketPrecision::default()).unwrap();
    assert_overlap(bracket(&hidden), places);
    assert!(hidden.price_rdp().unwrap().epsilon.upper > places.lower.unwrap());
    let several = plan(&[
        ("sampling", "balanced"),
        ("records", "400"),
        ("steps", "40"),
        ("per-record", "10"),
        ("submodels", "5"),
        ("noise-multiplier", "3"),
    ]);
    let composed =
        Pld::split(20, 3.0).unwrap().self_compose(10).epsilon(1e-5, BracketPrecision::default()).unwrap();
    assert_overlap(bracket(&several), composed);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (settings, message) in [
        (&[("submodels", "0")][..], "partition.submodels (--submodels): 0 submodels"),
        (&[("submodels", "4294967295")], "partition.submodels (--submodels): 4294967295 submodels"),
        (&[("dropout", "0.3")], "partition.dropout (--dropout): 0.3 is not 0.5"),
        (&[("dropout", "nan")], "partition.dropout (--dropout): NaN is not 0.5"),
        (&[("dropout", "0.5"), ("submodels", "2")], "partition.dropout (--dropout): submodels are given"),
        (&[("submodels", "2"), ("split-norm", "1")], "partition.nonsplit_norm (--nonsplit-norm) is missing"),
        (&[("submodels", "2"), ("nonsplit-norm", "1")], "partition.split_norm (--split-norm) is missing"),
        (
            &[("split-norm", "1"), ("nonsplit-norm", "1")],
            "partition.split_norm (--split-norm): has no meaning",
        ),
        (&[("split-fraction", "0.5")], "partition.split_fraction (--split-fraction): has no meaning"),
        (
            &[("submodels", "2"), ("split-fraction", "0")],
            "partition.split_fraction (--split-fraction): 0 is no",
        ),
        (
            &[("submodels", "2"), ("split-fraction", "1.5")],
            "partition.split_fraction (--split-fraction): 1.5 is no",
        ),
        (
            &[("submodels", "2"), ("split-fraction", "0.5"), ("split-norm", "1"), ("nonsplit-norm", "1")],
            "partition.split_fraction (--split-fraction): clip norms",
        ),
        (
            &[("submodels", "2"), ("split-norm", "0"), ("nonsplit-norm", "1")],
            "partition.split_norm (--split-norm): 0 is outside",
        ),
        (
            &[("submodels", "2"), ("split-norm", "1"), ("nonsplit-norm", "-1")],
            "partition.nonsplit_norm (--nonsplit-norm): -1 is outside",
        ),
        (&[("submodels", "2"), ("records-per-clip", "2")], "no theorem for split models with microbatches"),
    ] {
        let error = Plan::check(&spec(settings)).unwrap_err();
        assert!(error.to_string().starts_with(message), "{settings:?}: {error}");
        assert!(error.hint().is_some());
    }
    let mut balanced = spec(&[("sampling", "balanced"), ("submodels", "2"), ("split-fraction", "0.5")]);
    balanced.sampling.batch = None;
    let error = Plan::check(&balanced).unwrap_err();
    assert!(error.to_string().starts_with("no theorem for partly split models"), "{error}");
}

#[test]
fn the_hash_covers_the_split() {
    let hashes: Vec<String> = [
        &[][..],
        &[("submodels", "2")],
        &[("submodels", "3")],
        &[("submodels", "2"), ("split-fraction", "0.5")],
        &[("submodels", "2"), ("split-norm", "1"), ("nonsplit-norm", "0.5")],
        &[("submodels", "2"), ("split-norm", "0.5"), ("nonsplit-norm", "1")],
        &[("dropout", "0.5")],
        &[("partition.mixture", "[[2, 0.5], [3, 0.5]]")],
    ]
    .iter()
    .map(|settings| plan(settings).hash().to_owned())
    .collect();
    for (index, hash) in hashes.iter().enumerate() {
        assert!(!hashes[..index].contains(hash), "{index}");
    }
}

/// At the noise that is stated, the run without the source costs no more, and at a little less noise it costs more.
#[test]
fn sources_of_randomness_are_worth_their_noise() {
    let precision = BracketPrecision::default();
    let split = [("submodels", "8"), ("split-fraction", "0.5")];
    let plan_at = |noise: f64, change: &[(&'static str, &str)]| {
        let noise = noise.to_string();
        let settings: Vec<(&str, &str)> =
            split.iter().chain(change).copied().chain([("noise-multiplier", noise.as_str())]).collect();
        plan(&settings)
    };
    let own = plan_at(1.0, &[]);
    let epsilon = bracket(&own).upper;
    for (source, change) in [
        (RandomnessSource::Submodels, &[("submodels", "1")][..]),
        (RandomnessSource::Sampling, &[("batch", "1000")]),
    ] {
        let noise = own.noise_without(source, epsilon, precision).unwrap().unwrap();
        assert!(noise > 1.05, "{source:?}: {noise}");
        assert!(bracket(&plan_at(noise, change)).upper <= epsilon * 1.001);
        // The search is precise to about one part in a hundred.
        assert!(bracket(&plan_at(0.97 * noise, change)).upper > epsilon, "{source:?}: {noise}");
    }
    let none = |plan: &Plan, source| plan.noise_without(source, epsilon, precision).unwrap();
    assert_eq!(none(&own, RandomnessSource::Crops), None);
    assert_eq!(
        none(&plan(&[("relation", "replace"), ("submodels", "4")]), RandomnessSource::Submodels),
        None
    );
    let patch = plan(&[("submodels", "2"), ("image", "40x40"), ("crop", "8x8"), ("patch", "4x4")]);
    let seen = patch.noise_without(RandomnessSource::Crops, bracket(&patch).upper, precision).unwrap();
    assert!(seen.is_some_and(|noise| noise > 1.05), "{seen:?}");
}

#[test]
fn parts_are_bounded_below_what_is_priced() {
    let bound =
        |settings: &[(&str, &str)]| GradientBound::check(&plan(settings), &TrainSpec::default()).unwrap();
    let GradientBound::Parts { split, rest } = bound(&[("submodels", "2"), ("split-fraction", "0.3")]) else {
        panic!("parts are clipped apart")
    };
    assert!(split < 0.3f64.sqrt() && rest < 0.7f64.sqrt());
    assert!((split / 0.3f64.sqrt() - 1.0).abs() < 1e-15 && (rest / 0.7f64.sqrt() - 1.0).abs() < 1e-15);
    assert!(matches!(bound(&[("submodels", "2")]), GradientBound::Parts { rest: 0.0, .. }));
    assert_eq!(bound(&[("submodels", "1")]), GradientBound::Flat { max_norm: 1.0 });
}
