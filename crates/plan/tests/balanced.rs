//! Balanced sampling: what epochs, steps and batch mean, and the laws that a plan must obey.

#![allow(clippy::unwrap_used)]

mod common;

use common::{assert_overlap, bracket, spec_of};
use dapple_plan::{
    AllocationBound, BalancedBound, BracketPrecision, Plan, PlanError, PlanSpec, Pld, Relation, Sampling,
    SolvedValue, Unknown, calibrate,
};
use proptest::prelude::*;

fn spec(settings: &[(&str, &str)]) -> PlanSpec {
    let base = [("sampling", "balanced"), ("records", "6000"), ("noise-multiplier", "1"), ("delta", "1e-5")];
    spec_of(base.iter().chain(settings))
}

fn plan(settings: &[(&str, &str)]) -> Plan {
    Plan::check(&spec(settings)).unwrap()
}

#[test]
fn epochs_steps_and_batch_settle_each_other() {
    // (settings, per record, steps of an epoch, all steps, batch)
    for (settings, per_record, epoch_steps, steps, batch) in [
        (&[("steps", "100")][..], 1, 100, 100, 60),
        (&[("steps", "100"), ("per-record", "10"), ("batch", "600")], 10, 100, 100, 600),
        // 6000 / 7 = 857.1, and both whole numbers next to it will do.
        (&[("steps", "7"), ("batch", "857")], 1, 7, 7, 857),
        (&[("steps", "7"), ("batch", "858")], 1, 7, 7, 858),
        (&[("steps", "7")], 1, 7, 7, 858),
        (&[("steps", "300"), ("epochs", "3"), ("per-record", "4")], 4, 100, 300, 240),
        (&[("epochs", "3"), ("batch", "100")], 1, 60, 180, 100),
        (&[("epochs", "3"), ("batch", "100"), ("per-record", "2")], 2, 120, 360, 100),
        // 6000 / 5999 makes two steps of 3000 each.
        (&[("epochs", "1"), ("batch", "5999")], 1, 2, 2, 3000),
        (&[("epochs", "1"), ("batch", "6000")], 1, 1, 1, 6000),
    ] {
        let plan = plan(settings);
        assert_eq!(plan.sampling(), Sampling::Balanced { per_record, epoch_steps }, "{settings:?}");
        assert_eq!((plan.steps(), plan.batch()), (steps, batch), "{settings:?}");
        assert_eq!(plan.sample_rate(), per_record as f64 / epoch_steps as f64);
        assert_eq!(plan.effective_rate(), plan.sample_rate());
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    for (settings, message) in [
        (&[][..], "sampling.steps (--steps) is missing"),
        (&[("epochs", "3")], "sampling.batch (--batch) is missing"),
        (&[("steps", "100"), ("per-record", "0")], "sampling.per_record (--per-record): each record joins 0"),
        (
            &[("steps", "100"), ("per-record", "101")],
            "sampling.per_record (--per-record): each record joins 101 of the 100",
        ),
        (&[("steps", "100"), ("batch", "100")], "sampling.batch (--batch): 100 records a step, where 6000"),
        (&[("steps", "100"), ("epochs", "3")], "sampling.steps (--steps): 100 steps are not 3 epochs"),
        (&[("steps", "0")], "sampling.steps (--steps)"),
        (&[("steps", "10"), ("epochs", "0")], "sampling.epochs (--epochs)"),
        (&[("epochs", "1"), ("batch", "0")], "sampling.batch (--batch): 0 records"),
        (&[("epochs", "1"), ("batch", "6001")], "sampling.batch (--batch): batch 6001 of 6000"),
        (&[("steps", "10000001")], "sampling.steps (--steps): 10000001 steps are outside"),
        (&[("epochs", "9000000000000000000"), ("batch", "1")], "sampling.epochs (--epochs)"),
        (&[("records", "0"), ("steps", "1")], "sampling.records (--records): 0 records"),
        (
            &[("steps", "100"), ("relation", "masked"), ("public-gradient", "coupled")],
            "no theorem for public gradients of the sampled records with balanced sampling",
        ),
    ] {
        let error = Plan::check(&spec(settings)).unwrap_err();
        assert!(error.to_string().starts_with(message), "{settings:?}: {error}");
        assert!(error.hint().is_some());
    }
    let error = Plan::check(&spec(&[("sampling", "poisson"), ("per-record", "2")])).unwrap_err();
    assert!(matches!(error, PlanError::Invalid { key: "sampling.per_record", .. }));
}

#[test]
fn once_in_a_thousand_steps() {
    // For sigma = 1 and delta = 1e-5, public tools give the brackets [0.131, 0.148] for one appearance in 1000 steps and [1.690, 1.717]
    // for ten (PLD_accounting, Feldman and Shenfeld 2025). The widths are those that we promise.
    for (per_record, low, high, width) in [("1", 0.131, 0.148, 0.02), ("10", 1.690, 1.717, 0.03)] {
        let certificate = plan(&[("steps", "1000"), ("per-record", per_record)])
            .price(BracketPrecision::default())
            .unwrap();
        let (lower, upper) = (certificate.epsilon.lower.unwrap(), certificate.epsilon.upper);
        assert!(low <= lower && upper <= high && upper - lower <= width, "{certificate:?}");
        let facts = certificate.allocation.unwrap();
        assert_eq!((facts.per_record.to_string().as_str(), facts.epoch_steps), (per_record, 1000));
        assert!(!facts.bound.is_empty());
    }
}

#[test]
fn every_step_is_plain_composition() {
    for (steps, sigma) in [(1u64, 2.0f64), (16, 8.0), (100, 20.0)] {
        let steps_text = steps.to_string();
        let plan = plan(&[
            ("steps", &steps_text),
            ("per-record", &steps_text),
            ("noise-multiplier", &sigma.to_string()),
        ]);
        let plain = Pld::gaussian_distance((steps as f64).sqrt() / sigma).unwrap();
        let plain = plain.epsilon(1e-5, BracketPrecision::default()).unwrap();
        assert_overlap(bracket(&plan), plain);
        // Both are closed forms, and only the rounding of the square root differs.
        assert!((bracket(&plan).upper / plain.upper - 1.0).abs() < 1e-9);
        assert_eq!(plan.batch(), 6000);
        let words = plan.price(BracketPrecision::default()).unwrap().allocation.unwrap().bound;
        assert!(words.starts_with("plain composition"), "{words}");
    }
}

#[test]
fn epochs_compose() {
    let base = [("per-record", "1"), ("noise-multiplier", "2")];
    let with = |more: &[(&str, &str)]| plan(&[&base[..], more].concat());
    let three = with(&[("epochs", "3"), ("batch", "100")]);
    let once = with(&[("steps", "60")]);
    let composed = once.pld().unwrap().self_compose(3).epsilon(1e-5, BracketPrecision::default()).unwrap();
    assert_overlap(bracket(&three), composed);
    // A phase that repeats is an epoch that repeats.
    let mut phases = spec(&[&base[..], &[("steps", "60")]].concat());
    phases.phases = vec![Default::default(); 3];
    assert_eq!(Plan::check(&phases).unwrap(), three);
    // Longer epochs hide a record better (partitioning paper, Remark 3.10).
    let long = with(&[("steps", "180"), ("per-record", "3")]);
    assert!(bracket(&long).upper <= bracket(&three).upper * 1.001);
    // The distributions of phases that differ compose, and lie between those of the extremes.
    let quiet = |noise: f64| {
        let mut spec = spec(&[("steps", "60")]);
        spec.privacy.noise_multiplier = Some(noise);
        spec.phases = vec![Default::default(); 3];
        spec.phases[1].noise_multiplier = Some(3.0);
        Plan::check(&spec).unwrap()
    };
    let mixed = quiet(2.0);
    assert_eq!(mixed.phases().len(), 3);
    let (low, high) = (bracket(&quiet(3.0)).upper, bracket(&three).upper);
    let found = mixed.price(BracketPrecision::default()).unwrap();
    assert!(low < found.epsilon.upper && found.epsilon.upper < high);
    assert!(found.epsilon.lower.is_some());
    assert!(mixed.price_rdp().unwrap().epsilon.upper > found.epsilon.lower.unwrap());
}

#[test]
fn the_second_opinion_lies_above() {
    for (steps, per_record, noise) in [("1000", "1", "1"), ("100", "10", "3"), ("10", "4", "2")] {
        let plan = plan(&[("steps", steps), ("per-record", per_record), ("noise-multiplier", noise)]);
        let certificate = plan.price_rdp().unwrap();
        assert_eq!((certificate.accountant.name(), certificate.epsilon.lower), ("rdp", None));
        assert!(certificate.epsilon.upper >= bracket(&plan).upper * 0.999, "{steps} {per_record}");
        assert!(certificate.theorem.contains("the best bound is"), "{}", certificate.theorem);
    }
}

#[test]
fn users_cost_as_much_as_records_and_microbatches_half_the_noise() {
    let record = plan(&[("steps", "50")]);
    let user = plan(&[("steps", "50"), ("relation", "user")]);
    assert_eq!(bracket(&record), bracket(&user));
    assert_ne!(record.hash(), user.hash());
    let shared = plan(&[("steps", "50"), ("records-per-clip", "2"), ("noise-multiplier", "2")]);
    assert_eq!(bracket(&shared), bracket(&record));
}

#[test]
fn a_substitution_is_a_removal_and_an_addition() {
    let base = [("steps", "50"), ("per-record", "1"), ("noise-multiplier", "2")];
    let with = |more: &[(&str, &str)]| plan(&[&base[..], more].concat());
    let (one, two) = (with(&[]), with(&[("relation", "replace")]));
    // Epsilon is at most twice that at the delta left for each move, and no less than that of one move at delta.
    let at = |delta: f64| one.pld().unwrap().epsilon(delta, BracketPrecision::default()).unwrap().upper;
    let half = at(0.5e-5);
    let found = bracket(&two).upper;
    assert!(found <= (half + at(0.5e-5 * (-half).exp())) * 1.001 && found > bracket(&one).upper, "{found}");
    // Tokens are priced like whole records.
    let masked = with(&[("relation", "masked")]);
    assert_eq!(bracket(&masked), bracket(&two));
    let certificate = masked.price(BracketPrecision::default()).unwrap();
    assert!(certificate.epsilon.lower.is_none() && !certificate.allocation.unwrap().tight);
    assert!(two.price_rdp().unwrap().epsilon.upper >= found * 0.999);
    // If every step is known and joined, the steps are Gaussians at distance 2, which with little noise is the better bound anyway.
    let full =
        plan(&[("steps", "4"), ("per-record", "4"), ("noise-multiplier", "8"), ("relation", "replace")]);
    let plain = Pld::gaussian_distance(2.0 * 4f64.sqrt() / 8.0).unwrap();
    assert_overlap(bracket(&full), plain.epsilon(1e-5, BracketPrecision::default()).unwrap());
    assert!(full.price(BracketPrecision::default()).unwrap().allocation.unwrap().tight);
    let hidden = [("steps", "4"), ("per-record", "4"), ("relation", "replace"), ("submodels", "3")];
    assert!(!plan(&hidden).price(BracketPrecision::default()).unwrap().allocation.unwrap().tight);
    let loud = with(&[("relation", "replace"), ("noise-multiplier", "0.1")]);
    let words = loud.price(BracketPrecision::default()).unwrap().allocation.unwrap().bound;
    assert!(words.contains("taken as known"), "{words}");
    // There is no distribution from which a profile could be computed.
    assert!(matches!(two.pld(), Err(PlanError::NoTheorem { .. })));
    let mut phases = spec(&[&base[..], &[("relation", "replace")]].concat());
    phases.phases = vec![Default::default(); 2];
    assert!(bracket(&Plan::check(&phases).unwrap()).upper > found);
    let mut asked = spec(&[("steps", "12"), ("relation", "replace"), ("epsilon", "1")]);
    asked.privacy.noise_multiplier = None;
    let noise = calibrate(&asked, &[], Unknown::NoiseMultiplier, BracketPrecision::default()).unwrap();
    // The bracket of one move is 0.1 % wide.
    assert!((0.995..=1.0).contains(&noise.certificate.epsilon.upper), "{:?}", noise.certificate.epsilon);
}

#[test]
fn a_patch_is_seen_by_some_crops_of_known_steps() {
    let base = [("steps", "300"), ("per-record", "30"), ("noise-multiplier", "1"), ("relation", "patch")];
    let with = |more: &[(&str, &str)]| plan(&[&base[..], more].concat());
    let cropped = with(&[("patch", "5"), ("image", "100"), ("crop", "20")]);
    // 20 + 5 - 1 of the 100 - 20 + 1 origins along each side see the patch.
    let c = (24.0f64 / 81.0).powi(2);
    let seen = Pld::gaussian(2.0, 1.0).unwrap().subsample_without_replacement(c).unwrap().self_compose(30);
    assert_overlap(bracket(&cropped), seen.epsilon(1e-5, BracketPrecision::default()).unwrap());
    let certificate = cropped.price(BracketPrecision::default()).unwrap();
    let allocation = certificate.allocation.unwrap();
    assert!(allocation.bound.contains("taken as known") && !allocation.tight, "{}", allocation.bound);
    assert!(certificate.theorem.contains("only the second counts crops"), "{}", certificate.theorem);
    assert!(cropped.price_rdp().unwrap().epsilon.upper >= certificate.epsilon.upper * 0.999);
    // A crop that always sees the patch gains nothing, and a smaller crop gains more.
    let [whole, none] =
        [&[("patch", "5"), ("image", "100"), ("crop", "98")][..], &[("patch", "5")]].map(with);
    assert_eq!(bracket(&whole), bracket(&none));
    assert!(bracket(&cropped).upper < bracket(&whole).upper);
    assert!(
        bracket(&with(&[("patch", "5"), ("image", "100"), ("crop", "10")])).upper
            < bracket(&cropped).lower.unwrap()
    );
}

#[test]
fn the_bounds_are_shown_apart() {
    let names = |plan: &Plan| -> Vec<BalancedBound> {
        plan.balanced_bounds(BracketPrecision::default()).unwrap().iter().map(|(bound, _)| *bound).collect()
    };
    let plan = plan(&[("steps", "40"), ("per-record", "4"), ("noise-multiplier", "3")]);
    let ways = [AllocationBound::Composition, AllocationBound::RenyiExact, AllocationBound::RenyiBound];
    assert_eq!(names(&plan), ways.map(BalancedBound::OneMove));
    let mut substituted: Vec<BalancedBound> = ways.map(BalancedBound::TwoMoves).to_vec();
    substituted.push(BalancedBound::KnownSteps);
    assert_eq!(names(&plan.at_relation(Relation::Replace)), substituted);
    let least = plan.balanced_bounds(BracketPrecision::default()).unwrap();
    let least = least.iter().filter_map(|(_, epsilon)| *epsilon).fold(f64::INFINITY, f64::min);
    assert!(bracket(&plan).upper <= least * 1.001);
    assert!(names(&plan.with_independent_steps()).is_empty());
}

#[test]
fn the_unknown_is_found_on_the_safe_side() {
    let base = [("records", "600"), ("batch", "50"), ("noise-multiplier", "4"), ("epochs", "4")];
    let mut asked = spec(&base);
    let target = bracket(&Plan::check(&asked).unwrap()).upper;
    asked.privacy.epsilon = Some(target);
    for (unknown, expected) in [
        (Unknown::NoiseMultiplier, 4.0),
        (Unknown::Epochs, 4.0),
        (Unknown::Steps, 48.0),
        (Unknown::Batch, 50.0),
    ] {
        let found = calibrate(&asked, &[], unknown, BracketPrecision::default()).unwrap();
        assert!(found.certificate.epsilon.upper <= target);
        assert_eq!(found.certificate, found.plan.price(BracketPrecision::default()).unwrap());
        let value = match found.solved.value {
            SolvedValue::Whole(value) => value as f64,
            SolvedValue::Real(value) => value,
        };
        // The upper end of a bracket varies by 1e-3 of epsilon, which is a few thousandths of the noise.
        assert!((value / expected - 1.0).abs() < 5e-3, "{unknown:?}: {value}");
        // What is found can be written into the plan.
        let mut again = asked.clone();
        match unknown {
            Unknown::Batch => again.sampling.batch = Some(value as u64),
            Unknown::Epochs => again.sampling.epochs = Some(value as u64),
            Unknown::Steps => {
                (again.sampling.epochs, again.sampling.steps) = (Some(value as u64 / 12), Some(value as u64));
            }
            _ => again.privacy.noise_multiplier = Some(value),
        }
        assert_eq!(Plan::check(&again).unwrap().hash(), found.plan.hash(), "{unknown:?}");
    }
}

#[test]
fn the_hash_covers_the_allocation() {
    let base = plan(&[("steps", "120"), ("per-record", "2")]);
    assert_eq!(base.hash(), plan(&[("steps", "120"), ("per-record", "2"), ("batch", "100")]).hash());
    assert_eq!(base.hash(), plan(&[("epochs", "1"), ("per-record", "2"), ("batch", "100")]).hash());
    for other in [
        &[("steps", "120"), ("per-record", "3")][..],
        &[("steps", "120"), ("per-record", "1"), ("epochs", "2")],
        &[("steps", "240"), ("per-record", "2"), ("epochs", "2")],
    ] {
        assert_ne!(base.hash(), plan(other).hash());
    }
}

proptest! {
    // Each case prices four plans, which take a tenth of a second each.
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn epsilon_moves_the_right_way(steps in 2u64..200, share in 0.0f64..1.0, sigma in 0.8f64..6.0) {
        let per_record = 1 + (share * (steps - 1) as f64 * 0.5) as u64;
        let at = |steps: u64, per_record: u64, sigma: f64| {
            let plan = plan(&[
                ("steps", &steps.to_string()),
                ("per-record", &per_record.to_string()),
                ("noise-multiplier", &sigma.to_string()),
            ]);
            bracket(&plan).upper
        };
        // Brackets are 0.1 % wide, and epsilons below 2e-6 are not told apart.
        let here = at(steps, per_record, sigma) * 1.001 + 2e-6;
        // Epsilon falls with the same number of draws in twice the steps, and with more noise; it grows if every step is joined.
        prop_assert!(at(2 * steps, per_record, sigma) <= here);
        prop_assert!(at(steps, per_record, 1.5 * sigma) <= here);
        prop_assert!(at(steps, steps, sigma) * 1.001 + 2e-6 >= here / 1.001);
    }
}
