//! Probabilities of the binomial distribution, given the logarithm of its odds.

/// The chance of `k` successes in `n` trials that succeed with odds `e^log_odds`.
pub(crate) fn exactly(n: u64, k: u64, log_odds: f64) -> f64 {
    let factorial = |count: u64| libm::lgamma(count as f64 + 1.0);
    let ways = factorial(n) - factorial(k) - factorial(n - k);
    let (success, failure) = (-libm::log1p((-log_odds).exp()), -libm::log1p(log_odds.exp()));
    (ways + k as f64 * success + (n - k) as f64 * failure).exp()
}

/// The chance of at least `k` successes.
pub(crate) fn at_least(n: u64, k: u64, log_odds: f64) -> f64 {
    let odds = log_odds.exp();
    let mean = n as f64 / (1.0 + 1.0 / odds);
    // Away from the mean, terms fall ever faster, so the terms left out add up to less than a geometric series that starts at the last
    // one counted.
    let falling = |first: u64, next: &dyn Fn(u64) -> Option<(u64, f64)>| {
        let (mut k, mut term) = (first, exactly(n, first, log_odds));
        let mut sum = term;
        while let Some((following, factor)) = next(k) {
            (k, term) = (following, term * factor);
            sum += term;
            if term < 1e-20 * sum {
                break;
            }
        }
        sum
    };
    if k == 0 {
        1.0
    } else if k as f64 > mean {
        falling(k, &|k| (k < n).then(|| (k + 1, odds * (n - k) as f64 / (k + 1) as f64)))
    } else {
        1.0 - falling(k - 1, &|k| (k > 0).then(|| (k - 1, k as f64 / (odds * (n - k + 1) as f64))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_fractions() {
        // The chance of at least eight in ten trials of chance 3/4 is (45 * 3^8 + 10 * 3^9 + 3^10) / 4^10.
        let want = (45.0 * 6561.0 + 10.0 * 19683.0 + 59049.0) / 1_048_576.0;
        // Logarithms of factorials are computed to 1e-14.
        assert!((at_least(10, 8, 3f64.ln()) - want).abs() < 1e-12);
        assert!((exactly(10, 10, 3f64.ln()) - 59049.0 / 1_048_576.0).abs() < 1e-13);
    }

    /// Tails agree with sums of all their terms, on both sides of the mean.
    #[test]
    fn tails_are_sums() {
        for (n, log_odds) in [(1, 0.0), (7, -3.0), (300, 2.0), (5000, -5.0), (5000, 0.1)] {
            for k in (0..=n).step_by(1 + n as usize / 40) {
                let want: f64 = (k..=n).rev().map(|k| exactly(n, k, log_odds)).sum();
                // Logarithms of factorials have fifteen digits and are as large as 4e4.
                assert!((at_least(n, k, log_odds) - want).abs() < 1e-10, "{n} {k} {log_odds}");
            }
        }
    }
}
