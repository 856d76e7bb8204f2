//! Right guesses against the whole trade-off curve of a run, in place of one epsilon and delta.

use dapple_plan::TradeOffCurve;

use crate::guesses::Guesses;

/// What is taken off each level for rounding: a run has at most some ten thousand steps of it, each off by a few units of 2^-53.
const ROUNDING: f64 = 1e-10;

impl Guesses {
    /// Whether so many right guesses, or more, have a probability below `chance` in every run that no test of one coin can read better than the curve
    /// allows.
    ///
    /// # Guarantee
    /// If the answer is yes, such a run makes so many guesses, or more, right with a probability below `chance`, however the attacker guesses
    /// and whichever coins it guesses, as long as it guesses this many, and for any dependence between canaries within the run.
    ///
    /// *Proof* (after Mahloujifar, Melis and Chaudhuri 2024). Let `p_j` be the probability that `j` of the `g` guesses are right, among `m` coins, and
    /// `h_j = sum_{i >= j} (i/m) p_i`, `r_j = sum_{i >= j} ((g-i)/m) p_i`. Take a coin and the outputs that lead to a guess of it, with at least `j - 1` of the other
    /// guesses right. If the coin is what was guessed, at least `j` guesses are right; if it is the other way round, at least `j - 1` are, and this one is wrong. The curve says
    /// how likely the first may be if the second has a given probability; averaged over coins and both guesses, since it is concave, `r_{j-1}` is at least the
    /// type-I error of a test of power `h_j`.
    /// Assume that `p_c + p_{c+1} + .. >= chance` for the number `c` of right guesses. Starting from `h = chance c/m`, `r = chance (g-c)/m`, go down: at each level as much
    /// is added as the inequality asks for, and `j/m`, `(g-j)/m` of it to `h` and `r`. Every run has at least as much `h`, at least as much in both together, and no more than `(g-j)/j` times as much `r` beyond it as `h`: this
    /// holds at `c`, and a step down keeps it. So if both together come to more than `g/m`, probabilities would add up to more than one.
    #[must_use]
    pub fn is_refuted_by(&self, curve: &TradeOffCurve, chance: f64) -> bool {
        let (m, g) = (self.canaries as f64, self.guessed as f64);
        let (mut h, mut r) = (chance * self.right as f64 / m, chance * (g - self.right as f64) / m);
        for level in (0..self.right).rev() {
            if h >= 1.0 {
                return true;
            }
            let level = level as f64;
            let asked = curve.type_one(h) - ROUNDING;
            if asked > r {
                h += (asked - r) * level / (g - level);
                r = asked;
            }
        }
        h + r > g / m + ROUNDING
    }
}

#[cfg(test)]
mod tests {
    use dapple_plan::{BracketPrecision, Pld};

    use super::*;

    fn gaussian(mu: f64) -> TradeOffCurve {
        Pld::gaussian_distance(mu).unwrap().trade_off_curve(BracketPrecision::default()).unwrap()
    }

    /// Whoever sees one of two normals at distance one, for each coin anew, guesses right with probability `Phi(1/2)`, and no more often. So the number of right
    /// guesses is binomial, and what is refuted must be rarer than that law says. How much rarer, because coins may depend on each other, was computed with the exact
    /// curve by scipy.stats.norm in another program.
    #[test]
    fn what_is_refuted_is_rare_for_independent_coins() {
        // Phi(1/2), from tables.
        let right_once = 0.691_462_461_274_013_1_f64;
        let log_odds = (right_once / (1.0 - right_once)).ln();
        let curve = gaussian(1.0);
        for (canaries, chance, least) in [(40, 0.05, 39), (400, 0.05, 371), (400, 1e-3, 394)] {
            let likely = |right| crate::binomial::at_least(canaries, right, log_odds);
            let refuted =
                |right| Guesses { canaries, guessed: canaries, right }.is_refuted_by(&curve, chance);
            for right in 0..=canaries {
                assert!(!refuted(right) || likely(right) <= chance, "{right} of {canaries}");
            }
            let first = (0..=canaries).find(|&right| refuted(right)).unwrap();
            // Four hundred lines lie a little below the curve.
            assert!(first >= least && first <= least + 2, "{first} {least} of {canaries}");
        }
    }

    #[test]
    fn nothing_is_refuted_by_guesses_at_random_and_much_by_good_ones() {
        let guesses = |right| Guesses { canaries: 1000, guessed: 500, right };
        assert!(!guesses(250).is_refuted_by(&gaussian(0.5), 0.05));
        assert!(guesses(480).is_refuted_by(&gaussian(0.5), 0.05));
        // A weaker mechanism explains them.
        assert!(!guesses(480).is_refuted_by(&gaussian(6.0), 0.05));
        let refuted = |mu| guesses(400).is_refuted_by(&gaussian(mu), 0.05);
        let order: Vec<bool> = (1..40).map(|i| refuted(0.1 * f64::from(i))).collect();
        assert!(order.windows(2).all(|pair| pair[0] || !pair[1]), "{order:?}");
    }
}
