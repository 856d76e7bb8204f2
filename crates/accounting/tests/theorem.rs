//! The amplification theorem against direct numerical integration of the mechanisms it speaks about.

mod common;

use common::substitution;
use dapple_accounting::{BracketPrecision, Pld};
use proptest::prelude::*;

type Point = [f64; 2];

/// Standard deviations beyond the outermost centre: what lies outside weighs less than 1e-11.
const REACH: f64 = 7.0;
/// The largest slope of a normal density.
const STEEPEST: f64 = 0.242;

/// The midpoints of a grid over everything that mixtures with these centres weigh.
fn midpoints(centres: impl Iterator<Item = f64> + Clone, step: f64) -> Vec<f64> {
    let low = centres.clone().fold(f64::MAX, f64::min) - REACH;
    let high = centres.fold(f64::MIN, f64::max) + REACH;
    (0..((high - low) / step).ceil() as usize).map(|i| low + step * (i as f64 + 0.5)).collect()
}

/// What the midpoint rule may miss on a line where `(p - a q)+` has at most two kinks: step^2 / 8 of each jump in slope.
fn kinks(a: f64, step: f64) -> f64 {
    2.0 * step * step / 8.0 * STEEPEST * (1.0 + a)
}

/// The step of the plane's grid.
const STEP: f64 = 0.04;

/// `H_a(P || Q)` of two mixtures of unit normals in the plane, by the midpoint rule.
fn hockey_stick(a: f64, p: &[(f64, Point)], q: &[(f64, Point)]) -> f64 {
    let [xs, ys] = [0, 1].map(|axis| midpoints(p.iter().chain(q).map(move |(_, c)| c[axis]), STEP));
    let density = |mixture: &[(f64, Point)], x: f64, y: f64| -> f64 {
        mixture.iter().map(|(w, c)| w * (-0.5 * ((x - c[0]).powi(2) + (y - c[1]).powi(2))).exp()).sum::<f64>()
            / std::f64::consts::TAU
    };
    let mut sum = 0.0;
    for &x in &xs {
        for &y in &ys {
            sum += (density(p, x, y) - a * density(q, x, y)).max(0.0);
        }
    }
    sum * STEP * STEP
}

/// The step of the line's grid.
const FINE: f64 = 1e-3;

/// `H_a(P || Q)` of two mixtures of unit normals on a line, by the midpoint rule.
fn hockey_stick_on_a_line(a: f64, p: &[(f64, f64)], q: &[(f64, f64)]) -> f64 {
    let density = |mixture: &[(f64, f64)], x: f64| -> f64 {
        mixture.iter().map(|(w, c)| w * (-0.5 * (x - c).powi(2)).exp()).sum::<f64>()
            / std::f64::consts::TAU.sqrt()
    };
    let excess = |x: f64| (density(p, x) - a * density(q, x)).max(0.0);
    midpoints(p.iter().chain(q).map(|(_, c)| *c), FINE).into_iter().map(excess).sum::<f64>() * FINE
}

/// A vector of norm at most 1, over sigma.
fn gradient(radius: f64, angle: f64, sigma: f64) -> Point {
    [radius * angle.cos() / sigma, radius * angle.sin() / sigma]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the clipped gradients of the present record are, affected or not, Poisson sampling with crops stays
    /// within the bound of the pair (w0, w1, q) = (1-g, g(1-c), gc), (d0, d1, d2) = (1, 2, 2).
    #[test]
    fn adversarial_gradients_stay_within_the_patch_bound(
        g in 0.05..1.0_f64, c in 0.05..1.0_f64, sigma in 0.4..2.0_f64, epsilon in 0.0..2.0_f64,
        radii in prop::array::uniform3(0.3..=1.0_f64), angles in prop::array::uniform3(0.0..std::f64::consts::TAU),
    ) {
        let [unaffected, affected, substituted] =
            std::array::from_fn(|i| gradient(radii[i], angles[i], sigma));
        let common = [(1.0 - g, [0.0, 0.0]), (g * (1.0 - c), unaffected)];
        let p: Vec<_> = common.into_iter().chain([(g * c, affected)]).collect();
        let q: Vec<_> = common.into_iter().chain([(g * c, substituted)]).collect();
        let bound = Pld::substitution(substitution([1.0 - g, g * (1.0 - c), g * c], [1.0, 2.0, 2.0], sigma))
            .delta(epsilon, BracketPrecision::default()).unwrap();
        let direct = hockey_stick(epsilon.exp(), &p, &q);
        prop_assert!(direct <= bound.upper + kinks(epsilon.exp(), STEP), "{direct} above {bound:?}");
    }

    /// Opposite gradients of full norm, the unaffected one beside the substituted one, attain the bound.
    #[test]
    fn the_worst_case_attains_the_patch_bound(
        g in 0.05..1.0_f64, c in 0.05..1.0_f64, sigma in 0.4..2.0_f64, epsilon in 0.0..2.0_f64,
    ) {
        let (up, down) = (1.0 / sigma, -1.0 / sigma);
        let common = [(1.0 - g, 0.0), (g * (1.0 - c), down)];
        let p: Vec<_> = common.into_iter().chain([(g * c, up)]).collect();
        let q: Vec<_> = common.into_iter().chain([(g * c, down)]).collect();
        let bound = Pld::substitution(substitution([1.0 - g, g * (1.0 - c), g * c], [1.0, 2.0, 2.0], sigma))
            .delta(epsilon, BracketPrecision::default()).unwrap();
        let direct = hockey_stick_on_a_line(epsilon.exp(), &p, &q);
        prop_assert!((direct - bound.upper).abs() <= kinks(epsilon.exp(), FINE) + bound.upper - bound.lower.unwrap(),
            "{direct} against {bound:?}");
    }

    /// The same without replacement: another record takes the place of the absent one, so that every distance is 2.
    #[test]
    fn adversarial_replacements_stay_within_the_bound_without_replacement(
        rate in 0.05..1.0_f64, c in 0.05..1.0_f64, sigma in 0.4..2.0_f64, epsilon in 0.0..2.0_f64,
        radii in prop::array::uniform4(0.3..=1.0_f64), angles in prop::array::uniform4(0.0..std::f64::consts::TAU),
    ) {
        let [other, unaffected, affected, substituted] =
            std::array::from_fn(|i| gradient(radii[i], angles[i], sigma));
        let common = [(1.0 - rate, other), (rate * (1.0 - c), unaffected)];
        let p: Vec<_> = common.into_iter().chain([(rate * c, affected)]).collect();
        let q: Vec<_> = common.into_iter().chain([(rate * c, substituted)]).collect();
        let bound = Pld::substitution(substitution([1.0 - rate, rate * (1.0 - c), rate * c], [2.0; 3], sigma))
            .delta(epsilon, BracketPrecision::default()).unwrap();
        let direct = hockey_stick(epsilon.exp(), &p, &q);
        prop_assert!(direct <= bound.upper + kinks(epsilon.exp(), STEP), "{direct} above {bound:?}");
    }
}
