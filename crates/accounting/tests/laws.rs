//! Laws every privacy-loss distribution obeys.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test")]

mod common;

use common::step;
use dapple_accounting::calibrate::{PrivacyTarget, largest_integer, smallest};
use dapple_accounting::rdp::Rdp;
use dapple_accounting::{AccountingError, Bracket, BracketPrecision, Pld};
use proptest::prelude::*;

const PRECISION: BracketPrecision = BracketPrecision { relative: 1e-3 };

fn kinds() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "poisson-add-remove",
        "poisson-replace",
        "poisson-patch",
        "without-replacement-patch",
    ])
}

/// Rates, noise and deltas over the whole range that is served, on logarithmic scales.
fn setting() -> impl Strategy<Value = (&'static str, f64, f64, f64, u64, f64)> {
    (kinds(), -5.0..0.0_f64, 0.01..1.0_f64, -0.7..1.5_f64, 0.0..4.5_f64, -12.0..-1.0_f64).prop_map(
        |(kind, rate, c, sigma, steps, delta)| {
            (kind, 10f64.powf(rate), c, 10f64.powf(sigma), 10f64.powf(steps) as u64, 10f64.powf(delta))
        },
    )
}

/// The bracket of epsilon, infinite beyond the accountant's limit.
fn priced(pld: &Pld, delta: f64) -> Bracket {
    match pld.epsilon(delta, PRECISION) {
        Ok(bracket) => bracket,
        Err(AccountingError::EpsilonTooLarge { .. }) => Bracket::exact(f64::INFINITY),
        Err(error) => panic!("{error}"),
    }
}

/// Whether the brackets allow that the first exact value is at most the second.
fn at_most(a: Bracket, b: Bracket) -> bool {
    a.lower.unwrap() <= b.upper
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn brackets_are_ordered_and_finite((kind, g, c, sigma, steps, delta) in setting()) {
        match step(kind, g, c, sigma).self_compose(steps).epsilon(delta, PRECISION) {
            Ok(bracket) => {
                prop_assert!(bracket.lower.unwrap() >= 0.0 && bracket.lower.unwrap() <= bracket.upper && bracket.upper.is_finite());
            }
            Err(error) => prop_assert!(matches!(error, AccountingError::EpsilonTooLarge { .. }), "{error}"),
        }
    }

    #[test]
    fn epsilon_grows_with_steps_and_rate_and_falls_with_noise((kind, g, c, sigma, steps, delta) in setting()) {
        let base = priced(&step(kind, g, c, sigma).self_compose(steps), delta);
        prop_assert!(at_most(base, priced(&step(kind, g, c, sigma).self_compose(steps + steps / 3 + 1), delta)));
        prop_assert!(at_most(base, priced(&step(kind, (1.5 * g).min(1.0), c, sigma).self_compose(steps), delta)));
        prop_assert!(at_most(priced(&step(kind, g, c, 1.3 * sigma).self_compose(steps), delta), base));
        prop_assert!(at_most(priced(&step(kind, g, c, sigma).self_compose(steps), (2.0 * delta).min(0.5)), base));
    }

    #[test]
    fn crops_help_and_poisson_helps((_, g, c, sigma, steps, delta) in setting()) {
        let at = |kind| priced(&step(kind, g, c, sigma).self_compose(steps), delta);
        prop_assert!(at_most(at("poisson-patch"), at("poisson-replace")));
        prop_assert!(at_most(at("poisson-patch"), at("without-replacement-patch")));
    }

    #[test]
    fn splitting_a_composition_changes_nothing((kind, g, c, sigma, steps, delta) in setting()) {
        let one = step(kind, g, c, sigma);
        let whole = one.self_compose(steps + 5);
        let parts = one.self_compose(steps).compose(&one.self_compose(5));
        let (whole, parts) = (priced(&whole, delta), priced(&parts, delta));
        prop_assert!(whole == parts, "{whole:?} {parts:?}");
    }

    /// Rates at which rare large losses do not force long lattices, to keep this quick.
    #[test]
    fn a_mixed_composition_lies_between_its_parts((kind, g, c, sigma, steps, delta) in setting()) {
        let (g, sigma) = (g.max(2e-3), sigma.max(0.8));
        let (quiet, loud) = (step(kind, g, c, 1.2 * sigma), step(kind, g, c, sigma));
        let half = steps.div_ceil(2);
        let mixed = priced(&quiet.self_compose(half).compose(&loud.self_compose(half)), delta);
        prop_assert!(at_most(priced(&quiet.self_compose(2 * half), delta), mixed));
        prop_assert!(at_most(mixed, priced(&loud.self_compose(2 * half), delta)));
    }

    #[test]
    fn renyi_accounting_is_never_below_the_bracket((kind, g, c, sigma, steps, delta) in setting()) {
        let rdp = match kind {
            "poisson-add-remove" => Rdp::poisson_gaussian(g, sigma).unwrap(),
            "poisson-replace" => Rdp::substitution(common::substitution([1.0 - g, 0.0, g], [1.0, 2.0, 2.0], sigma)),
            "poisson-patch" => {
                Rdp::substitution(common::substitution([1.0 - g, g * (1.0 - c), g * c], [1.0, 2.0, 2.0], sigma))
            }
            _ => Rdp::substitution(common::substitution([1.0 - g, g * (1.0 - c), g * c], [2.0; 3], sigma)),
        };
        let renyi = rdp.self_compose(steps).epsilon(delta).unwrap().epsilon;
        if let Ok(bracket) = step(kind, g, c, sigma).self_compose(steps).epsilon(delta, PRECISION) {
            // Integrals are good to 1e-10 of a step's divergence.
            prop_assert!(bracket.lower.unwrap() <= renyi * (1.0 + 1e-6) + 1e-9 * steps as f64, "{bracket:?} above {renyi}");
        }
    }

    #[test]
    fn profiles_fall_and_invert((kind, g, c, sigma, steps, delta) in setting()) {
        let pld = step(kind, g, c, sigma).self_compose(steps);
        if let Ok(epsilon) = pld.epsilon(delta, PRECISION) {
            let points: Vec<f64> = (0..8).map(|i| epsilon.upper * f64::from(i) / 4.0).filter(|e| *e < 1e4).collect();
            let profile = pld.profile(&points, PRECISION).unwrap();
            for pair in profile.windows(2) {
                prop_assert!(pair[1].lower.unwrap() <= pair[0].upper, "{profile:?}");
            }
            let at = pld.delta(epsilon.upper, PRECISION).unwrap();
            prop_assert!(at.lower.unwrap() <= delta, "{at:?} at {epsilon:?}");
        }
    }

    /// At rates where epsilon is well conditioned: searches use the first grid only, which is looser elsewhere.
    #[test]
    fn calibration_returns_the_safe_side((kind, g, c, sigma, steps, delta) in setting()) {
        let (g, sigma) = (g.max(2e-3), sigma.max(0.5));
        let family = |sigma: f64| Ok(step(kind, g, c, sigma).self_compose(steps));
        let reached = family(sigma)?.epsilon(delta, PRECISION).map_err(|e| TestCaseError::reject(e.to_string()))?;
        prop_assume!(reached.lower.unwrap() > 1e-2);
        let target = PrivacyTarget { epsilon: reached.upper, delta };
        let solved = smallest("noise multiplier", (0.05, 1e4), target, PRECISION, family).unwrap();
        prop_assert!(solved.epsilon.upper <= target.epsilon);
        prop_assert!(solved.value <= sigma * 1.02, "{solved:?} for {sigma}");
        let steps_family = |n: u64| Ok(step(kind, g, c, sigma).self_compose(n));
        let solved = largest_integer("steps", (1, 10_000_000), target, PRECISION, steps_family).unwrap();
        prop_assert!(solved.epsilon.upper <= target.epsilon);
        // Within the precision of epsilon, not of steps: where rare large losses decide, epsilon hardly depends on them.
        let next = priced(&steps_family(solved.value + 1)?, delta);
        prop_assert!(next.upper >= (1.0 - 5.0 * PRECISION.relative) * target.epsilon, "{solved:?} for {steps}");
    }
}

#[test]
fn full_sampling_gives_the_unsampled_value() {
    let unsampled = Pld::gaussian(1.0, 2.0).unwrap().self_compose(50);
    let sampled = Pld::poisson_gaussian(1.0, 2.0).unwrap().self_compose(50);
    assert_eq!(unsampled.epsilon(1e-6, PRECISION), sampled.epsilon(1e-6, PRECISION));
}

#[test]
fn a_composed_mechanism_can_be_sampled_and_composed_again() {
    // Two Gaussian steps at sigma sqrt(2) are one at sigma 1, so sampling their product is sampling that one.
    let twice = Pld::gaussian(1.0, 2f64.sqrt()).unwrap().self_compose(2).subsample_poisson(0.1).unwrap();
    let once = Pld::poisson_gaussian(0.1, 1.0).unwrap();
    let (a, b) = (
        twice.self_compose(20).epsilon(1e-5, PRECISION).unwrap(),
        once.self_compose(20).epsilon(1e-5, PRECISION).unwrap(),
    );
    assert!(a.lower.unwrap() <= b.upper && b.lower.unwrap() <= a.upper, "{a:?} {b:?}");
    // A product that has no closed form: Laplace and Gaussian together, sampled by one coin.
    let product = Pld::gaussian(1.0, 1.0).unwrap().compose(&Pld::laplace(0.5).unwrap());
    let sampled = product.subsample_poisson(0.1).unwrap();
    let apart = once.compose(&Pld::laplace(0.5).unwrap().subsample_poisson(0.1).unwrap());
    let whole = sampled.delta(0.5, PRECISION).unwrap();
    assert!(
        whole.lower.unwrap() <= whole.upper && whole.upper < product.delta(0.5, PRECISION).unwrap().upper
    );
    // One shared coin is worse than two: sampling the parts apart underestimates.
    assert!(whole.lower.unwrap() > apart.delta(0.5, PRECISION).unwrap().upper, "{whole:?}");
}

#[test]
fn trade_off_curves_lie_between_perfect_privacy_and_none() {
    let pld = Pld::poisson_gaussian(0.01, 1.0).unwrap().self_compose(1000);
    let alphas: Vec<f64> = (0..=20).map(|i| f64::from(i) / 20.0).collect();
    let curve = pld.trade_off(&alphas, PRECISION).unwrap();
    for (alpha, beta) in alphas.iter().zip(&curve) {
        assert!((0.0..=1.0 - alpha + 1e-12).contains(beta), "{alpha} {beta}");
    }
    assert!(curve.windows(2).all(|w| w[1] <= w[0]));
    // The Gaussian mechanism's curve in closed form: beta = Phi(Phi^-1(1 - alpha) - mu); at mu = 1, alpha = 0.5 it is Phi(-1).
    let gaussian = Pld::gaussian_distance(1.0).unwrap().trade_off(&[0.5], PRECISION).unwrap()[0];
    assert!(gaussian <= 0.158_655_253_931_457 && gaussian > 0.158, "{gaussian}");
}

/// With little noise every mechanism is nearly all-or-nothing, where overflow and lost roots would show.
#[test]
fn little_noise_keeps_the_order_of_relations() {
    for sigma in [0.05, 0.06, 0.1, 0.2] {
        for steps in [1, 2, 10, 100] {
            for g in [1.0 / 30.0, 0.5] {
                let at = |kind| priced(&step(kind, g, 1.0, sigma).self_compose(steps), 1e-5);
                let (add_remove, poisson, without) =
                    (at("poisson-add-remove"), at("poisson-replace"), at("without-replacement-patch"));
                for bracket in [add_remove, poisson, without] {
                    assert!(
                        bracket.lower.unwrap() <= bracket.upper,
                        "sigma {sigma}, {steps} steps, rate {g}: {bracket:?}"
                    );
                }
                // A substitution is at least as hard to hide as a removal, and at distance 2 from everything the hardest.
                assert!(
                    at_most(add_remove, poisson),
                    "sigma {sigma}, {steps} steps: {add_remove:?} {poisson:?}"
                );
                assert!(at_most(poisson, without), "sigma {sigma}, {steps} steps: {poisson:?} {without:?}");
            }
        }
    }
}

#[test]
fn edges_of_the_range_are_answered() {
    for (g, sigma, steps, delta) in [
        (1e-8, 1e4, 1, 1e-15),
        (1e-8, 1e4, 10_000_000, 0.5),
        (1e-8, 0.05, 10_000_000, 1e-5),
        (1.0, 0.05, 1, 1e-15),
        (1.0, 1e4, 10_000_000, 1e-15),
        (0.5, 1.0, 100, 0.5),
        (1e-3, 0.05, 3, 1e-10),
        (0.999_999, 10.0, 1000, 1e-12),
    ] {
        for kind in ["poisson-add-remove", "poisson-replace", "without-replacement-patch"] {
            match step(kind, g, 1.0, sigma).self_compose(steps).epsilon(delta, PRECISION) {
                Ok(bracket) => {
                    assert!(
                        bracket.upper.is_finite() && bracket.lower.unwrap() <= bracket.upper,
                        "{bracket:?}"
                    )
                }
                Err(error) => assert!(matches!(error, AccountingError::EpsilonTooLarge { .. }), "{error}"),
            }
        }
    }
}

#[test]
fn bad_numbers_are_refused_by_name() {
    for (error, name) in [
        (Pld::poisson_gaussian(0.0, 1.0).unwrap_err(), "sample rate"),
        (Pld::poisson_gaussian(1.1, 1.0).unwrap_err(), "sample rate"),
        (Pld::poisson_gaussian(f64::NAN, 1.0).unwrap_err(), "sample rate"),
        (Pld::poisson_gaussian(0.1, 0.0).unwrap_err(), "noise multiplier"),
        (Pld::identity().epsilon(-0.0001, PRECISION).unwrap_err(), "delta"),
        (Pld::identity().epsilon(1.0, PRECISION).unwrap_err(), "delta"),
        (Pld::identity().delta(-1.0, PRECISION).unwrap_err(), "epsilon"),
        (Pld::identity().delta(f64::NAN, PRECISION).unwrap_err(), "epsilon"),
    ] {
        assert!(matches!(error, AccountingError::OutOfRange { name: n, .. } if n == name), "{error}");
        assert!(!error.hint().is_empty());
    }
    let one_sided = Pld::poisson_gaussian(0.1, 1.0).unwrap();
    assert!(matches!(
        one_sided.subsample_without_replacement(0.1),
        Err(AccountingError::NotSymmetric { .. })
    ));
}
