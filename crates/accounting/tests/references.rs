//! Figures computed by others: each must lie in our bracket, up to the error of the figure.

use std::collections::BTreeMap;

use dapple_accounting::{Bracket, Distances, Participation, Pld, Precision, Substitution};

/// Rows of a CSV file with a header and `#` comments, by column name.
fn rows(text: &str) -> Vec<BTreeMap<&str, &str>> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines.map(|line| header.iter().copied().zip(line.split(',')).collect()).collect()
}

fn number(row: &BTreeMap<&str, &str>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} in {row:?}"))
}

/// Without replacement: every distance is 2, the record is affected at the effective rate.
fn without_replacement(rate: f64, sigma: f64) -> Pld {
    let participation = Participation { absent: 1.0 - rate, unaffected: 0.0, affected: rate };
    let distances = Distances { absent: 2.0, unaffected: 2.0, affected: 2.0 };
    Pld::substitution(Substitution::new(participation, distances, sigma).unwrap())
}

fn step(relation: &str, rate: f64, sigma: f64) -> Pld {
    match relation {
        "add-remove" => Pld::poisson_gaussian(rate, sigma).unwrap(),
        "patch" => without_replacement(rate, sigma),
        other => panic!("unknown relation {other}"),
    }
}

fn assert_meets(bracket: Bracket, figure: f64, tolerance: f64, what: &str) {
    assert!(
        bracket.upper >= figure - tolerance && bracket.lower <= figure + tolerance,
        "{what}: {bracket:?} does not hold {figure}"
    );
    assert!((bracket.upper - figure).abs() <= 2e-3 * figure + 5e-6, "{what}: {bracket:?} is not within 0.2% of {figure}");
}

#[test]
fn patch_accounting_figures_are_met() {
    for row in rows(include_str!("goldens/patch_accounting.csv")) {
        let pld = step(row["relation"], number(&row, "effective_rate"), number(&row, "noise_multiplier"))
            .self_compose(row["steps"].parse().unwrap());
        let bracket = pld.epsilon(number(&row, "delta"), Precision::default()).unwrap();
        // The refined figures are estimates on a fitted grid, good to 0.1% or the grid's own width.
        let figure = number(&row, "epsilon_refined");
        assert_meets(bracket, figure, 1e-3 * figure + 1e-6, row["id"]);
    }
}

#[test]
fn calibrated_noise_reaches_its_epsilon() {
    for row in rows(include_str!("goldens/calibrated_noise.csv")) {
        let pld = step(row["relation"], number(&row, "effective_rate"), number(&row, "noise_multiplier"))
            .self_compose(row["steps"].parse().unwrap());
        let bracket = pld.epsilon(number(&row, "delta"), Precision::default()).unwrap();
        let figure = number(&row, "epsilon");
        // Google's connect-the-dots figures at a grid of 1e-4 are upper bounds, loose by at most 0.1% here.
        assert_meets(bracket, figure, 1e-3 * figure, row["setting"]);
    }
}
