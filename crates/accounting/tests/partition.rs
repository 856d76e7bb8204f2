//! Split models and allocated records against direct integration, Monte Carlo, and the cases that need no theory.

#![allow(clippy::unwrap_used, reason = "a test")]

use dapple_accounting::partition::rdp::{Bound, PartitionRdp};
use dapple_accounting::rdp::Conversion;
use dapple_accounting::{AllocationBound, Bracket, BracketPrecision, Partition, Pld, RandomAllocation};

const PRECISE: BracketPrecision = BracketPrecision { relative: 1e-3 };

/// Fails unless two brackets of the same quantity overlap.
fn assert_overlap(a: Bracket, b: Bracket, what: &str) {
    assert!(
        a.lower.unwrap() <= b.upper && b.lower.unwrap() <= a.upper,
        "{what}: {a:?} and {b:?} exclude each other"
    );
}

/// The upper tail of the standard normal law.
fn tail(x: f64) -> f64 {
    0.5 * libm::erfc(x * std::f64::consts::FRAC_1_SQRT_2)
}

/// `E_Q g(t)` for a standard normal `t`, by the trapezoid rule, whose error falls exponentially for smooth integrands.
fn expect(points: usize, g: impl Fn(f64) -> f64) -> f64 {
    let step = 21.0 / points as f64;
    let total: f64 = (0..=points)
        .map(|i| {
            let t = -10.5 + step * i as f64;
            (-0.5 * t * t).exp() * g(t)
        })
        .sum();
    total * step / std::f64::consts::TAU.sqrt()
}

/// `E_Q (X + rest - d a)_+ / d` and `E_Q (1 - a (X + rest) / d)_+` over one log-normal `X = e^{mu Z - mu^2 / 2}`, in closed form.
fn over_one(mu: f64, d: f64, a: f64, rest: f64) -> [f64; 2] {
    let call_strike = d * a - rest;
    let call = if call_strike <= 0.0 {
        1.0 - call_strike
    } else {
        let z = call_strike.ln() / mu + 0.5 * mu;
        tail(z - mu) - call_strike * tail(z)
    };
    let put_strike = d / a - rest;
    let put = if put_strike <= 0.0 {
        0.0
    } else {
        let z = put_strike.ln() / mu + 0.5 * mu;
        put_strike * tail(-z) - tail(-(z - mu))
    };
    [call / d, put * a / d]
}

/// Delta of the split pair: the larger direction, integrated over all log-normals but one.
fn integrated(d: u32, sigma: f64, epsilon: f64) -> f64 {
    let (mu, a) = (1.0 / sigma, epsilon.exp());
    let value = |t: f64| (mu * t - 0.5 * mu * mu).exp();
    let directions = [0, 1].map(|direction| match d {
        2 => expect(4000, |t| over_one(mu, 2.0, a, value(t))[direction]),
        _ => expect(800, |t| expect(800, |u| over_one(mu, 3.0, a, value(t) + value(u))[direction])),
    });
    directions[0].max(directions[1])
}

#[test]
fn two_and_three_submodels_match_integration() {
    for (d, sigmas) in [(2, &[0.5, 1.0, 3.0][..]), (3, &[1.0, 2.0])] {
        for &sigma in sigmas {
            let pld = Pld::split(d.into(), sigma).unwrap();
            for epsilon in [0.0, 0.3, 1.0, 2.5] {
                let exact = integrated(d, sigma, epsilon);
                let bracket = pld.delta(epsilon, PRECISE).unwrap();
                // Near a strike of 0 the integrand bends within a few hundredths of a deviation: with 800 points the
                // trapezoid rule is good to 1e-7.
                let error = 1e-7 * exact + 1e-14;
                assert!(
                    bracket.lower.unwrap() <= exact + error && bracket.upper >= exact - error,
                    "d {d}, sigma {sigma}, epsilon {epsilon}: {bracket:?} without {exact}"
                );
                assert!(bracket.upper <= 1.01 * exact + 1e-12, "{bracket:?} is not near {exact}");
            }
        }
    }
}

/// A small generator (xorshift64*) with normal deviates by Box and Muller: deterministic, and enough for a mean.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        (bits as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// Half-width of a confidence interval at error rate 1e-6 for the mean of `n` values in [0, 1] (Hoeffding, two-sided).
fn hoeffding(n: u32) -> f64 {
    ((2.0_f64 / 1e-6).ln() / (2.0 * f64::from(n))).sqrt()
}

const SAMPLES: u32 = 100_000;

/// Delta of the larger direction, `E_P (1 - a / R)_+` or `E_Q (1 - a R)_+`, from samples of the ratio under `P` (true) and `Q`. Both are means of
/// values in [0, 1].
fn estimated(epsilon: f64, mut ratio: impl FnMut(bool) -> f64) -> f64 {
    let a = epsilon.exp();
    let mut means = [0.0; 2];
    for _ in 0..SAMPLES {
        means[0] += (1.0 - a / ratio(true)).max(0.0);
        means[1] += (1.0 - a * ratio(false)).max(0.0);
    }
    means[0].max(means[1]) / f64::from(SAMPLES)
}

#[test]
fn monte_carlo_lies_in_the_bracket() {
    for (d, sigma, epsilon) in [(16_u32, 0.5, 0.5), (16, 1.0, 0.1), (50, 0.7, 0.2)] {
        let mu: f64 = 1.0 / sigma;
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let ratio = |random: &mut Random, shifted: bool| {
            let sum: f64 = (0..d)
                .map(|j| {
                    let shift = if shifted && j == 0 { mu } else { 0.0 };
                    (mu * (random.normal() + shift) - 0.5 * mu * mu).exp()
                })
                .sum();
            sum / f64::from(d)
        };
        let larger = estimated(epsilon, |shifted| ratio(&mut random, shifted));
        let bracket = Pld::split(d.into(), sigma).unwrap().delta(epsilon, PRECISE).unwrap();
        let error = hoeffding(SAMPLES);
        assert!(
            bracket.upper >= larger - error && bracket.lower.unwrap() <= larger + error,
            "d {d}, sigma {sigma}: {bracket:?} against {larger} +- {error}"
        );
        assert!(bracket.upper > 5.0 * error, "the setting tells something: {bracket:?}");
    }
}

#[test]
fn monte_carlo_of_a_sampled_composition_lies_in_the_bracket() {
    let (d, sigma, rate, steps, epsilon) = (4_u32, 0.6, 0.3, 5, 0.5);
    let mu: f64 = 1.0 / sigma;
    let mut random = Random(0xD1B5_4A32_D192_ED03);
    let mut mean = 0.0;
    for _ in 0..SAMPLES {
        let mut loss = 0.0;
        for _ in 0..steps {
            let present = random.uniform() < rate;
            let sum: f64 = (0..d)
                .map(|j| {
                    let shift = if present && j == 0 { mu } else { 0.0 };
                    (mu * (random.normal() + shift) - 0.5 * mu * mu).exp()
                })
                .sum();
            loss += (1.0 - rate + rate * sum / f64::from(d)).ln();
        }
        mean += (1.0 - (epsilon - loss).exp()).max(0.0);
    }
    let removal = mean / f64::from(SAMPLES);
    let pld = Pld::split(d.into(), sigma).unwrap().subsample_poisson(rate).unwrap().self_compose(steps);
    let bracket = pld.delta(epsilon, PRECISE).unwrap();
    let error = hoeffding(SAMPLES);
    // The bracket is of the larger direction, which is at least this one.
    assert!(bracket.upper >= removal - error, "{bracket:?} against {removal} +- {error}");
    assert!(
        bracket.lower.unwrap() <= removal + error,
        "removal is the larger direction: {bracket:?}, {removal}"
    );
}

/// A model of four parameters that a record sees through one of two overlapping partitions, or whole: the mechanism itself, not its
/// dominating pair.
#[test]
fn monte_carlo_of_a_mixture_of_partitions_stays_below_the_bound() {
    let half = std::f64::consts::FRAC_1_SQRT_2;
    // Gradients of norm 1 on the parameters of each submodel, with the probabilities of drawing them.
    let submodels: [(f64, [f64; 4]); 5] = [
        (0.2, [half, half, 0.0, 0.0]),
        (0.2, [0.0, 0.0, half, half]),
        (0.2, [half, 0.0, half, 0.0]),
        (0.2, [0.0, half, 0.0, half]),
        (0.2, [0.5; 4]),
    ];
    let partitions =
        [(0.4, 2), (0.4, 2), (0.2, 1)].map(|(probability, submodels)| Partition { probability, submodels });
    for (sigma, epsilon) in [(0.5, 0.5), (1.0, 0.3)] {
        let mu = 1.0 / sigma;
        let mut random = Random(0xE703_7ED1_A0B4_28DB);
        let ratio = |random: &mut Random, present: bool| {
            let mut drawn = random.uniform();
            let centre = submodels.iter().find(|(p, _)| {
                drawn -= p;
                drawn < 0.0
            });
            let shift = if present { centre.map_or([0.0; 4], |(_, g)| *g) } else { [0.0; 4] };
            let noisy = shift.map(|g| mu * g + random.normal());
            let part = |g: &[f64; 4]| -> f64 {
                let product: f64 = g.iter().zip(&noisy).map(|(g, y)| g * y).sum();
                (mu * product - 0.5 * mu * mu).exp()
            };
            submodels.iter().map(|(p, g)| p * part(g)).sum::<f64>()
        };
        let larger = estimated(epsilon, |shifted| ratio(&mut random, shifted));
        let bound =
            Pld::split_mixture(&partitions, 1.0, 0.0, sigma).unwrap().delta(epsilon, PRECISE).unwrap();
        let error = hoeffding(SAMPLES);
        assert!(bound.upper >= larger - error, "sigma {sigma}: {bound:?} below {larger} - {error}");
    }
}

#[test]
fn mixtures_lie_between_their_partitions() {
    let (sigma, delta) = (1.2, 1e-5);
    let epsilon = |pld: &Pld| pld.epsilon(delta, PRECISE).unwrap();
    let mixture = |parts: &[(f64, u64)], nonsplit: f64| {
        let parts: Vec<Partition> =
            parts.iter().map(|&(probability, submodels)| Partition { probability, submodels }).collect();
        Pld::split_mixture(&parts, 0.8, nonsplit, sigma).unwrap()
    };
    for nonsplit in [0.0, 0.6] {
        let [few, many] = [2, 8].map(|d| epsilon(&Pld::partial_split(d, 0.8, nonsplit, sigma).unwrap()));
        // Equally many submodels: one partition.
        assert_eq!(epsilon(&mixture(&[(0.4, 2), (0.6, 2), (0.0, 1)], nonsplit)), few);
        let both = mixture(&[(0.3, 2), (0.7, 8)], nonsplit);
        assert!(many.upper < epsilon(&both).lower.unwrap() && epsilon(&both).upper < few.lower.unwrap());
        assert!(epsilon(&both.subsample_poisson(0.2).unwrap()).upper < epsilon(&both).lower.unwrap());
        assert_overlap(epsilon(&both.subsample_poisson(1.0).unwrap()), epsilon(&both), "q = 1");
        // Delta of a mixture is the mean of its parts' deltas, direction by direction; removal is the larger one here.
        let deltas = [both, mixture(&[(1.0, 2)], nonsplit), mixture(&[(1.0, 8)], nonsplit)]
            .map(|pld| pld.delta(1.0, PRECISE).unwrap());
        let mean = Bracket::between(
            0.3 * deltas[1].lower.unwrap() + 0.7 * deltas[2].lower.unwrap(),
            0.3 * deltas[1].upper + 0.7 * deltas[2].upper,
        );
        assert_overlap(deltas[0], mean, "mean");
        // All partitions whole: the Gaussian mechanism.
        let norm = 0.8_f64.hypot(nonsplit);
        assert_overlap(
            epsilon(&mixture(&[(1.0, 1)], nonsplit)),
            epsilon(&Pld::gaussian(norm, sigma).unwrap()),
            "whole",
        );
    }
}

/// The true pair of `k` of `T` steps: its ratio is the elementary symmetric polynomial of the log-normals over its mean.
#[test]
fn monte_carlo_of_several_appearances_stays_below_the_bounds() {
    for (steps, per_record, sigma, epsilon) in
        [(6_u32, 2_u32, 1.0, 0.5), (10, 3, 1.5, 0.3), (7, 5, 2.0, 0.4), (4, 3, 1.0, 0.5), (5, 4, 2.5, 0.2)]
    {
        let mu: f64 = 1.0 / sigma;
        let subsets: f64 = (0..per_record).map(|i| f64::from(steps - i) / f64::from(i + 1)).product();
        let mut random = Random(0xA076_1D64_78BD_642F);
        let ratio = |random: &mut Random, shifted: bool| {
            let mut polynomials = vec![0.0; per_record as usize + 1];
            polynomials[0] = 1.0;
            for j in 0..steps {
                let shift = if shifted && j < per_record { mu } else { 0.0 };
                let x = (mu * (random.normal() + shift) - 0.5 * mu * mu).exp();
                for degree in (1..polynomials.len()).rev() {
                    polynomials[degree] += x * polynomials[degree - 1];
                }
            }
            polynomials[per_record as usize] / subsets
        };
        let larger = estimated(epsilon, |shifted| ratio(&mut random, shifted));
        let error = hoeffding(SAMPLES);
        let pld = Pld::random_allocation(steps.into(), per_record.into(), sigma).unwrap();
        let bound = pld.delta(epsilon, PRECISE).unwrap();
        assert!(bound.upper >= larger - error, "{steps} {per_record}: {bound:?} below {larger} - {error}");
        if per_record + 1 == steps {
            // All but one step is exact: the bracket is of the mechanism itself.
            assert!(
                bound.lower.unwrap() <= larger + error,
                "{steps} {per_record}: {bound:?} above {larger} + {error}"
            );
        }
        // The best bound at the least delta that the sample allows must still allow this epsilon.
        let allocation = RandomAllocation::new(steps.into(), per_record.into(), sigma).unwrap();
        let best = allocation.epsilon(larger - error, PRECISE).unwrap();
        assert!(best.epsilon.upper >= epsilon, "{steps} {per_record}: {best:?} below {epsilon}");
    }
}

#[test]
fn one_place_is_the_gaussian_mechanism() {
    let gaussian = Pld::gaussian(1.0, 1.3).unwrap().epsilon(1e-6, PRECISE).unwrap();
    for pld in [Pld::split(1, 1.3).unwrap(), Pld::random_allocation(1, 1, 1.3).unwrap()] {
        assert_overlap(pld.epsilon(1e-6, PRECISE).unwrap(), gaussian, "one place");
    }
    let all = RandomAllocation::new(50, 50, 4.0).unwrap().epsilon(1e-6, PRECISE).unwrap();
    let plain = Pld::gaussian(1.0, 4.0).unwrap().self_compose(50).epsilon(1e-6, PRECISE).unwrap();
    assert_overlap(all.epsilon, plain, "k = T");
    assert_eq!(all.bound, AllocationBound::Exact);
}

#[test]
fn published_brackets_are_met() {
    // Brackets at delta 1e-5 computed with public random-allocation accountants (geometric-grid convolution).
    for (steps, per_record, sigma, lower, upper, width) in [
        (1000, 1, 1.0, 0.131, 0.148, 0.02),
        (234, 1, 0.8, 0.817, 0.835, 0.018),
        (1000, 10, 1.0, 1.690, 1.717, 0.03),
    ] {
        let answer = RandomAllocation::new(steps, per_record, sigma).unwrap().epsilon(1e-5, PRECISE).unwrap();
        assert_overlap(answer.epsilon, Bracket::between(lower, upper), "published");
        assert!(answer.epsilon.width() <= width, "{answer:?} is wide");
        let expected = if per_record == 1 { AllocationBound::Exact } else { AllocationBound::Composition };
        assert_eq!(answer.bound, expected);
    }
}

#[test]
fn the_best_bound_wins_and_is_named() {
    for (steps, per_record, sigma, delta, expected) in [
        (10, 4, 0.7, 1e-5, AllocationBound::RenyiExact),
        (10, 4, 2.0, 1e-5, AllocationBound::Composition),
        (10, 9, 2.0, 1e-5, AllocationBound::Exact),
    ] {
        let allocation = RandomAllocation::new(steps, per_record, sigma).unwrap();
        let answer = allocation.epsilon(delta, PRECISE).unwrap();
        assert_eq!(answer.bound, expected, "{answer:?}");
        let composed = allocation.pld().epsilon(delta, PRECISE).unwrap();
        assert!(answer.epsilon.upper <= composed.upper);
        for bound in [Bound::Exact, Bound::Convexity] {
            let rdp = PartitionRdp::new(steps, per_record, sigma, bound).unwrap();
            assert!(answer.epsilon.upper <= rdp.epsilon(1, delta, Conversion::Tight).unwrap().epsilon);
        }
        // Delta at that epsilon is the delta asked for, by the same bound: to the width of the bracket, where there is one.
        let (reached, bound) = allocation.delta(answer.epsilon.upper, PRECISE).unwrap();
        assert!((reached.upper / delta - 1.0).abs() < 0.02 && bound == expected, "{reached:?} {bound:?}");
    }
}

/// Blocks of unequal sizes use all steps: more steps never cost more, also where the appearances do not divide them.
#[test]
fn more_steps_hide_better() {
    let epsilon = |steps: u64, per_record: u64| {
        Pld::random_allocation(steps, per_record, 2.0).unwrap().epsilon(1e-5, PRECISE).unwrap()
    };
    for per_record in [3, 5] {
        for steps in per_record..2 * per_record + 6 {
            let (fewer, more) = (epsilon(steps, per_record), epsilon(steps + 1, per_record));
            assert!(more.lower.unwrap() <= fewer.upper, "{per_record} of {steps}: {fewer:?}, then {more:?}");
        }
        assert!(
            epsilon(3 * per_record - 1, per_record).upper
                < epsilon(2 * per_record, per_record).lower.unwrap()
        );
    }
}

#[test]
fn epochs_compose() {
    // Twice ten of fifty costs more than ten of fifty.
    let once = RandomAllocation::new(50, 10, 2.0).unwrap();
    let twice = once.clone().epochs(2).unwrap();
    assert!(
        twice.epsilon(1e-5, PRECISE).unwrap().epsilon.upper
            > once.epsilon(1e-5, PRECISE).unwrap().epsilon.upper
    );
}

#[test]
fn partial_splits_lie_between_their_parts() {
    let (sigma, delta) = (1.5, 1e-5);
    let epsilon = |pld: &Pld| pld.epsilon(delta, PRECISE).unwrap();
    let both = Pld::partial_split(4, 0.8, 0.6, sigma).unwrap();
    // The product by the law of ratios and the composition by lattices are two routes to one pair.
    let composed = Pld::split(4, sigma / 0.8).unwrap().compose(&Pld::gaussian(0.6, sigma).unwrap());
    assert_overlap(epsilon(&both), epsilon(&composed), "partial split");
    for (route, rate) in [(&both, 0.2), (&composed, 0.2)] {
        let sampled = route.subsample_poisson(rate).unwrap();
        let unsampled = epsilon(route);
        assert!(epsilon(&sampled).upper < unsampled.lower.unwrap(), "sampling amplifies");
    }
    assert_overlap(
        epsilon(&both.subsample_poisson(0.2).unwrap()),
        epsilon(&composed.subsample_poisson(0.2).unwrap()),
        "sampled partial split",
    );
    assert_overlap(epsilon(&both.subsample_poisson(1.0).unwrap()), epsilon(&both), "q = 1");
    // No worse than hiding nothing, no better than the shared part alone.
    let hidden_nothing = epsilon(&Pld::gaussian(1.0, sigma).unwrap());
    let shared_alone = epsilon(&Pld::gaussian(0.6, sigma).unwrap());
    assert!(
        epsilon(&both).upper <= hidden_nothing.upper
            && epsilon(&both).lower.unwrap() >= shared_alone.lower.unwrap()
    );
    let dropout = Pld::dropout(0.5, 0.8, 0.6, sigma).unwrap();
    assert_overlap(epsilon(&dropout), epsilon(&Pld::partial_split(2, 0.8, 0.6, sigma).unwrap()), "dropout");
}

#[test]
fn more_places_and_more_noise_hide_better() {
    let epsilon = |d, sigma| Pld::split(d, sigma).unwrap().epsilon(1e-6, PRECISE).unwrap();
    for sigma in [0.3, 1.0, 5.0] {
        for places in [1_u64, 2, 3, 7, 16].windows(2) {
            assert!(epsilon(places[1], sigma).lower.unwrap() <= epsilon(places[0], sigma).upper);
        }
    }
    assert!(epsilon(7, 2.0).upper < epsilon(7, 1.0).lower.unwrap());
}

#[test]
fn bad_questions_name_the_place() {
    for (error, name) in [
        (Pld::split(0, 1.0).unwrap_err(), "submodels"),
        (Pld::split(4, f64::NAN).unwrap_err(), "noise multiplier"),
        (Pld::random_allocation(10, 11, 1.0).unwrap_err(), "appearances per record"),
        (Pld::random_allocation(10, 0, 1.0).unwrap_err(), "appearances per record"),
        (Pld::random_allocation(0, 1, 1.0).unwrap_err(), "steps"),
        (Pld::dropout(0.3, 1.0, 1.0, 1.0).unwrap_err(), "dropout rate"),
        (Pld::partial_split(2, -1.0, 1.0, 1.0).unwrap_err(), "split norm"),
        (Pld::partial_split(2, 1.0, f64::INFINITY, 1.0).unwrap_err(), "nonsplit norm"),
        (Pld::partial_split(2, 0.0, 0.0, 1.0).unwrap_err(), "sum of the norms"),
        (RandomAllocation::new(10, 1, 1.0).unwrap().epochs(0).unwrap_err(), "epochs"),
        (
            Pld::split_mixture(&[], 1.0, 0.0, 1.0).unwrap_err(),
            "the probabilities of the partitions add up to 0",
        ),
        (
            Pld::split_mixture(&[Partition { probability: -0.5, submodels: 2 }], 1.0, 0.0, 1.0).unwrap_err(),
            "probability of a partition",
        ),
        (
            Pld::split_mixture(&[Partition { probability: 1.0, submodels: 0 }], 1.0, 0.0, 1.0).unwrap_err(),
            "submodels",
        ),
    ] {
        assert!(error.to_string().starts_with(name), "{error}");
    }
}
