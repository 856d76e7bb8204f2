//! Figures computed by others: each must lie in our bracket, up to the error of the figure.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod common;

use common::{Row, number, rows, step};
use dapple_accounting::calibrate::{PrivacyTarget, smallest};
use dapple_accounting::rdp::Rdp;
use dapple_accounting::{Bracket, BracketPrecision, Pld, baselines};

/// Fails unless the bracket holds the figure up to `error` and its upper end is within 0.2% (or 5e-6) of it.
fn assert_meets(bracket: Bracket, figure: f64, error: f64, what: &str) {
    assert!(
        bracket.upper >= figure - error && bracket.lower.unwrap() <= figure + error,
        "{what}: {bracket:?} does not hold {figure}"
    );
    assert!(bracket.upper <= figure * 1.002 + 5e-6, "{what}: {bracket:?} is not within 0.2% of {figure}");
}

fn reference_step(row: &Row<'_>) -> Pld {
    let kind = match row["relation"] {
        "add-remove" => "poisson-add-remove",
        _ => "without-replacement-patch",
    };
    step(kind, number(row, "effective_rate"), 1.0, number(row, "noise_multiplier"))
        .self_compose(row["steps"].parse().unwrap())
}

#[test]
fn patch_accounting_figures_are_met() {
    for row in rows(include_str!("goldens/patch_accounting.csv")) {
        let bracket =
            reference_step(&row).epsilon(number(&row, "delta"), BracketPrecision::default()).unwrap();
        // The refined figures are estimates on a fitted grid, good to 0.1%.
        let figure = number(&row, "epsilon_refined");
        assert_meets(bracket, figure, 1e-3 * figure, row["id"]);
    }
}

#[test]
fn calibrated_noise_reaches_its_epsilon() {
    for row in rows(include_str!("goldens/calibrated_noise.csv")) {
        let bracket =
            reference_step(&row).epsilon(number(&row, "delta"), BracketPrecision::default()).unwrap();
        // Connect-the-dots at a fixed grid of 1e-4: upper bounds, loose by less than 0.1% at these rates.
        let figure = number(&row, "epsilon");
        assert_meets(bracket, figure, 1e-3 * figure, row["setting"]);
    }
}

#[test]
fn composed_figures_lie_in_the_bracket() {
    for row in rows(include_str!("goldens/composed.csv")) {
        let steps = row["steps"].parse().unwrap();
        let pld = step(row["kind"], number(&row, "g"), number(&row, "c"), number(&row, "sigma"))
            .self_compose(steps);
        let figure = number(&row, "epsilon");
        for relative in [1e-3, 1e-4] {
            let bracket = pld.epsilon(number(&row, "delta"), BracketPrecision { relative }).unwrap();
            // The figures carry twelve digits and state their own error, relative.
            let error = figure * (number(&row, "method_error") + 1e-10);
            assert!(
                bracket.lower.unwrap() <= figure + error && bracket.upper >= figure - error,
                "{row:?}: {bracket:?}"
            );
            assert!(bracket.relative_width() <= relative.max(2e-4), "{row:?}: {bracket:?} is too wide");
        }
    }
}

#[test]
fn drawn_figures_lie_in_the_bracket() {
    for row in rows(include_str!("goldens/drawn.csv")) {
        let steps = row["steps"].parse().unwrap();
        let pld = step(row["kind"], number(&row, "g"), number(&row, "c"), number(&row, "sigma"))
            .self_compose(steps);
        let bracket = pld.epsilon(number(&row, "delta"), BracketPrecision::default()).unwrap();
        let figure = number(&row, "epsilon");
        // Twelve digits, beside the error that the figure states.
        let error = figure * (number(&row, "method_error") + 1e-10);
        assert!(
            bracket.lower.unwrap() <= figure + error && bracket.upper >= figure - error,
            "{row:?}: {bracket:?}"
        );
        // Below 1e-3 the precision is absolute.
        assert!(bracket.width() <= 1e-3 * bracket.upper.max(1e-3), "{row:?}: {bracket:?} is too wide");
    }
}

#[test]
fn delta_of_a_composition_inverts_its_epsilon() {
    for row in rows(include_str!("goldens/composed.csv")) {
        let steps = row["steps"].parse().unwrap();
        let pld = step(row["kind"], number(&row, "g"), number(&row, "c"), number(&row, "sigma"))
            .self_compose(steps);
        let (epsilon, delta) = (number(&row, "epsilon"), number(&row, "delta"));
        // |d ln delta / d ln epsilon| is below 3e3 in these settings, times the error of the figure.
        let error = delta * 3e3 * (number(&row, "method_error") + 1e-10);
        let far = [0.25, 0.5, 0.75, 1.0, 1.25, 1.5].map(|factor| factor * epsilon);
        let alone = pld.delta(epsilon, BracketPrecision::default()).unwrap();
        let among = pld.profile(&far, BracketPrecision::default()).unwrap()[3];
        for bracket in [alone, among] {
            assert!(
                bracket.lower.unwrap() <= delta + error && bracket.upper >= delta - error,
                "{row:?}: {bracket:?}"
            );
            // A bracket of 0.1% in epsilon is one of up to a few tens of per cent in delta here.
            assert!(
                bracket.upper <= 1.4 * delta && bracket.lower.unwrap() >= delta / 1.4,
                "{row:?}: {bracket:?}"
            );
        }
    }
}

#[test]
fn single_steps_are_exact() {
    for row in rows(include_str!("goldens/single_step.csv")) {
        let (g, c, sigma) = (number(&row, "g"), number(&row, "c"), number(&row, "sigma"));
        let (epsilon, figure) = (number(&row, "epsilon"), number(&row, "delta"));
        // Both directions of add/remove are answered at once: the larger one must hold each.
        let (pld, one_of_two) = match row["kind"] {
            "poisson-add" | "poisson-remove" => (Pld::poisson_gaussian(g, sigma).unwrap(), true),
            kind => (step(kind, g, c, sigma), false),
        };
        let bracket = pld.delta(epsilon, BracketPrecision::default()).unwrap();
        // Cell masses are exact to 1e-14 of the larger of the two terms that delta is the difference of.
        let error = 1e-12 * figure + 1e-14 * g.min(1.0);
        assert!(bracket.upper >= figure - error, "{row:?}: {bracket:?}");
        assert!(one_of_two || bracket.lower.unwrap() <= figure + error, "{row:?}: {bracket:?}");
        if row["kind"] == "poisson-remove" {
            assert!(
                bracket.lower.unwrap() <= figure + error,
                "removal is the larger direction: {row:?}: {bracket:?}"
            );
        }
    }
}

#[test]
fn the_gaussian_mechanism_is_exact() {
    for row in rows(include_str!("goldens/gaussian.csv")) {
        let pld = Pld::gaussian_distance(number(&row, "mu")).unwrap();
        let bracket = pld.delta(number(&row, "epsilon"), BracketPrecision::default()).unwrap();
        let figure = number(&row, "delta");
        // The golden's epsilon has twelve digits; |d ln delta / d ln epsilon| is below 1e4 for these.
        let error = figure * 1e-8;
        assert!(
            bracket.lower.unwrap() <= figure + error && bracket.upper >= figure - error,
            "{row:?}: {bracket:?}"
        );
        assert!((bracket.upper - figure).abs() <= error, "{row:?}: {bracket:?}");
    }
}

#[test]
fn laplace_compositions_are_enclosed() {
    for row in rows(include_str!("goldens/laplace.csv")) {
        let steps = row["steps"].parse().unwrap();
        let pld = Pld::laplace(1.0 / number(&row, "scale")).unwrap().self_compose(steps);
        let bracket = pld.delta(number(&row, "epsilon"), BracketPrecision::default()).unwrap();
        let figure = number(&row, "delta");
        assert!(
            bracket.lower.unwrap() <= figure * (1.0 + 1e-12) && bracket.upper >= figure * (1.0 - 1e-12),
            "{row:?}: {bracket:?}"
        );
        // The two atoms of a Laplace step are off the lattice, which costs some width.
        assert!(bracket.upper <= 1.05 * figure, "{row:?}: {bracket:?}");
    }
}

#[test]
fn renyi_divergences_match_quadrature() {
    for row in rows(include_str!("goldens/rdp.csv")) {
        let rdp = Rdp::poisson_gaussian(number(&row, "q"), number(&row, "sigma")).unwrap();
        let (ours, figure) = (rdp.divergence(number(&row, "order")), number(&row, "rdp"));
        // Real orders are integrals over panels of a quarter deviation: about ten digits of 1 + the moment.
        assert!((ours - figure).abs() <= 1e-9 * figure + 1e-12, "{row:?}: {ours}");
    }
}

#[test]
fn published_answers_are_met() {
    for row in rows(include_str!("goldens/questions.csv")) {
        let (kind, value) = (row["kind"], number(&row, "value"));
        let pld = |sigma: f64| match kind.strip_prefix("data-level-noise-patch-") {
            Some(side) => {
                let side: u64 = side.parse().unwrap();
                baselines::data_level_noise(side * side, 3, sigma).unwrap()
            }
            None => step(kind, number(&row, "g"), number(&row, "c"), sigma)
                .self_compose(row["steps"].parse().unwrap()),
        };
        // Figures are published with four or five digits: 0.2% covers their rounding and our bracket.
        match row["quantity"] {
            "epsilon" => {
                let bracket = pld(number(&row, "sigma"))
                    .epsilon(number(&row, "delta"), BracketPrecision::default())
                    .unwrap();
                assert_meets(bracket, value, 1e-3 * value, kind);
            }
            "noise_multiplier_for_epsilon_8" => {
                let target = PrivacyTarget { epsilon: 8.0, delta: number(&row, "delta") };
                let solved =
                    smallest("noise multiplier", (0.05, 1e4), target, BracketPrecision::default(), |s| {
                        Ok(pld(s))
                    })
                    .unwrap();
                assert!(
                    (solved.value / value - 1.0).abs() < 2e-3 && solved.epsilon.upper <= 8.0,
                    "{solved:?}"
                );
            }
            other => panic!("unknown quantity {other}"),
        }
    }
}
