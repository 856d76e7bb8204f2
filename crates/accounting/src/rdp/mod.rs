//! Rényi accounting: a second opinion that shares nothing with the lattice code.

mod conversion;
mod moments;

use std::sync::Arc;

use crate::error::{Result, in_range};
use crate::limits;
use crate::numerics::log_mix;
use crate::numerics::root::minimise;
use crate::pair::{DominatingPair, Gaussian, Substitution};
use crate::partition::rdp::PartitionRdp;
pub use conversion::{Conversion, RdpAnswer};
use moments::log_integral;
pub(crate) use moments::{log_sum, sampled_log_moment};

/// Rényi divergences of a composition of Laplace and Gaussian steps, whole or partitioned.
///
/// # Guarantee
/// Divergences at integer orders are closed sums; at real orders they are integrals by a composite Gauss rule, accurate to
/// about 1e-10. Epsilon follows by a conversion that holds at every order, so that any order gives an upper bound.
#[derive(Debug, Clone, Default)]
pub struct Rdp {
    factors: Vec<(RenyiStep, f64)>,
}

#[derive(Debug, Clone)]
enum RenyiStep {
    Gaussian { mu: f64 },
    Laplace { epsilon: f64 },
    Poisson { mu: f64, rate: f64 },
    Substitution(Substitution),
    Partition(Arc<PartitionRdp>),
}

impl Rdp {
    /// A Gaussian step at the given sensitivity.
    ///
    /// # Errors
    /// A noise multiplier or sensitivity out of range.
    pub fn gaussian(sensitivity: f64, noise_multiplier: f64) -> Result<Self> {
        let sigma = limits::noise_multiplier(noise_multiplier)?;
        let mu = in_range("sensitivity", sensitivity, 1e-9, 1e6, "[1e-9, 1e6]")? / sigma;
        Ok(Self { factors: vec![(RenyiStep::Gaussian { mu }, 1.0)] })
    }

    /// A Poisson-sampled Gaussian step under add/remove (partitioning paper, Theorem 3.11).
    ///
    /// # Guarantee
    /// The divergence of the removal direction is the larger one (Mironov, Talwar and Zhang 2019, Theorem 5).
    ///
    /// # Errors
    /// A rate or noise multiplier out of range.
    pub fn poisson_gaussian(sample_rate: f64, noise_multiplier: f64) -> Result<Self> {
        let rate = limits::sample_rate(sample_rate)?;
        let mu = 1.0 / limits::noise_multiplier(noise_multiplier)?;
        let step = if rate == 1.0 { RenyiStep::Gaussian { mu } } else { RenyiStep::Poisson { mu, rate } };
        Ok(Self { factors: vec![(step, 1.0)] })
    }

    /// The Laplace mechanism with pure privacy parameter `epsilon` (Mironov 2017, Proposition 6).
    ///
    /// # Errors
    /// An epsilon out of range.
    pub fn laplace(epsilon: f64) -> Result<Self> {
        let epsilon = in_range("epsilon", epsilon, 1e-6, 1e3, "[1e-6, 1000]")?;
        Ok(Self { factors: vec![(RenyiStep::Laplace { epsilon }, 1.0)] })
    }

    /// A step under a substitution relation, by its two-sided profile.
    #[must_use]
    pub fn substitution(step: Substitution) -> Self {
        let step = match step.into_pair() {
            DominatingPair::Gaussian(Gaussian { mu }) => RenyiStep::Gaussian { mu },
            _ => RenyiStep::Substitution(step),
        };
        Self { factors: vec![(step, 1.0)] }
    }

    /// A step of a partitioned model, or all steps among which a record's appearances are spread.
    ///
    /// # Guarantee
    /// Integer orders are those of [`PartitionRdp`]. Between them `(a - 1) D_a = ln E_Q R^a`, which is convex in the order, is
    /// bounded by its chord; beyond the largest the divergence is infinite.
    #[must_use]
    pub fn partition(step: PartitionRdp) -> Self {
        Self { factors: vec![(RenyiStep::Partition(Arc::new(step)), 1.0)] }
    }

    /// Both mechanisms on the same data.
    #[must_use]
    pub fn compose(&self, other: &Self) -> Self {
        Self { factors: self.factors.iter().chain(&other.factors).cloned().collect() }
    }

    /// The mechanism run `count` times.
    #[must_use]
    pub fn self_compose(&self, count: u64) -> Self {
        Self { factors: self.factors.iter().map(|(step, n)| (step.clone(), n * count as f64)).collect() }
    }

    /// The Rényi divergence of order `order > 1`.
    #[must_use]
    pub fn divergence(&self, order: f64) -> f64 {
        self.factors.iter().map(|(step, count)| count * step.divergence(order)).sum()
    }

    /// The largest order that is worth asking about.
    #[must_use]
    pub fn largest_order(&self) -> f64 {
        1.0 + self.factors.iter().map(|(step, _)| step.largest_order()).fold(1e6, f64::min)
    }

    /// Epsilon at `delta` by the tight conversion, over all real orders.
    ///
    /// # Errors
    /// A delta out of range.
    pub fn epsilon(&self, delta: f64) -> Result<RdpAnswer> {
        epsilon_by(|order| self.divergence(order), self.largest_order(), delta)
    }

    /// Epsilon at `delta` over the given orders only.
    ///
    /// # Errors
    /// A delta out of range, or no order above 1.
    pub fn epsilon_over(&self, orders: &[f64], delta: f64, conversion: Conversion) -> Result<RdpAnswer> {
        limits::delta(delta)?;
        Ok(conversion.best(self.divergences(orders)?.into_iter(), delta))
    }

    /// Delta at `epsilon` over the given orders only.
    ///
    /// # Errors
    /// An epsilon out of range, or no order above 1.
    pub fn delta_over(&self, orders: &[f64], epsilon: f64, conversion: Conversion) -> Result<f64> {
        limits::epsilon(epsilon)?;
        let deltas = self.divergences(orders)?.into_iter().map(|(a, d)| conversion.delta(a, d, epsilon));
        Ok(deltas.fold(1.0, f64::min))
    }

    /// The Rényi divergence at each of the orders.
    ///
    /// # Errors
    /// No order, or one that is not above 1.
    pub fn curve(&self, orders: &[f64]) -> Result<Vec<f64>> {
        Ok(self.divergences(orders)?.into_iter().map(|(_, divergence)| divergence).collect())
    }

    /// Orders with their divergences.
    fn divergences(&self, orders: &[f64]) -> Result<Vec<(f64, f64)>> {
        in_range("number of orders", orders.len() as f64, 1.0, f64::INFINITY, "[1, infinity)")?;
        for &order in orders {
            in_range("order", order, 1.0 + 1e-9, 1e9, "(1, 1e9]")?;
        }
        Ok(orders.iter().map(|&order| (order, self.divergence(order))).collect())
    }
}

/// Epsilon at `delta` from a bound on the divergence of every order up to the largest, by the tight conversion at the best order.
///
/// # Errors
/// A delta out of range.
pub fn epsilon_by(divergence: impl Fn(f64) -> f64, largest_order: f64, delta: f64) -> Result<RdpAnswer> {
    limits::delta(delta)?;
    let at = |log_order: f64| {
        let order = 1.0 + log_order.exp();
        Conversion::Tight.epsilon(order, divergence(order), delta)
    };
    let log_order = minimise((1e-3_f64).ln(), (largest_order - 1.0).ln(), 1e-4, at);
    Ok(RdpAnswer { epsilon: at(log_order), order: 1.0 + log_order.exp() })
}

impl RenyiStep {
    /// Orders above this would need integrals over more than a hundred thousand panels; the best order lies far below, since
    /// divergences grow like `order mu^2 / 2`.
    fn largest_order(&self) -> f64 {
        match self {
            Self::Gaussian { .. } | Self::Laplace { .. } => 1e6,
            Self::Poisson { mu, .. } => 2e4 / mu,
            Self::Substitution(step) => 2e4 / step.support().1,
            Self::Partition(step) => f64::from(step.largest_order() - 1),
        }
    }

    fn divergence(&self, order: f64) -> f64 {
        match self {
            Self::Gaussian { mu } => 0.5 * order * mu * mu,
            Self::Laplace { epsilon } => {
                // E_Q R^a = (a e^{(a-1) e} + (a-1) e^{-a e}) / (2a - 1), as 1 + what it exceeds 1 by where that is small.
                let (a, e) = (order, *epsilon);
                let (up, down) = ((a - 1.0) * e, -a * e);
                let log_moment = if up < 1.0 {
                    ((a * up.exp_m1() + (a - 1.0) * down.exp_m1()) / (2.0 * a - 1.0)).ln_1p()
                } else {
                    up + ((a + (a - 1.0) * (down - up).exp()) / (2.0 * a - 1.0)).ln()
                };
                log_moment / (a - 1.0)
            }
            Self::Partition(step) => step.interpolated(order),
            Self::Poisson { mu, rate } if order.fract() == 0.0 && order <= 1024.0 => {
                let gaussian = |l: u32| 0.5 * f64::from(l) * (f64::from(l) - 1.0) * mu * mu;
                sampled_log_moment(*rate, order as u32, gaussian) / (order - 1.0)
            }
            Self::Poisson { mu, rate } => {
                // E_Q[(1 - q + q e^l)^a], l = mu t - mu^2 / 2
                let log_ratio = |t: f64| log_mix(*rate, mu * (t - 0.5 * mu));
                log_integral(-REACH, order * mu + REACH, |t| order * log_ratio(t) + log_density(t))
                    / (order - 1.0)
            }
            Self::Substitution(step) => {
                // Losses L > 0 with Q-mass, their mirror images with P-mass, and the rest of the mass at 0.
                let (origin, spread) = step.support();
                let top = order * spread + REACH;
                let positive = log_integral(origin, top, |t| order * step.log_ratio(t) + step.log_q(t));
                let negative =
                    log_integral(origin, top, |t| (1.0 - order) * step.log_ratio(t) + step.log_q(t));
                let masses = [0.0, 1.0]
                    .map(|s| log_integral(origin, top, |t| s * step.log_ratio(t) + step.log_q(t)).exp());
                let zero = (1.0 - masses[0] - masses[1]).max(0.0);
                let largest = positive.max(negative).max(0.0);
                let sum = (positive - largest).exp() + (negative - largest).exp() + zero * (-largest).exp();
                (largest + sum.ln()) / (order - 1.0)
            }
        }
    }
}

/// How far beyond the last centre, in standard deviations, integrals reach: what is left out is below 1e-40.
const REACH: f64 = 14.0;

fn log_density(t: f64) -> f64 {
    -0.5 * t * t - 0.5 * std::f64::consts::TAU.ln()
}
