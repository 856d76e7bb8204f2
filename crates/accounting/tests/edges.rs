//! Mechanisms whose losses end somewhere, asked at the end and beyond it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod common;

use common::{number, rows};
use dapple_accounting::{AccountingError, Bracket, BracketPrecision, GivenLosses, Pld};
use proptest::prelude::*;

const PRECISION: BracketPrecision = BracketPrecision { relative: 1e-3 };

/// The pair that every `(epsilon, delta)`-private mechanism is a post-processing of (Kairouz, Oh and Viswanath 2015, Theorem 3.4).
fn losses(epsilon: f64, delta: f64) -> GivenLosses {
    let truth = (1.0 - delta) / (1.0 + (-epsilon).exp());
    GivenLosses { losses: vec![(-epsilon, 1.0 - delta - truth), (epsilon, truth)], infinite: delta }
}

fn ed(epsilon: f64, delta: f64) -> Pld {
    Pld::from_losses(&losses(epsilon, delta), None).unwrap()
}

/// Delta of the composition of `(epsilon_i, delta_i)`-private mechanisms (Murtagh and Vadhan 2016, Theorem 1.5), by all subsets.
fn optimal(parts: &[(f64, f64)], epsilon: f64) -> f64 {
    let all: f64 = parts.iter().map(|(e, _)| e).sum();
    let mut finite = 0.0;
    for subset in 0..1_u32 << parts.len() {
        let inside: f64 = (0..parts.len()).filter(|i| subset >> i & 1 == 1).map(|i| parts[i].0).sum();
        // e^inside - e^epsilon e^outside, over the product of 1 + e^epsilon_i.
        let gain = -(epsilon + all - 2.0 * inside).min(0.0).exp_m1();
        let weight: f64 = parts.iter().map(|(e, _)| (1.0 + e.exp()).ln()).sum();
        finite += gain * (inside - weight).exp();
    }
    let kept: f64 = parts.iter().map(|(_, d)| 1.0 - d).product();
    1.0 - kept * (1.0 - finite)
}

fn composed(parts: &[(f64, f64)]) -> Pld {
    parts.iter().fold(Pld::identity(), |pld, &(e, d)| pld.compose(&ed(e, d)))
}

/// Fails unless the bracket holds the figure, up to the rounding of the figure itself, and is narrow.
fn assert_exact(bracket: Bracket, figure: f64, what: &str) {
    // A few hundred additions of numbers below 1.
    let error = 1e-13;
    assert!(
        bracket.lower.unwrap() <= figure + error && figure - error <= bracket.upper,
        "{what}: {bracket:?} for {figure}"
    );
    assert!(bracket.width() <= 1e-11, "{what}: {bracket:?} for {figure}");
}

#[test]
fn pure_mechanisms_are_answered_at_their_edge() {
    let pld = ed(1.0, 0.0).compose(&ed(2.0, 0.0));
    assert_eq!(pld.delta(3.0, PRECISION).unwrap(), Bracket::exact(0.0));
    let bracket = pld.epsilon(1e-6, PRECISION).unwrap();
    assert!(optimal(&[(1.0, 0.0), (2.0, 0.0)], bracket.upper) <= 1e-6 * (1.0 + 1e-9));
    assert!(optimal(&[(1.0, 0.0), (2.0, 0.0)], bracket.lower.unwrap()) >= 1e-6 * (1.0 - 1e-9));
    let error = pld.trade_off(&[0.1], PRECISION).unwrap()[0];
    assert!((0.0..=0.9).contains(&error), "{error}");
    let twice = ed(1.0, 0.0).self_compose(2);
    assert!((twice.epsilon(1e-5, PRECISION).unwrap().upper - 2.0).abs() < 1e-4);
    let laplace = Pld::laplace(1.0).unwrap().self_compose(3);
    assert_eq!(laplace.delta(3.0, PRECISION).unwrap(), Bracket::exact(0.0));
    let bracket = laplace.epsilon(1e-9, PRECISION).unwrap();
    // All three at the end: mass 1/8, so that delta(3 - x) is at least (1 - e^-x) / 8.
    assert!(
        bracket.upper <= 3.0 && bracket.upper >= 3.0 - 8.1e-9 && bracket.lower.unwrap() >= 2.99,
        "{bracket:?}"
    );
    let sampled = Pld::laplace(2.0).unwrap().subsample_poisson(0.2).unwrap().self_compose(3);
    let bracket = sampled.epsilon(1e-14, PRECISION).unwrap();
    let top = 3.0 * (0.8 + 0.2 * 2.0_f64.exp()).ln();
    assert!(
        (bracket.upper - top).abs() <= 1e-9 && bracket.lower.unwrap() >= 0.999 * top,
        "{bracket:?} for {top}"
    );
}

#[test]
fn infinite_losses_are_composed() {
    let parts = [(1.0, 0.1), (2.0, 0.2)];
    let pld = composed(&parts);
    assert_exact(pld.delta(2.9, PRECISION).unwrap(), optimal(&parts, 2.9), "two parts");
    let bracket = pld.epsilon(0.3, PRECISION).unwrap();
    assert!(
        optimal(&parts, bracket.lower.unwrap()) + 1e-9 >= 0.3 && optimal(&parts, bracket.upper) - 1e-9 <= 0.3,
        "{bracket:?}"
    );
    // Beside a Gaussian, on lattices: three deltas of a tenth leave 0.271 whatever the epsilon.
    let mixed = ed(0.5, 0.1).self_compose(3).compose(&Pld::gaussian(1.0, 4.0).unwrap());
    let bracket = mixed.delta(30.0, PRECISION).unwrap();
    assert!(
        bracket.lower.unwrap() <= 0.271 + 1e-12 && bracket.upper >= 0.271 - 1e-12 && bracket.width() < 1e-9,
        "{bracket:?}"
    );
    assert!(matches!(mixed.epsilon(0.27, PRECISION), Err(AccountingError::EpsilonTooLarge { .. })));
    assert!(mixed.epsilon(0.28, PRECISION).unwrap().upper < 30.0);
    let nothing = Pld::from_losses(&GivenLosses { losses: vec![], infinite: 1.0 }, None).unwrap();
    for pld in [nothing.clone(), nothing.compose(&Pld::gaussian(1.0, 1.0).unwrap())] {
        assert_eq!(pld.delta(1.0, PRECISION).unwrap(), Bracket::exact(1.0));
        assert!(matches!(pld.epsilon(0.9, PRECISION), Err(AccountingError::EpsilonTooLarge { .. })));
    }
}

#[test]
fn many_equal_mechanisms_match_the_closed_form() {
    // Kairouz, Oh and Viswanath 2015, Theorem 3.3: at (k - 2 i) e, delta is 1 - (1 - d)^k (1 - d_i),
    // d_i = sum_{l < i} C(k, l) (e^{(k - l) e} - e^{(k - 2 i + l) e}) / (1 + e^e)^k.
    for (e, d, k) in [(0.1, 0.0, 10), (0.5, 1e-6, 40), (0.02, 1e-3, 100), (1.0, 0.0, 200)] {
        let pld = ed(e, d).self_compose(k);
        for i in [0, 1, k / 8, k / 2] {
            let (kf, fi) = (k as f64, i as f64);
            let mut log_binomial = 0.0;
            let mut finite = 0.0;
            for l in 0..i {
                let lf = l as f64;
                let scale = log_binomial - kf * (1.0 + e.exp()).ln();
                finite += (scale + (kf - lf) * e).exp() * -((2.0 * lf - 2.0 * fi) * e).exp_m1();
                log_binomial += ((kf - lf) / (lf + 1.0)).ln();
            }
            let figure = 1.0 - (1.0 - d).powi(k as i32) * (1.0 - finite);
            let bracket = pld.delta((kf - 2.0 * fi) * e, PRECISION).unwrap();
            // Logarithms of binomials lose three digits; on lattices, a bracket is as narrow as asked.
            assert!(
                bracket.lower.unwrap() <= figure * (1.0 + 1e-10) + 1e-13,
                "{e} {d} {k} {i}: {bracket:?} for {figure}"
            );
            assert!(
                bracket.upper >= figure * (1.0 - 1e-10) - 1e-13,
                "{e} {d} {k} {i}: {bracket:?} for {figure}"
            );
        }
    }
}

#[test]
fn finite_distributions_are_enumerated() {
    for row in rows(include_str!("goldens/finite.csv")) {
        let pld = row["steps"].split('|').fold(Pld::identity(), |pld, step| {
            let mut given = GivenLosses::default();
            for atom in step.split(';') {
                let (loss, mass) = atom.split_once(':').unwrap();
                match loss {
                    "inf" => given.infinite = mass.parse().unwrap(),
                    _ => given.losses.push((loss.parse().unwrap(), mass.parse().unwrap())),
                }
            }
            pld.compose(&Pld::from_losses(&given, None).unwrap())
        });
        let (epsilon, figure) = (number(&row, "epsilon"), number(&row, "delta"));
        assert_exact(pld.delta(epsilon, PRECISION).unwrap(), figure, row["steps"]);
    }
}

#[test]
fn laplace_mechanisms_are_answered_near_their_edge() {
    for row in rows(include_str!("goldens/laplace_edge.csv")) {
        let pld = row["steps"].split(';').fold(Pld::identity(), |pld, step| {
            let (epsilon, rate) = step.split_once(':').unwrap();
            let step = Pld::laplace(epsilon.parse().unwrap()).unwrap();
            pld.compose(&step.subsample_poisson(rate.parse().unwrap()).unwrap())
        });
        let (epsilon, figure) = (number(&row, "epsilon"), number(&row, "delta"));
        let bracket = pld.delta(epsilon, PRECISION).unwrap();
        // The figure has 18 digits; the epsilon that it belongs to is that of the test.
        assert!(
            bracket.lower.unwrap() <= figure * (1.0 + 1e-12) && figure * (1.0 - 1e-12) <= bracket.upper,
            "{row:?}: {bracket:?}"
        );
        // A thousandth of epsilon is worth this much of delta: the curve is steepest at its end.
        let shifted = pld.delta(epsilon * (1.0 - 2e-3), PRECISION).unwrap();
        assert!(bracket.upper <= shifted.upper, "{row:?}: {bracket:?}");
        // And back: the epsilon of that delta.
        if figure >= 1e-15 {
            let back = pld.epsilon(figure, PRECISION).unwrap();
            let error = 1e-9;
            assert!(
                back.lower.unwrap() <= epsilon + error && epsilon - error <= back.upper,
                "{row:?}: {back:?}"
            );
            assert!(back.width() <= 1e-3 * back.upper, "{row:?}: {back:?}");
        }
    }
}

#[test]
fn sampling_keeps_what_is_exact() {
    // Randomised response on a sample of a fifth: by hand, (1-q) Q + q P has odds of 0.8 + 0.2 e^+-1.
    let truth = 1.0 / (1.0 + (-1.0_f64).exp());
    let sampled = ed(1.0, 0.0).subsample_poisson(0.2).unwrap();
    let at = 0.05_f64;
    let removed = 0.2 * truth + 0.8 * (1.0 - truth) - at.exp() * (1.0 - truth);
    let added = truth - at.exp() * (0.2 * (1.0 - truth) + 0.8 * truth);
    assert_exact(sampled.delta(at, PRECISION).unwrap(), removed.max(added), "one");
    // Twice, all four outcomes of both directions.
    let outcomes = |p: f64| [p, 1.0 - p];
    let (p, q) = (outcomes(0.2 * truth + 0.8 * (1.0 - truth)), outcomes(1.0 - truth));
    let twice = |p: [f64; 2], q: [f64; 2]| -> f64 {
        (0..4).map(|i| (p[i & 1] * p[i >> 1] - at.exp() * q[i & 1] * q[i >> 1]).max(0.0)).sum()
    };
    let figure = twice(p, q).max(twice(q, p));
    assert_exact(sampled.self_compose(2).delta(at, PRECISION).unwrap(), figure, "two");
    // Mass that only one data set can give: adding a record shows what only Q has, removing one what only P has.
    let only = GivenLosses { losses: vec![(0.0, 0.75)], infinite: 0.25 };
    let sampled = Pld::from_losses(&only, None).unwrap().subsample_poisson(0.5).unwrap();
    assert_exact(sampled.delta(10.0, PRECISION).unwrap(), 0.125, "removed");
    assert_exact(sampled.delta(0.1, PRECISION).unwrap(), (0.25 - 0.1_f64.exp() * 0.125).max(0.125), "added");
}

#[test]
fn any_delta_below_one_is_answered() {
    let gaussian = Pld::poisson_gaussian(0.5, 0.3).unwrap().self_compose(20);
    let mut last = f64::INFINITY;
    for delta in [0.5, 0.6, 0.75, 0.9, 0.99, 0.999] {
        let bracket = gaussian.epsilon(delta, PRECISION).unwrap();
        assert!(
            bracket.lower.unwrap() <= last && bracket.lower.unwrap() <= bracket.upper,
            "{delta}: {bracket:?}"
        );
        assert!(gaussian.delta(bracket.upper, PRECISION).unwrap().lower.unwrap() <= delta);
        assert!(
            gaussian.delta(bracket.lower.unwrap(), PRECISION).unwrap().upper >= delta * (1.0 - 1e-9),
            "{delta} {bracket:?}"
        );
        last = bracket.upper;
    }
    for delta in [1.0, -0.1, f64::NAN, 1e-16] {
        let error = gaussian.epsilon(delta, PRECISION).unwrap_err();
        assert!(matches!(error, AccountingError::OutOfRange { name: "delta", .. }), "{error}");
    }
}

#[test]
fn delta_zero_is_answered_where_losses_end() {
    let holds = |pld: &Pld, figure: f64| {
        let bracket = pld.epsilon(0.0, PRECISION).unwrap();
        // A few dozen roundings.
        assert!(
            bracket.lower.unwrap() <= figure * (1.0 + 1e-15) && figure * (1.0 - 1e-15) <= bracket.upper,
            "{bracket:?} {figure}"
        );
        assert!(bracket.width() <= 1e-13 * figure, "{bracket:?}");
    };
    assert_eq!(Pld::identity().epsilon(0.0, PRECISION).unwrap(), Bracket::exact(0.0));
    holds(&Pld::laplace(0.25).unwrap().self_compose(12), 3.0);
    holds(&ed(1.0, 0.0).compose(&ed(2.0, 0.0)), 3.0);
    holds(&Pld::laplace(2.0).unwrap().subsample_poisson(0.2).unwrap(), (0.8 + 0.2 * 2.0_f64.exp()).ln());
    // Composed first and sampled then: the end is that of the sum.
    let product = Pld::laplace(1.0).unwrap().self_compose(2).subsample_poisson(0.2).unwrap();
    holds(&product, (0.8 + 0.2 * 2.0_f64.exp()).ln());
    for open in [
        Pld::gaussian(1.0, 1.0).unwrap(),
        Pld::poisson_gaussian(0.1, 1.0).unwrap().self_compose(3),
        ed(1.0, 1e-9),
    ] {
        let error = open.epsilon(0.0, PRECISION).unwrap_err();
        assert!(matches!(error, AccountingError::NotPure) && error.hint().contains("delta"), "{error}");
    }
}

#[test]
fn what_no_pair_of_distributions_has_is_refused() {
    // A loss of -2 with probability 1/2 would need e^2 / 2 of the other distribution.
    let given = GivenLosses { losses: vec![(-2.0, 0.5), (2.0, 0.5)], infinite: 0.0 };
    assert!(matches!(Pld::from_losses(&given, None), Err(AccountingError::NotADistribution { .. })));
}

#[test]
fn compositions_that_are_too_long_are_refused() {
    let error = Pld::laplace(1.0).unwrap().self_compose(u64::MAX).epsilon(1e-5, PRECISION).unwrap_err();
    assert!(!error.hint().is_empty());
    assert!(matches!(error, AccountingError::OutOfRange { name: "steps", .. }), "{error}");
}

/// Mixtures by quadrature of `(P - e^eps Q)_+` over the outcomes, by the midpoint rule.
#[test]
fn mixtures_of_gaussians_match_quadrature() {
    for parts in
        [vec![(0.2, 0.0), (0.6, 1.0), (0.2, 2.0)], vec![(0.9, 0.0), (0.1, 3.0)], vec![(0.5, 0.5), (0.5, 2.5)]]
    {
        let pld = Pld::gaussian_mixture(&parts, 1.0).unwrap();
        let density = |x: f64| (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
        for epsilon in [0.0_f64, 0.3, 1.0, 2.5] {
            let (mut removed, mut added) = (0.0, 0.0);
            let step = 1e-4;
            for i in -120_000..160_000 {
                let x = (f64::from(i) + 0.5) * step;
                let p: f64 = parts.iter().map(|(weight, centre)| weight * density(x - centre)).sum();
                removed += step * (p - epsilon.exp() * density(x)).max(0.0);
                added += step * (density(x) - epsilon.exp() * p).max(0.0);
            }
            let bracket = pld.delta(epsilon, PRECISION).unwrap();
            let figure = removed.max(added);
            // The rule is good to the square of its step, and misses the kink by as much.
            assert!(
                bracket.lower.unwrap() - 1e-7 <= figure && figure <= bracket.upper + 1e-7,
                "{parts:?}: {bracket:?} {figure}"
            );
            assert!(bracket.width() <= 1e-9, "{bracket:?}");
        }
        // Composed: between the Gaussians of the least and of the largest centre, and as exact as any.
        let bracket = pld.self_compose(7).epsilon(1e-5, PRECISION).unwrap();
        let largest = parts.iter().map(|part| part.1).fold(0.0, f64::max);
        let worst = Pld::gaussian(largest, 1.0).unwrap().self_compose(7).epsilon(1e-5, PRECISION).unwrap();
        assert!(bracket.upper <= worst.upper && bracket.relative_width() <= 2e-3, "{bracket:?} {worst:?}");
    }
    // A sampled Gaussian is a mixture of two.
    let mixed = Pld::gaussian_mixture(&[(0.98, 0.0), (0.02, 1.0)], 0.9).unwrap().self_compose(1000);
    let sampled = Pld::poisson_gaussian(0.02, 0.9).unwrap().self_compose(1000);
    let (a, b) = (mixed.epsilon(1e-6, PRECISION).unwrap(), sampled.epsilon(1e-6, PRECISION).unwrap());
    assert!(
        (a.upper - b.upper).abs() <= 1e-6 * b.upper
            && (a.lower.unwrap() - b.lower.unwrap()).abs() <= 1e-6 * b.lower.unwrap(),
        "{a:?} {b:?}"
    );
}

/// `D_a = ln E_Q R^a / (a - 1)` of the Laplace mechanism by the midpoint rule over the outcomes.
#[test]
fn renyi_divergences_of_laplace_noise_match_quadrature() {
    for e in [0.01, 0.5, 3.0] {
        let orders = [1.25, 2.0, 7.5, 30.0];
        let curve = dapple_accounting::rdp::Rdp::laplace(e).unwrap().curve(&orders).unwrap();
        for (order, divergence) in orders.into_iter().zip(curve) {
            // Laplace noise of scale 1 / e at 0 and at 1: outcomes beyond 60 scales weigh e^-60.
            // The kinks at 0 and 1 lie between cells.
            let cells = if e < 0.1 { 1_000 } else { 10_000 };
            let step = 1.0 / f64::from(cells);
            let reach = (60.0 / (e * step)) as i64;
            let moment: f64 = (-reach..reach + i64::from(cells))
                .map(|i| {
                    let x = (i as f64 + 0.5) * step;
                    0.5 * e * step * ((order - 1.0) * e * x.abs() - order * e * (x - 1.0).abs()).exp()
                })
                .sum();
            let figure = moment.ln() / (order - 1.0);
            // Up to (2 order e step)^2 / 24 of the moment for the rule, and the rounding of millions of additions.
            let error = ((2.0 * order * e * step).powi(2) / 24.0 + 1e-9) / (order - 1.0);
            assert!((divergence - figure).abs() <= error, "{e} {order}: {divergence} for {figure}");
        }
    }
}

#[test]
fn steps_under_substitution_are_the_mixtures_of_the_theorem() {
    for (rate, sigma) in [(0.01, 0.8), (0.3, 2.0), (1.0, 1.5)] {
        let at = |pld: Pld| pld.self_compose(20).epsilon(1e-6, PRECISION).unwrap();
        assert_eq!(
            at(Pld::poisson_gaussian_replace(rate, sigma).unwrap()),
            at(common::step("poisson-replace", rate, 1.0, sigma))
        );
        let fixed = at(Pld::fixed_size_gaussian(rate, sigma).unwrap());
        let figure = at(common::step("without-replacement-patch", rate, 1.0, sigma));
        // One pair by two ways.
        assert!(
            fixed.lower.unwrap() <= figure.upper && figure.lower.unwrap() <= fixed.upper,
            "{fixed:?} {figure:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn compositions_are_optimal(
        parts in prop::collection::vec((0.01..3.0_f64, prop::option::of(-9.0..-0.3_f64)), 1..7),
        share in 0.0..1.1_f64,
    ) {
        let parts: Vec<(f64, f64)> = parts.iter().map(|&(e, d)| (e, d.map_or(0.0, |d| 10f64.powf(d)))).collect();
        let top: f64 = parts.iter().map(|(e, _)| e).sum();
        let pld = composed(&parts);
        let figure = optimal(&parts, share * top);
        let bracket = pld.delta(share * top, PRECISION).unwrap();
        prop_assert!(bracket.lower.unwrap() <= figure + 1e-13 && figure - 1e-13 <= bracket.upper, "{bracket:?} {figure}");
        prop_assert!(bracket.width() <= 1e-11, "{bracket:?}");
        // The same pair beside a Gaussian so weak that it tells nothing, which takes the way over lattices.
        let lattice = pld.compose(&Pld::gaussian_distance(1e-9).unwrap());
        let wide = lattice.delta(share * top, PRECISION).unwrap();
        prop_assert!(wide.upper >= figure - 1e-12 && wide.lower.unwrap() <= figure + 1e-8, "{wide:?} {figure}");
    }

    /// Every question is answered, whatever the edges do.
    #[test]
    fn laplace_products_are_answered(
        parts in prop::collection::vec((-3.0..1.5_f64, prop::option::of(-3.0..0.0_f64), 1..20_u64), 1..4),
        delta in -15.0..-0.01_f64,
    ) {
        let mut pld = Pld::identity();
        for (e, rate, count) in parts {
            let mut step = Pld::laplace(10f64.powf(e)).unwrap();
            if let Some(rate) = rate {
                step = step.subsample_poisson(10f64.powf(rate)).unwrap();
            }
            pld = pld.compose(&step.self_compose(count));
        }
        let delta = 10f64.powf(delta);
        let pure = pld.epsilon(0.0, PRECISION).unwrap();
        let bracket = pld.epsilon(delta, PRECISION).unwrap();
        prop_assert!(bracket.upper <= pure.upper && bracket.lower.unwrap() <= bracket.upper, "{bracket:?} {pure:?}");
        // A thousandth is asked for; ends of several mechanisms that share no lattice cost a few times that.
        prop_assert!(bracket.width() <= 5e-3 * bracket.upper.max(1e-3), "{bracket:?}");
        let at = pld.delta(bracket.upper, PRECISION).unwrap();
        prop_assert!(at.lower.unwrap() <= delta, "{at:?}");
    }
}
