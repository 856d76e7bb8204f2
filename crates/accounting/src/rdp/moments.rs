//! Moments of likelihood ratios, as logarithms.

use crate::numerics::normal::gauss;

/// `ln sum e^x`.
pub(crate) fn log_sum(terms: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = terms.clone().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    largest + terms.map(|x| (x - largest).exp()).sum::<f64>().ln()
}

/// `ln E_Q (1 - q + q R)^a` at an integer order: `sum_l C(a, l) (1-q)^{a-l} q^l E_Q R^l` (partitioning paper, Theorem 3.11, for any ratio;
/// Mironov, Talwar and Zhang 2019, equation 10), from `ln E_Q R^l`.
pub(crate) fn sampled_log_moment(rate: f64, order: u32, log_moment: impl Fn(u32) -> f64) -> f64 {
    let a = f64::from(order);
    let mut log_binomial = 0.0;
    let mut terms = Vec::with_capacity(order as usize + 1);
    for l in 0..=order {
        let lf = f64::from(l);
        if l > 0 {
            log_binomial += ((a - lf + 1.0) / lf).ln();
        }
        let log_rates = (a - lf) * (-rate).ln_1p() + lf * rate.ln();
        terms.push((log_binomial + log_rates, log_moment(l)));
    }
    // The probabilities add up to 1: ln(1 + sum p (e^x - 1)) keeps small moments exact.
    let largest = terms.iter().map(|(p, x)| p + x).fold(f64::NEG_INFINITY, f64::max);
    if largest < 600.0 {
        let excess = |(p, x): &(f64, f64)| if *x < 600.0 { p.exp() * x.exp_m1() } else { (p + x).exp() };
        terms.iter().map(excess).sum::<f64>().ln_1p()
    } else {
        log_sum(terms.iter().map(|(p, x)| p + x))
    }
}

/// `ln` of the integral of `e^f` over `[from, to]` by Gauss panels.
pub(super) fn log_integral(from: f64, to: f64, f: impl Fn(f64) -> f64) -> f64 {
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
