//! Statistical tests and made-up random streams, for the tests of this crate.

use std::convert::Infallible;

use chacha20::rand_core::TryRng;

/// The error rate of every statistical test: the probability that a correct implementation fails it if its seed is drawn anew. Seeds are
/// fixed, so a test that passes once passes always.
pub(crate) const ALPHA: f64 = 1e-6;

/// Whether Pearson's chi-square statistic stays below its quantile. Every expected count should be at least 5.
pub(crate) fn chi_square_accepts(counts: &[u64], expected: &[f64], alpha: f64) -> bool {
    assert_eq!(counts.len(), expected.len());
    let statistic: f64 = counts.iter().zip(expected).map(|(&n, &e)| (n as f64 - e).powi(2) / e).sum();
    statistic < chi_square_quantile(counts.len() as f64 - 1.0, alpha)
}

/// Upper quantile of the chi-square distribution (Wilson and Hilferty 1931). This far out in the tail it is a little too large, so tests
/// fail even more rarely than they say.
fn chi_square_quantile(degrees: f64, alpha: f64) -> f64 {
    let spread = 2.0 / (9.0 * degrees);
    degrees * (1.0 - spread + normal_quantile(alpha) * spread.sqrt()).powi(3)
}

/// Upper quantile of the normal distribution: for `alpha` from 1e-9 to 0.1 within 5e-4 (Abramowitz and Stegun 26.2.23).
pub(crate) fn normal_quantile(alpha: f64) -> f64 {
    let t = (-2.0 * alpha.ln()).sqrt();
    t - (2.515517 + 0.802853 * t + 0.010328 * t * t)
        / (1.0 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t * t * t)
}

/// Whether a count of successes is plausible for `trials` coins of this probability: a normal interval, so `trials * p * (1 - p)`
/// should be in the hundreds.
pub(crate) fn binomial_accepts(successes: u64, trials: u64, probability: f64, alpha: f64) -> bool {
    let mean = trials as f64 * probability;
    let deviation = (mean * (1.0 - probability)).sqrt();
    (successes as f64 - mean).abs() <= normal_quantile(alpha / 2.0) * deviation + 1.0
}

/// A stream whose bytes are all the same and whose words are as written; the last word repeats.
pub(crate) struct Scripted<'a> {
    pub(crate) byte: u8,
    pub(crate) words: &'a [u64],
}

impl TryRng for Scripted<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.try_next_u64().map(|word| word as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let word = self.words[0];
        if self.words.len() > 1 {
            self.words = &self.words[1..];
        }
        Ok(word)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.fill(self.byte);
        Ok(())
    }
}

#[test]
fn quantiles_are_never_too_small() {
    assert!((normal_quantile(1e-6) - 4.7534).abs() < 1e-3);
    // With 2n degrees of freedom the tail is exp(-x/2) times the first n terms of exp(x/2); solved for x by bisection.
    for (degrees, exact) in [(2.0, 27.6310), (10.0, 46.8630), (100.0, 182.1268)] {
        let ratio = chi_square_quantile(degrees, ALPHA) / exact;
        assert!((1.0..1.1).contains(&ratio), "{degrees} {ratio}");
    }
    assert!(!chi_square_accepts(&[500, 700], &[600.0, 600.0], ALPHA));
    assert!(binomial_accepts(5100, 10_000, 0.5, ALPHA) && !binomial_accepts(5300, 10_000, 0.5, ALPHA));
}
