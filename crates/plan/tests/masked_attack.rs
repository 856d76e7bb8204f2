//! The attack of docs/masked.md: M's algorithm reveals more than M Theorem 1 claims, and no more than is certified here.
//!
//! One weight, records whose gradients are all zero but for one record. Its public gradient is `REACH`, huge and known; its
//! private gradient is +C in one data set and -C in the other. A step that drew the record shows it, so the attacker keeps those
//! steps, subtracts `REACH`, and adds up what is left: the likelihood-ratio test.

#![allow(clippy::unwrap_used)]

use dapple_plan::masked::claimed_epsilon;
use dapple_plan::spec::PublicGradient;
use dapple_plan::{Plan, PlanSpec, Precision};

/// The public gradient of the record, in clip norms.
const REACH: f64 = 1e4;
/// Runs under each data set.
const RUNS: u32 = 200_000;
/// Each of the statements below is wrong with at most this probability, over the generator's seeds.
const ALPHA: f64 = 1e-6;

/// Marsaglia's xorshift64*, so that every run of the test is the same run.
struct Generator(u64);

impl Generator {
    /// Uniform in (0, 1).
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        (bits as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Box and Muller's.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

fn plan(mode: PublicGradient) -> Plan {
    let mut spec = PlanSpec::default();
    for (key, value) in [
        ("relation", "masked"),
        ("batch", "20"),
        ("records", "1000"),
        ("steps", "30"),
        ("noise-multiplier", "1"),
        ("delta", "1e-5"),
        ("public-gradient", mode.name()),
    ] {
        spec.set(key, value).unwrap();
    }
    Plan::check(&spec).unwrap()
}

/// The attacker's log-likelihood ratio for one run of M Algorithm 1 with the private gradient `sign` clip norms.
fn loss(plan: &Plan, sign: f64, generator: &mut Generator) -> f64 {
    let sigma = plan.noise_multiplier();
    let mut loss = 0.0;
    for _ in 0..plan.steps() {
        let drawn = generator.uniform() < plan.sample_rate();
        let sum = if drawn { REACH + sign } else { 0.0 } + sigma * generator.normal();
        if sum > 0.5 * REACH {
            loss += 2.0 * (sum - REACH) / (sigma * sigma);
        }
    }
    loss
}

/// How often the attacker says "+C": the share of runs with a loss above `threshold`, under both data sets.
fn shares(plan: &Plan, threshold: f64, seed: u64) -> (f64, f64) {
    let mut generator = Generator(seed);
    let mut share = |sign| {
        let hits = (0..RUNS).filter(|_| loss(plan, sign, &mut generator) > threshold).count();
        hits as f64 / f64::from(RUNS)
    };
    (share(1.0), share(-1.0))
}

#[test]
fn the_attack_beats_the_claim_and_not_the_certificate() {
    let coupled = plan(PublicGradient::Coupled);
    let claimed = claimed_epsilon(&coupled);
    let (right, wrong) = shares(&coupled, claimed, 0x9E37_79B9_7F4A_7C15);
    // Hoeffding's inequality for each share, with half of ALPHA each.
    let margin = ((2.0 / ALPHA).ln() / (2.0 * f64::from(RUNS))).sqrt();
    let advantage = right - claimed.exp() * wrong;
    let at_least = (right - margin) - claimed.exp() * (wrong + margin);
    let certified = coupled.pld().unwrap().delta(claimed, Precision::default()).unwrap();
    println!(
        "claimed epsilon {claimed:.4}: measured {advantage:.4}, at least {at_least:.4}, certified {certified:?}"
    );
    // A private run would keep the advantage at this epsilon below delta = 1e-5.
    assert!(at_least > 1000.0 * coupled.delta(), "{at_least}");
    assert!(at_least <= certified.upper, "{at_least} {certified:?}");
    // The test is the most powerful one, so what it measures is what is certified, up to the margins.
    let at_most = (right + margin) - claimed.exp() * (wrong - margin);
    assert!(at_most >= certified.lower, "{at_most} {certified:?}");

    // The honest epsilon holds against the same attack.
    let honest = coupled.epsilon(Precision::default()).unwrap().upper;
    let (right, wrong) = shares(&coupled, honest, 0xD1B5_4A32_D192_ED03);
    assert!((right - margin) - honest.exp() * (wrong + margin) <= coupled.delta());
}

#[test]
fn an_independent_public_batch_stops_the_attack() {
    // Without the public gradient of the drawn record the steps look alike; the best statistic is the sum over all steps' losses of the
    // mixtures (1-g) N(0) + g N(+-1), and it stays below what is certified for decoupled gradients.
    let decoupled = plan(PublicGradient::Decoupled);
    let (g, sigma) = (decoupled.sample_rate(), decoupled.noise_multiplier());
    let threshold = claimed_epsilon(&decoupled);
    let mut generator = Generator(0x2545_F491_4F6C_DD1D);
    let mut share = |sign: f64| {
        let hits = (0..RUNS).filter(|_| {
            let loss: f64 = (0..decoupled.steps())
                .map(|_| {
                    let drawn = generator.uniform() < g;
                    let sum = if drawn { sign } else { 0.0 } + sigma * generator.normal();
                    let odds = |mean: f64| 1.0 - g + g * ((mean * sum - 0.5) / (sigma * sigma)).exp();
                    (odds(1.0) / odds(-1.0)).ln()
                })
                .sum();
            loss > threshold
        });
        hits.count() as f64 / f64::from(RUNS)
    };
    let (right, wrong) = (share(1.0), share(-1.0));
    let margin = ((2.0 / ALPHA).ln() / (2.0 * f64::from(RUNS))).sqrt();
    let at_least = (right - margin) - threshold.exp() * (wrong + margin);
    let certified = decoupled.pld().unwrap().delta(threshold, Precision::default()).unwrap().upper;
    assert!(at_least <= certified, "{at_least} {certified}");
    assert!(
        certified
            < 0.05
                * plan(PublicGradient::Coupled)
                    .pld()
                    .unwrap()
                    .delta(threshold, Precision::default())
                    .unwrap()
                    .upper
    );
}
