//! Rényi accounting: a second opinion that shares nothing with the lattice code.

use crate::error::{Result, in_range};
use crate::limits;
use crate::numerics::log_mix;
use crate::numerics::normal::gauss;
use crate::numerics::root::minimise;
use crate::pair::{Gaussian, Pair, Substitution};

/// Rényi divergences of a composition of Gaussian steps.
///
/// # Guarantee
/// Divergences at integer orders are closed sums; at real orders they are integrals by a composite Gauss rule, accurate to
/// about 1e-10. Epsilon follows by a conversion that holds at every order, so that any order gives an upper bound.
#[derive(Debug, Clone, Default)]
pub struct Rdp {
    factors: Vec<(Step, f64)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Gaussian { mu: f64 },
    Poisson { mu: f64, rate: f64 },
    Substitution(Substitution),
}

/// How a Rényi guarantee becomes an epsilon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Conversion {
    /// `eps + ln((a-1)/a) - (ln delta + ln a)/(a-1)` (Canonne, Kamath and Steinke 2020).
    #[default]
    Tight,
    /// `eps + ln(1/delta)/(a-1)` (Mironov 2017), which the partitioning paper's figures use.
    Classic,
}

/// An upper bound on epsilon and the order that gave it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RdpAnswer {
    /// Never below the exact epsilon.
    pub epsilon: f64,
    /// The Rényi order of the best conversion.
    pub order: f64,
}

impl Rdp {
    /// A Gaussian step at the given sensitivity.
    ///
    /// # Errors
    /// A noise multiplier or sensitivity out of range.
    pub fn gaussian(sensitivity: f64, noise_multiplier: f64) -> Result<Self> {
        let sigma = limits::noise_multiplier(noise_multiplier)?;
        let mu = in_range("sensitivity", sensitivity, 1e-9, 1e6, "[1e-9, 1e6]")? / sigma;
        Ok(Self { factors: vec![(Step::Gaussian { mu }, 1.0)] })
    }

    /// A Poisson-sampled Gaussian step under add/remove.
    ///
    /// # Guarantee
    /// The divergence of the removal direction is the larger one (Mironov, Talwar and Zhang 2019, Theorem 5).
    ///
    /// # Errors
    /// A rate or noise multiplier out of range.
    pub fn poisson_gaussian(sample_rate: f64, noise_multiplier: f64) -> Result<Self> {
        let rate = limits::sample_rate(sample_rate)?;
        let mu = 1.0 / limits::noise_multiplier(noise_multiplier)?;
        let step = if rate == 1.0 { Step::Gaussian { mu } } else { Step::Poisson { mu, rate } };
        Ok(Self { factors: vec![(step, 1.0)] })
    }

    /// A step under a substitution relation, two-sided.
    #[must_use]
    pub fn substitution(step: Substitution) -> Self {
        let step = match step.into_pair() {
            Pair::Gaussian(Gaussian { mu }) => Step::Gaussian { mu },
            _ => Step::Substitution(step),
        };
        Self { factors: vec![(step, 1.0)] }
    }

    /// Both mechanisms on the same data.
    #[must_use]
    pub fn compose(&self, other: &Self) -> Self {
        Self { factors: self.factors.iter().chain(&other.factors).copied().collect() }
    }

    /// The mechanism run `count` times.
    #[must_use]
    pub fn self_compose(&self, count: u64) -> Self {
        Self { factors: self.factors.iter().map(|&(step, n)| (step, n * count as f64)).collect() }
    }

    /// The Rényi divergence of order `order > 1`.
    #[must_use]
    pub fn divergence(&self, order: f64) -> f64 {
        self.factors.iter().map(|(step, count)| count * step.divergence(order)).sum()
    }

    /// Epsilon at `delta` by the tight conversion, over all real orders.
    ///
    /// # Errors
    /// A delta out of range.
    pub fn epsilon(&self, delta: f64) -> Result<RdpAnswer> {
        limits::delta(delta)?;
        let at = |log_order: f64| self.convert(1.0 + log_order.exp(), delta, Conversion::Tight);
        let most = self.factors.iter().map(|(step, _)| step.largest_order()).fold(1e6, f64::min);
        let log_order = minimise((1e-3_f64).ln(), most.ln(), 1e-4, |x| {
            let value = at(x);
            if value.is_nan() { f64::INFINITY } else { value }
        });
        Ok(RdpAnswer { epsilon: at(log_order).max(0.0), order: 1.0 + log_order.exp() })
    }

    /// Epsilon at `delta` over the given orders only.
    ///
    /// # Errors
    /// A delta out of range, or no order above 1.
    pub fn epsilon_over(&self, orders: &[f64], delta: f64, conversion: Conversion) -> Result<RdpAnswer> {
        limits::delta(delta)?;
        let mut best = RdpAnswer { epsilon: f64::INFINITY, order: f64::NAN };
        for &order in orders {
            in_range("order", order, 1.0 + 1e-9, 1e9, "(1, 1e9]")?;
            let epsilon = self.convert(order, delta, conversion).max(0.0);
            if epsilon < best.epsilon {
                best = RdpAnswer { epsilon, order };
            }
        }
        in_range("number of orders", orders.len() as f64, 1.0, f64::INFINITY, "[1, infinity)")?;
        Ok(best)
    }

    fn convert(&self, order: f64, delta: f64, conversion: Conversion) -> f64 {
        let divergence = self.divergence(order);
        match conversion {
            Conversion::Tight => {
                divergence + (-1.0 / order).ln_1p() - (delta.ln() + order.ln()) / (order - 1.0)
            }
            Conversion::Classic => divergence - delta.ln() / (order - 1.0),
        }
    }
}

impl Step {
    /// Orders above this would need integrals over more than a hundred thousand panels; the best order lies far below, since
    /// divergences grow like `order mu^2 / 2`.
    fn largest_order(&self) -> f64 {
        match self {
            Self::Gaussian { .. } => 1e6,
            Self::Poisson { mu, .. } => 2e4 / mu,
            Self::Substitution(step) => 2e4 / step.support().1,
        }
    }

    fn divergence(&self, order: f64) -> f64 {
        match *self {
            Self::Gaussian { mu } => 0.5 * order * mu * mu,
            Self::Poisson { mu, rate } if order.fract() == 0.0 && order <= 1024.0 => {
                binomial_moment(mu, rate, order as u32) / (order - 1.0)
            }
            Self::Poisson { mu, rate } => {
                // E_Q[(1 - q + q e^l)^a], l = mu t - mu^2 / 2
                let log_ratio = |t: f64| log_mix(rate, mu * (t - 0.5 * mu));
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

/// `ln` of the integral of `e^f` over `[from, to]` by Gauss panels.
fn log_integral(from: f64, to: f64, f: impl Fn(f64) -> f64) -> f64 {
    const PANEL: f64 = 0.25;
    let panels = ((to - from) / PANEL).ceil().max(1.0);
    let width = (to - from) / panels;
    let middle = |i: f64| from + width * (i + 0.5);
    let mut largest = f64::NEG_INFINITY;
    let mut i = 0.0;
    while i < panels {
        largest = largest.max(f(middle(i)));
        i += 1.0;
    }
    let mut sum = 0.0;
    let mut i = 0.0;
    while i < panels {
        let a = from + width * i;
        // Panels that cannot matter are skipped.
        if f(middle(i)) > largest - 80.0 {
            sum += gauss(a, a + width, |t| (f(t) - largest).exp());
        }
        i += 1.0;
    }
    largest + sum.ln()
}

/// `ln E_Q[(1 - q + q e^l)^a]` at an integer order: `sum_k C(a, k) (1-q)^{a-k} q^k e^{k (k-1) mu^2 / 2}`
/// (Mironov, Talwar and Zhang 2019, equation 10).
fn binomial_moment(mu: f64, rate: f64, order: u32) -> f64 {
    let a = f64::from(order);
    let mut log_binomial = 0.0;
    let mut terms = Vec::with_capacity(order as usize + 1);
    for k in 0..=order {
        let kf = f64::from(k);
        if k > 0 {
            log_binomial += ((a - kf + 1.0) / kf).ln();
        }
        let log_rates = (a - kf) * (-rate).ln_1p() + kf * rate.ln();
        terms.push((log_binomial + log_rates, 0.5 * kf * (kf - 1.0) * mu * mu));
    }
    // The probabilities add up to 1: ln(1 + sum p (e^x - 1)) keeps small moments exact.
    let largest = terms.iter().map(|(p, x)| p + x).fold(f64::NEG_INFINITY, f64::max);
    if largest < 600.0 {
        terms
            .iter()
            .map(|(p, x)| if *x < 600.0 { p.exp() * x.exp_m1() } else { (p + x).exp() })
            .sum::<f64>()
            .ln_1p()
    } else {
        largest + terms.iter().map(|(p, x)| (p + x - largest).exp()).sum::<f64>().ln()
    }
}
