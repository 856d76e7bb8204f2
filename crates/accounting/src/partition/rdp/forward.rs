//! The forward divergence in closed form: for one appearance exactly, for several bounded.

use crate::rdp::log_sum;

/// Theorem 3.1 of the partitioning paper (D), first term of equation (2), for one of `places`: `D_a(P || Q)` at the orders `2..=most`, exact.
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

/// D Theorem 3.1, first term of equation (3) (D Corollary 3.14): `ln sum_l P(l) e^{a l / (2 sigma^2)}` with `l` the overlap of two
/// random `ones`-subsets of `places` (hypergeometric).
#[must_use]
pub fn forward_bound(places: u64, ones: u64, noise_multiplier: f64, order: u32) -> f64 {
    OverlapLaw::new(places, ones).log_moment(0.5 * f64::from(order) / (noise_multiplier * noise_multiplier))
}

/// [`forward_bound`] at the orders `2..=most`.
pub(super) fn bounds(places: u64, ones: u64, noise_multiplier: f64, most: u32) -> Vec<f64> {
    let overlap = OverlapLaw::new(places, ones);
    let factor = 0.5 / (noise_multiplier * noise_multiplier);
    (2..=most).map(|order| overlap.log_moment(f64::from(order) * factor)).collect()
}

/// The law of the overlap of two random subsets.
struct OverlapLaw {
    least: f64,
    /// Logarithms of probabilities, up to a common summand.
    log_masses: Vec<f64>,
    log_total: f64,
}

impl OverlapLaw {
    fn new(places: u64, ones: u64) -> Self {
        let (d, k) = (places as f64, ones.min(places) as f64);
        let least = (2.0 * k - d).max(0.0);
        // P(l + 1) / P(l) = (k - l)^2 / ((l + 1) (d - 2 k + l + 1))
        let mut log_mass = 0.0;
        let mut log_masses = vec![];
        let mut l = least;
        while l <= k {
            log_masses.push(log_mass);
            log_mass += 2.0 * (k - l).ln() - (l + 1.0).ln() - (d - 2.0 * k + l + 1.0).ln();
            l += 1.0;
        }
        let mut overlap = Self { least, log_masses, log_total: 0.0 };
        overlap.log_total = log_sum(overlap.relevant(0.0).map(|(log_mass, _)| log_mass));
        overlap
    }

    /// The terms `(ln P(l), l)` that matter to `E e^{factor l}`.
    ///
    /// The sequence is log-concave: what is left out on either side falls faster than geometrically from e^-60 of the largest.
    fn relevant(&self, factor: f64) -> impl Iterator<Item = (f64, f64)> + Clone {
        let at = |i: usize| self.log_masses[i] + factor * i as f64;
        let (mut low, mut high) = (0, self.log_masses.len() - 1);
        while low < high {
            let middle = (low + high) / 2;
            if at(middle + 1) > at(middle) { low = middle + 1 } else { high = middle }
        }
        let least = at(low) - 60.0;
        let from = (0..low).rev().find(|&i| at(i) < least).unwrap_or(0);
        let to = (low..self.log_masses.len()).find(|&i| at(i) < least).unwrap_or(self.log_masses.len());
        let first = self.least;
        self.log_masses[from..to]
            .iter()
            .enumerate()
            .map(move |(i, &log_mass)| (log_mass, first + (from + i) as f64))
    }

    /// `ln E e^{factor l}`.
    fn log_moment(&self, factor: f64) -> f64 {
        let moment = log_sum(self.relevant(factor).map(|(p, l)| p + factor * l)) - self.log_total;
        if moment > 0.1 {
            return moment;
        }
        // ln(1 + sum P (e^x - 1)) keeps small divergences exact.
        let excess = |(p, l): (f64, f64)| {
            let (p, x) = (p - self.log_total, factor * l);
            if x < 30.0 { p.exp() * x.exp_m1() } else { (p + x).exp() }
        };
        self.relevant(factor).map(excess).sum::<f64>().ln_1p()
    }
}
