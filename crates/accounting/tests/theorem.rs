//! The amplification theorem against direct numerical integration of the mechanisms it speaks about.

mod common;

use common::substitution;
use dapple_accounting::{Pld, Precision};
use proptest::prelude::*;

type Point = [f64; 2];

/// `H_a(P || Q)` of two mixtures of unit normals in the plane, by the midpoint rule.
fn hockey_stick(a: f64, p: &[(f64, Point)], q: &[(f64, Point)]) -> f64 {
    const STEP: f64 = 0.08;
    const REACH: f64 = 7.0;
    let centres = p.iter().chain(q).map(|(_, c)| *c);
    let (mut low, mut high) = ([f64::MAX; 2], [f64::MIN; 2]);
    for centre in centres {
        for axis in 0..2 {
            low[axis] = low[axis].min(centre[axis] - REACH);
            high[axis] = high[axis].max(centre[axis] + REACH);
        }
    }
    let density = |mixture: &[(f64, Point)], x: f64, y: f64| -> f64 {
        mixture.iter().map(|(w, c)| w * (-0.5 * ((x - c[0]).powi(2) + (y - c[1]).powi(2))).exp()).sum::<f64>()
            / std::f64::consts::TAU
    };
    let count = |axis: usize| ((high[axis] - low[axis]) / STEP).ceil() as usize;
    let mut sum = 0.0;
    for i in 0..count(0) {
        for j in 0..count(1) {
            let (x, y) = (low[0] + STEP * (i as f64 + 0.5), low[1] + STEP * (j as f64 + 0.5));
            sum += (density(p, x, y) - a * density(q, x, y)).max(0.0);
        }
    }
    sum * STEP * STEP
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
            .delta(epsilon, Precision::default()).unwrap();
        // The kink of the integrand limits the midpoint rule to about step^2 / 8 of the density: 1e-4.
        let direct = hockey_stick(epsilon.exp(), &p, &q);
        prop_assert!(direct <= bound.upper + 2e-4, "{direct} above {bound:?}");
    }

    /// Opposite gradients of full norm, the unaffected one beside the substituted one, attain the bound.
    #[test]
    fn the_worst_case_attains_the_patch_bound(
        g in 0.05..1.0_f64, c in 0.05..1.0_f64, sigma in 0.4..2.0_f64, epsilon in 0.0..2.0_f64,
    ) {
        let (up, down) = ([1.0 / sigma, 0.0], [-1.0 / sigma, 0.0]);
        let common = [(1.0 - g, [0.0, 0.0]), (g * (1.0 - c), down)];
        let p: Vec<_> = common.into_iter().chain([(g * c, up)]).collect();
        let q: Vec<_> = common.into_iter().chain([(g * c, down)]).collect();
        let bound = Pld::substitution(substitution([1.0 - g, g * (1.0 - c), g * c], [1.0, 2.0, 2.0], sigma))
            .delta(epsilon, Precision::default()).unwrap();
        let direct = hockey_stick(epsilon.exp(), &p, &q);
        prop_assert!((direct - bound.upper).abs() <= 2e-4, "{direct} against {bound:?}");
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
            .delta(epsilon, Precision::default()).unwrap();
        let direct = hockey_stick(epsilon.exp(), &p, &q);
        prop_assert!(direct <= bound.upper + 2e-4, "{direct} above {bound:?}");
    }
}
