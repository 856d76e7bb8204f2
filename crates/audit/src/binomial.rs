//! Chances of a binomial number, by the logarithm of its odds.

/// The chance of `k` successes in `n` trials that succeed with odds `e^log_odds`.
pub(crate) fn exactly(n: u64, k: u64, log_odds: f64) -> f64 {
    let factorial = |count: u64| libm::lgamma(count as f64 + 1.0);
    let ways = factorial(n) - factorial(k) - factorial(n - k);
    let (success, failure) = (-libm::log1p((-log_odds).exp()), -libm::log1p(log_odds.exp()));
    (ways + k as f64 * success + (n - k) as f64 * failure).exp()
}

/// The chance of at least `k`.
pub(crate) fn at_least(n: u64, k: u64, log_odds: f64) -> f64 {
    // The smallest terms first.
    (k..=n).rev().map(|k| exactly(n, k, log_odds)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_fractions() {
        // Ten trials of chance 3/4: (45 * 3^8 + 10 * 3^9 + 3^10) / 4^10 for at least eight.
        let want = (45.0 * 6561.0 + 10.0 * 19683.0 + 59049.0) / 1_048_576.0;
        // Logarithms of factorials to 1e-14.
        assert!((at_least(10, 8, 3f64.ln()) - want).abs() < 1e-12);
        assert!((exactly(10, 10, 3f64.ln()) - 59049.0 / 1_048_576.0).abs() < 1e-13);
    }

    #[test]
    fn all_chances_add_to_one() {
        for (n, log_odds) in [(1, 0.0), (7, -3.0), (300, 2.0), (20_000, -5.0)] {
            // Each of n terms to 1e-11: logarithms of factorials have fifteen digits and are as large as 1e5.
            assert!((at_least(n, 0, log_odds) - 1.0).abs() < 1e-9);
        }
    }
}
