//! How often a mechanism is run before the best of its outputs is chosen.

use crate::error::{Result, in_range};
use crate::numerics::root::bisect_condition;

/// The law of the number `K` of repetitions. It must be random, and stay secret: with a number that is known, the best of `K` outputs may
/// cost `K` times as much as one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Repetitions {
    /// The truncated negative binomial distribution on 1, 2, ...: logarithmic for `shape = 0`, geometric for `shape = 1`.
    NegativeBinomial {
        /// `eta`, above -1.
        shape: f64,
        /// `gamma`, between 0 and 1; smaller means more repetitions.
        gamma: f64,
    },
    /// The Poisson distribution; with no repetition at all, nothing is released.
    Poisson {
        /// `mu`.
        mean: f64,
    },
}

impl Repetitions {
    /// The truncated negative binomial distribution of a shape with a mean.
    ///
    /// # Errors
    /// A shape outside (-1, 100], a mean that is not above 1 and at most ten thousand.
    pub fn negative_binomial(shape: f64, mean: f64) -> Result<Self> {
        let shape = in_range("shape", shape, -1.0 + 1e-3, 100.0, "(-1, 100]")?;
        let mean = in_range("mean of the repetitions", mean, 1.0 + 1e-6, 1e4, "(1, 10000]")?;
        let law = |log_gamma: f64| Self::NegativeBinomial { shape, gamma: log_gamma.exp() };
        // The mean falls as gamma rises. Which side of the root is taken does not matter: the law is priced as it is drawn.
        let (_, log_gamma) = bisect_condition(-700.0, -1e-9, 1e-15, |at| law(at).mean() <= mean);
        Ok(law(log_gamma))
    }

    /// The Poisson distribution with a mean.
    ///
    /// # Errors
    /// A mean that is not positive and at most 500.
    pub fn poisson(mean: f64) -> Result<Self> {
        Ok(Self::Poisson { mean: in_range("mean of the repetitions", mean, 1e-6, 500.0, "[1e-6, 500]")? })
    }

    /// `E[K]`.
    #[must_use]
    pub fn mean(self) -> f64 {
        match self {
            // Papernot and Steinke 2022, Definition 1: eta (1-gamma) / (gamma (1 - gamma^eta)), and its limit at 0.
            Self::NegativeBinomial { shape, gamma } => {
                let (rest, log_gamma) = (1.0 - gamma, gamma.ln());
                match shape {
                    0.0 => rest / gamma / -log_gamma,
                    eta => eta * rest / gamma / -(eta * log_gamma).exp_m1(),
                }
            }
            Self::Poisson { mean } => mean,
        }
    }

    /// The probability that nothing is run.
    #[must_use]
    pub fn none(self) -> f64 {
        match self {
            Self::NegativeBinomial { .. } => 0.0,
            Self::Poisson { mean } => (-mean).exp(),
        }
    }

    /// The number of repetitions at a quantile: with `uniform` drawn uniformly from [0, 1) it follows the law, up to the rounding of its
    /// cumulative probabilities, below 1e-12 in total variation.
    #[must_use]
    pub fn quantile(self, uniform: f64) -> u64 {
        let (mut count, mut probability) = match self {
            Self::NegativeBinomial { .. } => (1, self.first()),
            Self::Poisson { .. } => (0, self.none()),
        };
        let mut below = probability;
        while below <= uniform {
            let k = count as f64;
            // p(k+1) / p(k)
            probability *= match self {
                Self::NegativeBinomial { shape, gamma } => (1.0 - gamma) * (k + shape) / (k + 1.0),
                Self::Poisson { mean } => mean / (k + 1.0),
            };
            let next = below + probability;
            // What is left is beyond the digits of the sum.
            if next == below && k > self.mean() {
                break;
            }
            (below, count) = (next, count + 1);
        }
        count
    }

    /// The probability of one repetition under a truncated negative binomial law.
    fn first(self) -> f64 {
        match self {
            Self::NegativeBinomial { shape, gamma } => match shape {
                0.0 => (1.0 - gamma) / -gamma.ln(),
                eta => eta * (1.0 - gamma) / (-eta * gamma.ln()).exp_m1(),
            },
            Self::Poisson { mean } => mean * (-mean).exp(),
        }
    }
}
