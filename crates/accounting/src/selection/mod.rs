//! What it costs to run a private mechanism several times and release only the best output (Papernot and Steinke 2022,
//! "Hyperparameter Tuning with Rényi Differential Privacy").

mod law;

use crate::error::Result;
use crate::numerics::root::minimise;
use crate::rdp::{self, RdpAnswer};
pub use law::Repetitions;

/// The least order that is asked about, less 1.
const LEAST: f64 = 1e-3;

/// The mechanism that is run several times, by what is known of it.
pub trait BaseMechanism {
    /// A bound on the Rényi divergence of an order above 1, in both directions.
    fn divergence(&self, order: f64) -> f64;
    /// A bound on delta at an epsilon, in both directions.
    fn delta(&self, epsilon: f64) -> f64;
    /// Orders above this are not asked about.
    fn largest_order(&self) -> f64;
}

/// The best of a random number of outputs.
pub struct Selection<'a> {
    law: Repetitions,
    base: &'a dyn BaseMechanism,
    /// What the choice adds at every order, under a truncated negative binomial law.
    constant: f64,
}

impl<'a> Selection<'a> {
    /// The best output of a mechanism that is run as often as the law says.
    #[must_use]
    pub fn new(law: Repetitions, base: &'a dyn BaseMechanism) -> Self {
        let constant = match law {
            Repetitions::Poisson { .. } => 0.0,
            // Theorem 2: (1 + eta) ((1 - 1/b) D_b + ln(1/gamma) / b) for any order b; the least counts, b = 1 among them.
            Repetitions::NegativeBinomial { shape, gamma } => {
                let at = |log_order: f64| {
                    let order = 1.0 + log_order.exp();
                    (1.0 - 1.0 / order) * base.divergence(order) - gamma.ln() / order
                };
                let best = minimise(LEAST.ln(), (base.largest_order() - 1.0).ln(), 1e-4, at);
                (1.0 + shape) * at(best).min(-gamma.ln())
            }
        };
        Self { law, base, constant }
    }

    /// A bound on the Rényi divergence of an order above 1.
    ///
    /// # Guarantee
    /// Let each output be better or worse than every other, by anything but the private records; let `K` follow the law, independently of
    /// the data, and be secret. Then the best of `K` independent outputs has at most this divergence.
    ///
    /// *Truncated negative binomial*: Papernot and Steinke 2022, Theorem 2.
    /// *Poisson*: their Theorem 6, with `e^eps = 1 + 1/(order - 1)`. With `K = 0` nothing is released, on both data sets with the same
    /// probability `e^-mu`, which is one more term of `E_Q (P/Q)^order`: left out, the bound is below the truth where `mu` is small.
    #[must_use]
    pub fn divergence(&self, order: f64) -> f64 {
        let (divergence, rest) = (self.base.divergence(order), order - 1.0);
        match self.law {
            Repetitions::NegativeBinomial { .. } => divergence + self.constant + self.law.mean().ln() / rest,
            Repetitions::Poisson { mean } => {
                let delta = self.base.delta((1.0 / rest).ln_1p());
                let some = rest * (divergence + mean * delta) + mean.ln();
                // ln(e^-mu + e^some), the larger one first.
                let (high, low) = if some > -mean { (some, -mean) } else { (-mean, some) };
                (high + (low - high).exp().ln_1p()) / rest
            }
        }
    }

    /// Epsilon at `delta`, by the best order.
    ///
    /// # Guarantee
    /// Under the conditions of [`Selection::divergence`], releasing the best output alone is (epsilon, delta)-private.
    ///
    /// # Errors
    /// A delta out of range.
    pub fn epsilon(&self, delta: f64) -> Result<RdpAnswer> {
        rdp::epsilon_by(|order| self.divergence(order), self.base.largest_order(), delta)
    }
}
