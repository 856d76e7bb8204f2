//! Several runs on the same records, priced together.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test")]

use std::slice::from_ref;

use dapple_plan::{
    BracketPrecision, Plan, PlanError, PlanSpec, PrivateChoice, Promise, Relation, Release, Repetitions,
    Rule, compose,
};

const PRECISION: BracketPrecision = BracketPrecision { relative: 1e-3 };
const DELTA: f64 = 1e-5;

fn spec(text: &str) -> PlanSpec {
    PlanSpec::from_toml(text).unwrap()
}

/// A plan in which every record joins each of `steps` steps.
fn full(noise: f64, steps: u64) -> PlanSpec {
    spec(&format!(
        "[privacy]\nnoise_multiplier = {noise:?}\ndelta = 1e-5\n[sampling]\nbatch = 100\nrecords = 100\nsteps = {steps}\n"
    ))
}

fn sampled(noise: f64, steps: u64, more: &str) -> PlanSpec {
    spec(&format!(
        "[privacy]\nnoise_multiplier = {noise:?}\ndelta = 1e-5\n{more}\n[sampling]\nbatch = 10\nrecords = 1000\nsteps = {steps}\n"
    ))
}

fn run(spec: &PlanSpec) -> Release {
    Plan::check(spec).unwrap().into()
}

fn total(releases: &[Release]) -> (Option<f64>, f64, Rule) {
    let composed = compose(releases, DELTA, PRECISION).unwrap();
    (composed.epsilon.lower, composed.epsilon.upper, composed.rule)
}

/// Delta of two unit normals at distance `mu` (Balle and Wang 2018, Theorem 8).
fn gaussian_delta(mu: f64, epsilon: f64) -> f64 {
    let phi = |x: f64| 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
    phi(0.5 * mu - epsilon / mu) - epsilon.exp() * phi(-0.5 * mu - epsilon / mu)
}

#[test]
fn gaussians_add_up_in_squares() {
    // Steps that see all records are plain Gaussians. Distances of 1/2, 1/3 and 1/5 together are one distance: the root of the sum of
    // squares.
    let releases = [run(&full(2.0, 1)), run(&full(3.0, 4)), run(&full(5.0, 2))];
    let mu = (0.25 + 4.0 / 9.0 + 2.0 / 25.0_f64).sqrt();
    let (lower, upper, rule) = total(&releases);
    assert_eq!(rule, Rule::Distributions);
    assert!(gaussian_delta(mu, upper) <= DELTA && gaussian_delta(mu, lower.unwrap()) >= DELTA);
    assert!(upper <= 1.001 * lower.unwrap() + 1e-9);
}

#[test]
fn runs_compose_as_phases_of_one() {
    let parts = [run(&sampled(1.0, 300, "")), run(&sampled(1.5, 200, "")), run(&sampled(1.0, 100, ""))];
    let phases =
        "[[phases]]\nsteps = 400\nnoise_multiplier = 1.0\n[[phases]]\nsteps = 200\nnoise_multiplier = 1.5\n";
    let schedule =
        spec(&format!("[privacy]\ndelta = 1e-5\n[sampling]\nbatch = 10\nrecords = 1000\n{phases}"));
    let whole = Plan::check(&schedule).unwrap().epsilon(PRECISION).unwrap();
    let (lower, upper, _) = total(&parts);
    assert!(lower.unwrap() <= whole.upper && whole.lower.unwrap() <= upper, "{lower:?} {upper} {whole:?}");
}

#[test]
fn nothing_costs_nothing_and_one_run_costs_what_it_costs() {
    assert_eq!(total(&[]), (Some(0.0), 0.0, Rule::Nothing));
    for more in ["", "relation = 'replace'"] {
        let plan = Plan::check(&sampled(1.0, 300, more)).unwrap();
        let own = plan.price(PRECISION).unwrap().epsilon;
        assert_eq!(total(&[plan.into()]), (own.lower, own.upper, Rule::Alone));
    }
}

const PATCH: &str =
    "relation = 'patch'\n[region]\npatch = [10, 10]\n[pipeline]\nimage = [100, 100]\ncrop = [30, 30]";
const CROPPED: &str = "relation = 'replace'\n[pipeline]\nimage = [100, 100]\ncrop = [30, 30]";

fn promise(spec: &PlanSpec) -> Promise {
    Promise::of(spec, &Plan::check(spec).unwrap()).unwrap()
}

#[test]
fn a_run_is_priced_by_what_is_promised_and_not_by_what_it_says() {
    let [patch, cropped, plain] =
        [PATCH, CROPPED, "relation = 'replace'"].map(|more| sampled(1.0, 300, more));
    let epsilon = |promise: &Promise, spec: &PlanSpec| {
        let plan = promise.restate(spec, &[], &[], None).unwrap().unwrap();
        assert_eq!(plan.relation(), promise.relation);
        plan.epsilon(PRECISION).unwrap().upper
    };
    let (patches, records) = (promise(&patch), promise(&cropped));
    assert_eq!((patches.relation, records.relation), (Relation::Patch, Relation::Replace));
    // A record-level run that crops sees the patch as rarely as one that promised to protect it. A run that does not crop always sees it.
    assert_eq!(epsilon(&patches, &cropped), epsilon(&patches, &patch));
    assert!(epsilon(&patches, &plain) > 1.5 * epsilon(&patches, &patch));
    // For whole records, a patch-level run costs as much as any other.
    assert_eq!(epsilon(&records, &patch), epsilon(&records, &plain));
    let other = sampled(1.0, 300, &PATCH.replace("[10, 10]", "[20, 20]"));
    assert!(epsilon(&promise(&other), &patch) > epsilon(&patches, &patch));
}

#[test]
fn what_no_theorem_covers_is_refused_by_name() {
    let added = promise(&sampled(1.0, 300, ""));
    let mut fixed = sampled(1.0, 300, "relation = 'replace'");
    fixed.set("sampling.scheme", "without-replacement").unwrap();
    let error = added.restate(&fixed, &[], &[], None).unwrap_err();
    assert!(
        matches!(&error, PlanError::NoTheorem { .. }) && error.to_string().contains("add-remove"),
        "{error}"
    );
    for relation in ["masked", "user"] {
        let other = sampled(1.0, 300, &format!("relation = '{relation}'"));
        let error = added.restate(&other, &[], &[], None).unwrap_err();
        assert!(error.to_string().contains(relation), "{error}");
        assert!(Promise::of(&other, &Plan::check(&other).unwrap()).is_err());
    }
}

#[test]
fn runs_that_are_only_bounded_are_added() {
    let balanced = spec(
        "[privacy]\nnoise_multiplier = 2.0\ndelta = 1e-5\nrelation = 'replace'\n[sampling]\nscheme = 'balanced'\nper_record = 5\nrecords = 1000\nsteps = 100\n",
    );
    let poisson = sampled(2.0, 100, "relation = 'replace'");
    let (lower, upper, rule) = total(&[run(&balanced), run(&poisson)]);
    assert_eq!((lower, rule), (None, Rule::Added));
    let alone = |spec: &PlanSpec, delta: f64| {
        let mut spec = spec.clone();
        spec.set("privacy.delta", &delta.to_string()).unwrap();
        Plan::check(&spec).unwrap().price(PRECISION).unwrap().epsilon.upper
    };
    // The price is neither below that of either run alone, nor above the sum of both at half the delta.
    assert!(upper > alone(&balanced, DELTA).max(alone(&poisson, DELTA)));
    assert!(upper <= alone(&balanced, 0.5 * DELTA) + alone(&poisson, 0.5 * DELTA) + 1e-12);
}

#[test]
fn the_first_steps_are_priced_as_a_shorter_run() {
    let long = sampled(1.0, 300, "");
    let first = |spec: &PlanSpec, steps| Plan::check(spec).unwrap().first(steps);
    assert_eq!(first(&long, 0), None);
    assert_eq!(first(&long, 120).unwrap().hash(), Plan::check(&sampled(1.0, 120, "")).unwrap().hash());
    assert_eq!(first(&long, 1000).unwrap().steps(), 300);
    let phases = format!(
        "{}[[phases]]\nsteps = 50\nnoise_multiplier = 2.0\n[[phases]]\nsteps = 70\n[[phases]]\nsteps = 30\nnoise_multiplier = 3.0\n",
        "[privacy]\nnoise_multiplier = 1.0\ndelta = 1e-5\n[sampling]\nbatch = 10\nrecords = 1000\n"
    );
    let parts = |steps| {
        let plan = first(&spec(&phases), steps).unwrap();
        plan.parts().iter().map(|part| (part.steps(), part.noise_multiplier())).collect::<Vec<_>>()
    };
    assert_eq!(parts(20), [(20, 2.0)]);
    assert_eq!(parts(90), [(50, 2.0), (40, 1.0)]);
    assert_eq!(parts(149), [(50, 2.0), (70, 1.0), (29, 3.0)]);
    // The price is that of a schedule that was written this way.
    let shorter = phases.replace("steps = 70", "steps = 40");
    let shorter = &shorter[..shorter.rfind("[[phases]]").unwrap()];
    assert_eq!(first(&spec(&phases), 90).unwrap(), Plan::check(&spec(shorter)).unwrap());
}

/// Epsilon by Theorem 2 of Papernot and Steinke for a Gaussian at distance `mu`, whose divergence is `a mu^2 / 2`, over a fine grid of
/// both orders and with the tight conversion.
fn choice_by_hand(mu: f64, shape: f64, gamma: f64, mean: f64) -> f64 {
    let orders: Vec<f64> = (0..4000).map(|i| 1.0 + 10f64.powf(-3.0 + f64::from(i) * 0.0015)).collect();
    let divergence = |a: f64| 0.5 * a * mu * mu;
    let constant = orders
        .iter()
        .map(|b| (1.0 + shape) * ((1.0 - 1.0 / b) * divergence(*b) + (1.0 / gamma).ln() / b))
        .fold(f64::INFINITY, f64::min);
    orders
        .iter()
        .map(|a| {
            let renyi = divergence(*a) + constant + mean.ln() / (a - 1.0);
            renyi + ((a - 1.0) / a).ln() - (DELTA.ln() + a.ln()) / (a - 1.0)
        })
        .fold(f64::INFINITY, f64::min)
}

#[test]
fn a_choice_costs_what_the_theorem_says() {
    let plans = [Plan::check(&full(4.0, 4)).unwrap()];
    for (shape, mean) in [(0.0, 10.0), (1.0, 10.0), (1.0, 100.0), (-0.5, 5.0)] {
        let law = Repetitions::negative_binomial(shape, mean).unwrap();
        let Repetitions::NegativeBinomial { gamma, .. } = law else { panic!() };
        let found = PrivateChoice::new(&plans, law).unwrap().epsilon(DELTA).unwrap();
        let expected = choice_by_hand(0.5, shape, gamma, mean);
        // Both searches stop within a thousandth of the best order, near which epsilon is flat.
        assert!((found - expected).abs() < 1e-4 * expected, "{shape} {mean}: {found} {expected}");
    }
}

#[test]
fn candidates_count_by_their_share() {
    let law = Repetitions::negative_binomial(1.0, 10.0).unwrap();
    let [cheap, dear] = [4.0, 2.0].map(|noise| Plan::check(&full(noise, 4)).unwrap());
    let price = |plans: &[Plan]| PrivateChoice::new(plans, law).unwrap().epsilon(DELTA).unwrap();
    let many: Vec<Plan> = std::iter::repeat_n(cheap.clone(), 9).chain([dear.clone()]).collect();
    let (low, high) = (price(from_ref(&cheap)), price(from_ref(&dear)));
    assert!(low < price(&many) && price(&many) < price(&[cheap.clone(), dear.clone()]));
    assert!(price(&[cheap, dear]) < high);
    assert!(PrivateChoice::new(&[], law).is_err());
}

#[test]
fn a_choice_and_a_run_compose() {
    let law = Repetitions::poisson(5.0).unwrap();
    let plan = Plan::check(&full(8.0, 4)).unwrap();
    let choice = PrivateChoice::new(from_ref(&plan), law).unwrap();
    let alone = choice.epsilon(DELTA).unwrap();
    let (lower, upper, rule) = total(&[Release::Choice(choice.clone()), plan.clone().into()]);
    let own = plan.price(PRECISION).unwrap().epsilon.upper;
    assert!(
        lower.is_none() && upper > alone.max(own) && upper < alone + 2.0 * own,
        "{upper} {alone} {own} {rule:?}"
    );
    assert!(matches!(rule, Rule::Renyi | Rule::Added));
}
