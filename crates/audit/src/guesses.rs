//! Turns right guesses into a lower bound on epsilon that holds however canaries depend on each other.

use serde::Serialize;

use crate::binomial;

/// Shares of the canaries that are guessed. The clearest ones are guessed first.
const SHARES: [f64; 7] = [1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625];

/// How well an attacker guessed who was shown one run with many canaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Guesses {
    /// Canaries, each with a fair coin of its own.
    pub canaries: u64,
    /// Coins that were guessed. The attacker says nothing about the others.
    pub guessed: u64,
    /// Coins that were guessed right.
    pub right: u64,
}

impl Guesses {
    /// The largest probability that this many guesses, or more, are right, if the run is `(epsilon, delta)`-differentially private in
    /// every coin: Steinke, Nasr and Jagielski 2023, "Privacy auditing with one (1) training run", Theorem 5.2.
    ///
    /// With `q = e^epsilon / (1 + e^epsilon)` and `W` binomial with `guessed` trials of chance `q`, it is `P(W >= right) + 2 m delta max
    /// over i of P(right > W >= right - i) / i` for `m` canaries.
    ///
    /// # Guarantee
    /// This holds however the attacker guesses and whichever coins it guesses, as long as it does not know them, and for any dependence
    /// between canaries within the run.
    #[must_use]
    pub fn chance(&self, epsilon: f64, delta: f64) -> f64 {
        let Self { canaries, guessed, right } = *self;
        let (mut below, mut steepest) = (0.0, 0.0f64);
        for i in 1..=right {
            below += binomial::exactly(guessed, right - i, epsilon);
            steepest = steepest.max(below / i as f64);
        }
        let at_least = binomial::at_least(guessed, right, epsilon);
        (at_least + 2.0 * canaries as f64 * delta * steepest).min(1.0)
    }

    /// The largest epsilon that these guesses refute: if the run were `(epsilon, delta)`-differentially private for it, this many right
    /// guesses would be less likely than `1 - confidence`. Zero if they refute none.
    ///
    /// # Guarantee
    /// Over the coins and the run, the bound is above the true epsilon with probability at most `1 - confidence`.
    #[must_use]
    pub fn lower_bound(&self, delta: f64, confidence: f64) -> f64 {
        let refuted = |epsilon: f64| self.chance(epsilon, delta) <= 1.0 - confidence;
        let (mut low, mut high) = (0.0, 1.0);
        if !refuted(low) {
            return 0.0;
        }
        // Even guesses that are all right refute no more than ln(guessed / -ln(confidence)).
        while refuted(high) && high < 64.0 {
            (low, high) = (high, 2.0 * high);
        }
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if refuted(middle) { low = middle } else { high = middle }
        }
        low
    }
}

/// Guesses heads where the evidence is positive and tails where it is negative, once for each share of the canaries with the clearest
/// evidence.
pub(crate) fn made(evidence: &[f64], coins: &[bool]) -> [Guesses; SHARES.len()] {
    let mut order: Vec<usize> = (0..evidence.len()).collect();
    order.sort_by(|&a, &b| evidence[b].abs().total_cmp(&evidence[a].abs()));
    SHARES.map(|share| {
        let guessed = ((share * evidence.len() as f64) as usize).max(1);
        let right = order[..guessed].iter().filter(|&&i| (evidence[i] > 0.0) == coins[i]).count();
        Guesses { canaries: evidence.len() as u64, guessed: guessed as u64, right: right as u64 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn guesses(canaries: u64, guessed: u64, right: u64) -> Guesses {
        Guesses { canaries, guessed, right }
    }

    /// Computed with scipy.stats.binom: sf(v - 1, r, q) + 2 m delta max(cumsum(pmf(v - i)) / i), and brentq for the bound.
    #[test]
    fn agrees_with_scipy() {
        for (canaries, guessed, right, epsilon, delta, want) in SCIPY_CHANCES {
            let got = guesses(canaries, guessed, right).chance(epsilon, delta);
            assert!((got / want - 1.0).abs() < 1e-9, "{got} {want}");
        }
        for (canaries, guessed, right, delta, confidence, want) in SCIPY_BOUNDS {
            let got = guesses(canaries, guessed, right).lower_bound(delta, confidence);
            assert!((got - want).abs() < 1e-9, "{got} {want}");
        }
    }

    proptest! {
        /// More right guesses refute more, and more confidence refutes less. At the bound, the chance is just as small as it must be.
        #[test]
        fn bounds_are_monotone(guessed in 1u64..300, share in 0.0f64..=1.0, more in 0u64..50, delta in 0.0f64..1e-3) {
            let right = (share * guessed as f64) as u64;
            let one = guesses(300, guessed, right);
            let bound = one.lower_bound(delta, 0.95);
            prop_assert!(one.lower_bound(delta, 0.99) <= bound + 1e-12);
            prop_assert!(guesses(300, guessed, (right + more).min(guessed)).lower_bound(delta, 0.95) >= bound - 1e-12);
            if bound > 0.0 {
                prop_assert!(one.chance(bound, delta) <= 0.05 + 1e-9);
                prop_assert!(one.chance(bound + 1e-6, delta) > 0.05 - 1e-9);
            }
        }
    }

    const SCIPY_CHANCES: [(u64, u64, u64, f64, f64, f64); 5] = [
        (1000, 1000, 600, 0.3, 1e-05, 0.05459831694066845),
        (1000, 120, 95, 0.8, 1e-05, 0.009702614308591552),
        (4000, 500, 480, 2.5, 1e-06, 0.0010258960736218173),
        (2000, 31, 31, 2.0, 0.0, 0.019550227763100583),
        (50, 50, 20, 0.1, 0.001, 0.9735479072541079),
    ];
    const SCIPY_BOUNDS: [(u64, u64, u64, f64, f64, f64); 4] = [
        (1000, 1000, 600, 1e-05, 0.95, 0.297226953718762),
        (4000, 500, 480, 1e-06, 0.99, 2.657849841398619),
        (2000, 31, 31, 0.0, 0.95, 2.2880911628387466),
        (2000, 250, 248, 1e-05, 0.95, 3.641258477113107),
    ];
}
