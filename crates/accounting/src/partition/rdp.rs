//! The Rényi bounds of the partitioning paper (D Theorem 3.1), for comparison and as a second opinion.

use crate::error::{Result, in_range};
use crate::limits;
use crate::rdp::{Conversion, RdpAnswer};

/// Which form of D Theorem 3.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Equation (2): the exact forward divergence; only for one appearance.
    Exact,
    /// Equation (3): the exact one at order 2, carried to higher orders.
    Convexity,
}

/// Rényi divergences between a Gaussian whose mean is `k` of `d` unit vectors, drawn at random, and one at 0.
#[derive(Debug, Clone)]
pub struct PartitionRdp {
    /// `D_a(P || Q)` at orders 2, 3, ...
    forward: Vec<f64>,
    /// `D_a(Q || P)` at the same orders.
    reverse: Vec<f64>,
}

/// The largest order; D's figures use 100.
const MOST_ORDERS: u32 = 256;

impl PartitionRdp {
    /// `ones` of `places`, at deviation `noise_multiplier`.
    ///
    /// # Guarantee
    /// The larger of the forward term of D Theorem 3.1 and of a bound on the reverse divergence ([`reverse_bound`]).
    ///
    /// # Errors
    /// More ones than places, none, a noise multiplier out of range, or [`Bound::Exact`] for more than one.
    pub fn new(places: u64, ones: u64, noise_multiplier: f64, bound: Bound) -> Result<Self> {
        let sigma = limits::noise_multiplier(noise_multiplier)?;
        in_range("places", places as f64, 1.0, 1e7, "[1, 10000000]")?;
        in_range("ones", ones as f64, 1.0, places as f64, "[1, places]")?;
        let forward: Vec<f64> = match bound {
            Bound::Exact => {
                in_range("ones", ones as f64, 1.0, 1.0, "{1}: equation (2) is a closed sum for one only")?;
                forward_exact(places, sigma, MOST_ORDERS)
            }
            Bound::Convexity => {
                (2..=MOST_ORDERS).map(|order| forward_bound(places, ones, sigma, order)).collect()
            }
        };
        let reverse = (2..=MOST_ORDERS).map(|order| reverse_bound(places, ones, sigma, order)).collect();
        Ok(Self { forward, reverse })
    }

    /// The larger divergence of both directions at an integer order from 2 to 256.
    #[must_use]
    pub fn divergence(&self, order: u32) -> Option<f64> {
        let slot = usize::try_from(order).ok()?.checked_sub(2)?;
        Some(self.forward.get(slot)?.max(*self.reverse.get(slot)?))
    }

    /// Epsilon at `delta` after `count` compositions, over all orders.
    ///
    /// # Guarantee
    /// Each direction is converted at its own best order; the larger epsilon holds for both.
    ///
    /// # Errors
    /// A delta out of range.
    pub fn epsilon(&self, count: u64, delta: f64, conversion: Conversion) -> Result<RdpAnswer> {
        limits::delta(delta)?;
        let [removal, addition] =
            [&self.forward, &self.reverse].map(|side| convert(side, count, delta, conversion));
        Ok(if removal.epsilon >= addition.epsilon { removal } else { addition })
    }

    /// Epsilon of removal and of addition apart, by the tight conversion.
    pub(super) fn directions(&self, count: u64, delta: f64) -> [f64; 2] {
        [&self.forward, &self.reverse].map(|side| convert(side, count, delta, Conversion::Tight).epsilon)
    }
}

/// The best conversion of divergences at orders 2, 3, ...
fn convert(divergences: &[f64], count: u64, delta: f64, conversion: Conversion) -> RdpAnswer {
    let mut best = RdpAnswer { epsilon: f64::INFINITY, order: f64::NAN };
    for (divergence, order) in divergences.iter().zip(2_u32..) {
        let (divergence, order) = (count as f64 * divergence, f64::from(order));
        let epsilon = match conversion {
            Conversion::Tight => {
                divergence + (-1.0 / order).ln_1p() - (delta.ln() + order.ln()) / (order - 1.0)
            }
            Conversion::Classic => divergence - delta.ln() / (order - 1.0),
        };
        if epsilon.max(0.0) < best.epsilon {
            best = RdpAnswer { epsilon: epsilon.max(0.0), order };
        }
    }
    best
}

/// D Theorem 3.1, first term of equation (2), for one of `places`: `D_a(P || Q)` at the orders `2..=most`, exact.
///
/// `E_Q R^a = a! / d^a [x^a] (sum_n x^n / n! e^{n (n-1) / (2 sigma^2)})^d`, by squaring power series in logarithms: the
/// coefficients of one power serve all orders.
#[must_use]
pub fn forward_exact(places: u64, noise_multiplier: f64, most: u32) -> Vec<f64> {
    let inverse = 0.5 / (noise_multiplier * noise_multiplier);
    let mut log_factorial = vec![0.0; most as usize + 1];
    for n in 1..log_factorial.len() {
        log_factorial[n] = log_factorial[n - 1] + (n as f64).ln();
    }
    // In coefficients of x^n / (n! d^n): the exponential generating function of a sum of independent terms divided by d.
    let scale = -(places as f64).ln();
    let base: Vec<f64> = (0..log_factorial.len())
        .map(|n| {
            let n_float = n as f64;
            n_float * (n_float - 1.0) * inverse + n_float * scale - log_factorial[n]
        })
        .collect();
    let mut power = base.clone();
    for bit in (0..places.max(1).ilog2()).rev() {
        power = log_product(&power, &power);
        if places >> bit & 1 == 1 {
            power = log_product(&power, &base);
        }
    }
    (2..=most as usize).map(|a| (power[a] + log_factorial[a]) / (a as f64 - 1.0)).collect()
}

/// The product of two power series with positive coefficients, given and returned as logarithms.
fn log_product(a: &[f64], b: &[f64]) -> Vec<f64> {
    (0..a.len())
        .map(|n| {
            let terms = || a[..=n].iter().zip(b[..=n].iter().rev()).map(|(x, y)| x + y);
            let largest = terms().fold(f64::NEG_INFINITY, f64::max);
            // Terms below e^-45 of the largest change nothing.
            let sum: f64 = terms().map(|t| t - largest).filter(|t| *t > -45.0).map(f64::exp).sum();
            largest + sum.ln()
        })
        .collect()
}

/// D Theorem 3.1, first term of equation (3): `ln sum_l P(l) e^{a l / (2 sigma^2)}` with `l` the overlap of two random
/// `ones`-subsets of `places` (hypergeometric).
#[must_use]
pub fn forward_bound(places: u64, ones: u64, noise_multiplier: f64, order: u32) -> f64 {
    let factor = 0.5 * f64::from(order) / (noise_multiplier * noise_multiplier);
    let (d, k) = (places as f64, ones as f64);
    let least = (2 * ones).saturating_sub(places);
    // P(l + 1) / P(l) = (k - l)^2 / ((l + 1) (d - 2 k + l + 1)); probabilities up to a common factor.
    let mut log_probability = 0.0;
    let mut terms = vec![];
    for l in least..=ones {
        let l = l as f64;
        terms.push((log_probability, factor * l));
        log_probability += 2.0 * (k - l).ln() - (l + 1.0).ln() - (d - 2.0 * k + l + 1.0).ln();
    }
    let log_sum = |values: &dyn Fn(&(f64, f64)) -> f64| {
        let largest = terms.iter().map(values).fold(f64::NEG_INFINITY, f64::max);
        largest + terms.iter().map(|term| (values(term) - largest).exp()).sum::<f64>().ln()
    };
    let total = log_sum(&|term| term.0);
    let moment = log_sum(&|term| term.0 + term.1);
    if moment - total > 0.1 {
        return moment - total;
    }
    // ln(1 + sum P (e^x - 1)) keeps small divergences exact.
    terms.iter().map(|(p, x)| (p - total).exp() * x.exp_m1()).sum::<f64>().ln_1p()
}

/// A bound on the reverse divergence `D_a(Q || P)`, in place of D's.
///
/// # Guarantee
/// Along the mean of all centres the pair is Gaussian at distance `k / (sigma sqrt(d))`; what is left is a mixture whose centres
/// average to 0, all at squared distance `v = k (d-k) / (sigma^2 d)`, with ratio `R`. The mean of exponentials is at least the exponential
/// of the mean, so `R >= x = e^{-v/2}`, and `E_Q R^{1-a} <= x^{1-a}`. Also `E_Q R = 1`, and `f(r) = r^{1-a}` lies below its tangent at 1 plus
/// `c (r-1)^2` on `[x, infinity)`, `c = (f(x) - 1 + (a-1)(x-1)) / (x-1)^2`: the quotient is a mean of `f''`, which decreases. Hence
/// `E_Q R^{1-a} <= 1 + c Var R`. The smaller of the two counts.
///
/// D's own term (Lemma 3.18, Corollary 3.19) compares with a single Gaussian and falls below the exact divergence, whether that Gaussian
/// spans `d` dimensions as printed or the `d - 1` that the centres span: the variance of `R` grows like `e^{1 / sigma^2} - 1`,
/// of which a Gaussian keeps two terms.
#[must_use]
pub fn reverse_bound(places: u64, ones: u64, noise_multiplier: f64, order: u32) -> f64 {
    let (d, k, a) = (places as f64, ones as f64, f64::from(order));
    let squared = noise_multiplier * noise_multiplier;
    let along = k * k / (squared * d);
    if ones >= places {
        return 0.5 * a * along;
    }
    let v = k * (d - k) / (squared * d);
    let variance = (forward_bound(places, ones, noise_multiplier, 2) - along).max(0.0).exp_m1();
    let curvature = if v < 1e-2 {
        // c <= f''(x) / 2, without the cancellation
        0.5 * a * (a - 1.0) * (0.5 * (a + 1.0) * v).exp()
    } else {
        let below = -(-0.5 * v).exp_m1();
        ((0.5 * (a - 1.0) * v).exp_m1() - (a - 1.0) * below) / (below * below)
    };
    let second = (curvature * variance).ln_1p() / (a - 1.0);
    0.5 * a * along + second.min(0.5 * v)
}
