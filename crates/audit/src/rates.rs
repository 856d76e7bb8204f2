//! Turns how often an attack says "heads" into a lower bound on epsilon.

use serde::Serialize;

use crate::binomial;

/// Thresholds of the evidence, as shares of the certified epsilon.
const THRESHOLDS: [f64; 7] = [1.0, 0.75, 0.5, 0.35, 0.2, 0.1, 0.05];

/// How canaries depend on each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependence {
    /// Canaries are independent.
    Independent,
    /// Canaries are negatively associated (Joag-Dev and Proschan 1983): what happens to one makes it less likely for the others. This
    /// holds for records of which a step draws a fixed number, and for whatever grows with a record's own draws.
    NegativelyAssociated,
    /// Canaries may depend on each other in any way, so that how often something happens to them bounds no probability.
    Unknown,
}

/// How often an event happened to canaries of either coin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rates {
    /// Canaries of the kind that the event is meant for.
    pub meant: u64,
    /// How many of them it happened to.
    pub meant_seen: u64,
    /// Canaries of the other kind.
    pub other: u64,
    /// How many of those it happened to.
    pub other_seen: u64,
}

impl Rates {
    /// The largest epsilon that these counts refute: `P(event | meant) <= e^epsilon P(event | other) + delta` fails for it, with the
    /// first probability at the lower end of its interval and the second at the upper end. The intervals are those of Clopper and Pearson
    /// 1934 for independent canaries, and of Hoeffding 1963 for negatively associated ones, for which his inequality holds too (Dubhashi
    /// and Ranjan 1998).
    ///
    /// # Guarantee
    /// The bound is above the true epsilon with probability at most `1 - confidence`, if the event was fixed before these canaries were
    /// counted, has the same probability for all canaries of a kind, and canaries depend on each other no more than `dependence` says.
    #[must_use]
    pub fn lower_bound(&self, delta: f64, confidence: f64, dependence: Dependence) -> f64 {
        let error = 0.5 * (1.0 - confidence);
        let least = least_chance(self.meant, self.meant_seen, error, dependence) - delta;
        // The largest chance of the event is one minus the smallest chance of its opposite.
        let most = 1.0 - least_chance(self.other, self.other - self.other_seen, error, dependence);
        if least > most { (least / most).ln() } else { 0.0 }
    }
}

/// The largest chance of success at which this many successes, or more, would be less likely than `error`.
fn least_chance(trials: u64, successes: u64, error: f64, dependence: Dependence) -> f64 {
    if successes == 0 {
        return 0.0;
    }
    let share = successes as f64 / trials as f64;
    let tail = |chance: f64| match dependence {
        Dependence::Independent => binomial::at_least(trials, successes, (chance / (1.0 - chance)).ln()),
        Dependence::NegativelyAssociated => (-(trials as f64) * divergence(share, chance)).exp(),
        Dependence::Unknown => 1.0,
    };
    // Above the share itself the inequality says nothing.
    let (mut low, mut high) = (0.0, share);
    // After this many halvings the ends are as near as double precision allows.
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if tail(middle) < error { low = middle } else { high = middle }
    }
    low
}

/// Counts the events "the evidence for heads is at least t", and the same for tails, for thresholds that depend on the plan alone. Where
/// the evidence is the logarithm of a ratio of likelihoods, the event for `t = epsilon` refutes epsilon best, but at a small delta it is
/// too rare to be seen.
pub(crate) fn counted(evidence: &[f64], coins: &[bool], certified: f64) -> Vec<Rates> {
    let of = |heads: bool, threshold: f64| {
        let count = |kind: bool, least: f64| {
            let seen = |(value, coin): &(&f64, &bool)| **coin == kind && towards(heads, **value) >= least;
            evidence.iter().zip(coins).filter(seen).count() as u64
        };
        Rates {
            meant: count(heads, f64::NEG_INFINITY),
            meant_seen: count(heads, threshold),
            other: count(!heads, f64::NEG_INFINITY),
            other_seen: count(!heads, threshold),
        }
    };
    THRESHOLDS.iter().flat_map(|share| [true, false].map(|heads| of(heads, share * certified))).collect()
}

/// The Kullback-Leibler divergence of a coin of chance `p` from one of chance `q`: `p ln(p / q) + (1 - p) ln((1 - p) / (1 - q))`.
fn divergence(p: f64, q: f64) -> f64 {
    let part = |p: f64, q: f64| if p == 0.0 { 0.0 } else { p * (p / q).ln() };
    part(p, q) + part(1.0 - p, 1.0 - q)
}

/// Evidence for the given side of the coin.
fn towards(heads: bool, evidence: f64) -> f64 {
    if heads { evidence } else { -evidence }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with scipy.stats.beta: ppf(a, k, n - k + 1) is the lower end of Clopper and Pearson's interval.
    #[test]
    fn chances_agree_with_scipy() {
        for (trials, successes, error, want) in SCIPY {
            let got = least_chance(trials, successes, error, Dependence::Independent);
            assert!((got - want).abs() < 1e-10, "{got} {want}");
        }
        assert_eq!(least_chance(10, 0, 0.05, Dependence::Independent), 0.0);
        assert_eq!(least_chance(10, 10, 0.05, Dependence::Unknown), 0.0);
    }

    /// Hoeffding's interval holds for independent canaries too, and is wider than the exact one.
    #[test]
    fn dependence_costs() {
        for (trials, successes, error, exact) in SCIPY {
            let wider = least_chance(trials, successes, error, Dependence::NegativelyAssociated);
            assert!(wider <= exact && wider > 0.25 * exact, "{wider} {exact}");
            // At the end of the interval the bound equals the error, up to the spacing of numbers times a slope of at most a thousand
            // trials.
            let share = successes as f64 / trials as f64;
            assert!(((-(trials as f64) * divergence(share, wider)).exp() / error - 1.0).abs() < 1e-9);
        }
    }

    /// If the event happens to all of one kind and none of the other, the ratio is `(error^(1/n) - delta) / (1 - error^(1/n))`.
    #[test]
    fn a_perfect_attack_is_bounded_by_its_trials() {
        let rates = Rates { meant: 500, meant_seen: 500, other: 500, other_seen: 0 };
        let end = 0.025f64.powf(1.0 / 500.0);
        let want = ((end - 1e-5) / (1.0 - end)).ln();
        assert!((rates.lower_bound(1e-5, 0.95, Dependence::Independent) - want).abs() < 1e-9);
        let none = Rates { meant_seen: 250, other_seen: 250, ..rates };
        assert_eq!(none.lower_bound(1e-5, 0.95, Dependence::Independent), 0.0);
    }

    const SCIPY: [(u64, u64, f64, f64); 5] = [
        (100, 1, 0.025, 0.00025314603297742064),
        (100, 50, 0.025, 0.39832112950330095),
        (1000, 990, 0.005, 0.9787239412463835),
        (500, 500, 0.025, 0.9926493899480923),
        (2500, 17, 0.0125, 0.003653700947902742),
    ];
}
