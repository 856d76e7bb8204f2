//! Tests balanced sampling and split models against runs that are really carried out: the privacy loss of simulated outputs never exceeds
//! what is certified, and meets it where the certificate claims to be tight.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Generator, margin, spec_of};
use dapple_plan::{BracketPrecision, Plan};

const RUNS: u32 = 100_000;

fn plan(settings: &[(&str, String)]) -> Plan {
    Plan::check(&spec_of(settings)).unwrap()
}

fn balanced(steps: usize, per_record: usize, sigma: f64, delta: f64) -> Vec<(&'static str, String)> {
    vec![
        ("sampling", "balanced".to_owned()),
        ("records", "1000".to_owned()),
        ("steps", steps.to_string()),
        ("per-record", per_record.to_string()),
        ("noise-multiplier", sigma.to_string()),
        ("delta", delta.to_string()),
    ]
}

/// The mean over all subsets of `size` of the product of their values.
fn mean_over_subsets(values: &[f64], size: usize) -> f64 {
    // sums[j] is over the j-subsets of the values so far, and so is counts[j].
    let (mut sums, mut counts) = (vec![0.0; size + 1], vec![0.0; size + 1]);
    (sums[0], counts[0]) = (1.0, 1.0);
    for value in values {
        for j in (1..=size).rev() {
            sums[j] += value * sums[j - 1];
            counts[j] += counts[j - 1];
        }
    }
    sums[size] / counts[size]
}

/// A uniform subset, as booleans.
fn subset(of: usize, size: usize, generator: &mut Generator) -> Vec<bool> {
    let mut left = size;
    (0..of)
        .map(|i| {
            let chosen = generator.uniform() * ((of - i) as f64) < left as f64;
            left -= usize::from(chosen);
            chosen
        })
        .collect()
}

/// The likelihood ratio of having the record to not having it, of a run with or without it. The record's gradient is one clip norm, or
/// half of one after a large output if `halves` is set, because later steps may depend on earlier ones.
fn ratio(steps: usize, k: usize, sigma: f64, halves: bool, with: bool, generator: &mut Generator) -> f64 {
    let joined = subset(steps, k, generator);
    let mut last = 0.0;
    let ratios: Vec<f64> = joined
        .iter()
        .map(|&joins| {
            let gradient = if halves && last > 0.5 { 0.5 } else { 1.0 };
            let mean = if with && joins { gradient } else { 0.0 };
            last = mean + sigma * generator.normal();
            ((gradient * last - 0.5 * gradient * gradient) / (sigma * sigma)).exp()
        })
        .collect();
    mean_over_subsets(&ratios, k)
}

#[test]
fn appearances_cost_what_is_certified() {
    for (steps, k, sigma, epsilon, seed) in [
        (6, 1, 0.5, 0.5, 0x9E37_79B9_7F4A_7C15),
        (6, 2, 0.8, 0.5, 0xD1B5_4A32_D192_ED03),
        (12, 5, 1.5, 0.7, 0x2545_F491_4F6C_DD1D),
        (4, 3, 1.0, 1.0, 0xBF58_476D_1CE4_E5B9),
        (3, 3, 1.5, 0.5, 0x94D0_49BB_1331_11EB),
    ] {
        let plan = plan(&balanced(steps, k, sigma, 1e-5));
        let certified = plan.pld().unwrap().delta(epsilon, BracketPrecision::default()).unwrap();
        let factor = f64::exp(epsilon);
        let mut generator = Generator(seed);
        for halves in [false, true] {
            // delta = E_P (1 - a / R)_+ for removal and E_Q (1 - a R)_+ for addition, both in [0, 1].
            let mut means = [0.0; 2];
            for _ in 0..RUNS {
                let removed = ratio(steps, k, sigma, halves, true, &mut generator);
                let added = ratio(steps, k, sigma, halves, false, &mut generator);
                means[0] += (1.0 - factor / removed).max(0.0) / f64::from(RUNS);
                means[1] += (1.0 - factor * added).max(0.0) / f64::from(RUNS);
            }
            let measured = means[0].max(means[1]);
            println!("{k} of {steps}, halves {halves}: measured {measured:.4}, certified {certified:?}");
            assert!(measured - margin(RUNS) <= certified.upper, "{measured} {certified:?}");
            assert!(measured > 2.0 * margin(RUNS), "the setting tells something: {measured}");
            let tight = plan.price(BracketPrecision::default()).unwrap().allocation.unwrap().tight;
            if tight && !halves {
                assert!(measured + margin(RUNS) >= certified.lower.unwrap(), "{measured} {certified:?}");
            }
        }
    }
}

#[test]
fn substitutions_cost_no_more_than_is_certified() {
    // The strongest substitution is +C against -C in the steps that the record joins.
    for (steps, k, sigma, seed) in [(6, 1, 0.7, 0x9E37_79B9_7F4A_7C15), (8, 3, 1.5, 0xD1B5_4A32_D192_ED03)] {
        let delta = 0.05;
        let mut settings = balanced(steps, k, sigma, delta);
        settings.push(("relation", "replace".to_owned()));
        let epsilon = plan(&settings).epsilon(BracketPrecision::default()).unwrap().upper;
        let mut generator = Generator(seed);
        let mut gain_at = |epsilon: f64| {
            let mut mean = 0.0;
            for _ in 0..RUNS {
                let joined = subset(steps, k, &mut generator);
                let outputs: Vec<f64> = joined
                    .iter()
                    .map(|&joins| f64::from(u8::from(joins)) + sigma * generator.normal())
                    .collect();
                let [here, there] = [1.0, -1.0].map(|sign| {
                    let ratio = |y: &f64| ((sign * y - 0.5) / (sigma * sigma)).exp();
                    mean_over_subsets(&outputs.iter().map(ratio).collect::<Vec<f64>>(), k)
                });
                mean += (1.0 - epsilon.exp() * there / here).max(0.0) / f64::from(RUNS);
            }
            mean
        };
        let gained = gain_at(epsilon);
        assert!(gained - margin(RUNS) <= delta, "{gained}");
        // One move alone would certify too little.
        let one = plan(&balanced(steps, k, sigma, delta)).epsilon(BracketPrecision::default()).unwrap().upper;
        assert!(gain_at(one) - margin(RUNS) > delta, "{one}");
    }
}

#[test]
fn cropped_substitutions_cost_no_more_than_is_certified() {
    // In the steps that it joins, the record contributes +C against -C if the crop sees the patch, and -C if it does not.
    for (steps, k, sigma, seed) in [(6, 2, 0.5, 0x9E37_79B9_7F4A_7C15), (4, 4, 1.0, 0xD1B5_4A32_D192_ED03)] {
        let delta = 0.05;
        let mut settings = balanced(steps, k, sigma, delta);
        let pipeline = [("relation", "patch"), ("image", "10"), ("patch", "1"), ("crop", "5")];
        settings.extend(pipeline.map(|(key, value)| (key, value.to_owned())));
        // 5 of the 6 origins along each side see the pixel.
        let c = 25.0 / 36.0;
        let plan = plan(&settings);
        let mut generator = Generator(seed);
        let mut gain_at = |epsilon: f64| {
            let mut mean = 0.0;
            for _ in 0..RUNS {
                let outputs: Vec<f64> = subset(steps, k, &mut generator)
                    .iter()
                    .map(|&joins| {
                        let sign = if generator.uniform() < c { 1.0 } else { -1.0 };
                        f64::from(u8::from(joins)) * sign + sigma * generator.normal()
                    })
                    .collect();
                // The likelihood of a step that the record joins over that of one that it does not.
                let ratio = |y: f64, sign: f64| ((sign * y - 0.5) / (sigma * sigma)).exp();
                let [here, there] = [c, 0.0].map(|seen| {
                    let one = |&y: &f64| seen * ratio(y, 1.0) + (1.0 - seen) * ratio(y, -1.0);
                    mean_over_subsets(&outputs.iter().map(one).collect::<Vec<f64>>(), k)
                });
                mean += (1.0 - epsilon.exp() * there / here).max(0.0) / f64::from(RUNS);
            }
            mean
        };
        let certified = plan.epsilon(BracketPrecision::default()).unwrap().upper;
        assert!(gain_at(certified) - margin(RUNS) <= delta);
        // A third of it would be too little, because the run does reveal something.
        assert!(gain_at(certified / 3.0) - margin(RUNS) > delta, "{certified}");
    }
}

#[test]
fn hidden_submodels_cost_what_is_certified() {
    // Three submodels beside a shared part, users drawn by coins, four rounds.
    let (submodels, inside, beside, sigma, rate, epsilon) = (3, 0.9f64, 0.4f64, 0.6, 0.5, 0.5);
    let settings = [
        ("relation", "user"),
        ("records", "1000"),
        ("batch", "500"),
        ("steps", "4"),
        ("submodels", "3"),
        ("split-norm", "0.9"),
        ("nonsplit-norm", "0.4"),
        ("noise-multiplier", "0.6"),
        ("delta", "1e-5"),
    ]
    .map(|(key, value)| (key, value.to_owned()));
    let certified = plan(&settings).pld().unwrap().delta(epsilon, BracketPrecision::default()).unwrap();
    let mut generator = Generator(0x2545_F491_4F6C_DD1D);
    let mut ratio = |with: bool| -> f64 {
        (0..4)
            .map(|_| {
                let drawn = with && generator.uniform() < rate;
                let hidden = (generator.uniform() * f64::from(submodels)) as i32;
                let mut likelihood = |norm: f64, present: bool| {
                    let mean = if present { norm } else { 0.0 };
                    let output = mean + sigma * generator.normal();
                    ((norm * output - 0.5 * norm * norm) / (sigma * sigma)).exp()
                };
                let sum: f64 = (0..submodels).map(|j| likelihood(inside, drawn && j == hidden)).sum();
                1.0 - rate + rate * sum / f64::from(submodels) * likelihood(beside, drawn)
            })
            .product()
    };
    let factor = f64::exp(epsilon);
    let mut means = [0.0; 2];
    for _ in 0..RUNS {
        means[0] += (1.0 - factor / ratio(true)).max(0.0) / f64::from(RUNS);
        means[1] += (1.0 - factor * ratio(false)).max(0.0) / f64::from(RUNS);
    }
    let measured = means[0].max(means[1]);
    println!("measured {measured:.4}, certified {certified:?}");
    assert!(
        measured - margin(RUNS) <= certified.upper && certified.lower.unwrap() <= measured + margin(RUNS)
    );
    assert!(measured > 5.0 * margin(RUNS), "the setting tells something: {measured}");
}
