//! Masses of the standard normal distribution, to full relative precision in both tails.

use std::f64::consts::{FRAC_1_SQRT_2, LN_2, PI};

/// `1 / sqrt(2 pi)`.
const INV_SQRT_2PI: f64 = 0.398_942_280_401_432_7;

/// The density at `x`.
pub(crate) fn density(x: f64) -> f64 {
    INV_SQRT_2PI * (-0.5 * x * x).exp()
}

/// The upper tail `Q(x) = P(Z > x)`.
pub(crate) fn upper_tail(x: f64) -> f64 {
    0.5 * libm::erfc(x * FRAC_1_SQRT_2)
}

/// `ln Q(x)`, finite for every finite `x`.
pub(crate) fn log_upper_tail(x: f64) -> f64 {
    if x > 5.0 {
        // Q(x) = erfcx(x / sqrt 2) exp(-x^2 / 2) / 2: the scaled function does not underflow.
        puruspe::erfcx(x * FRAC_1_SQRT_2).ln() - 0.5 * x * x - LN_2
    } else if x > 0.0 {
        upper_tail(x).ln()
    } else {
        (-upper_tail(-x)).ln_1p()
    }
}

/// The integral of a smooth function over `[a, b]` by the five-point Gauss-Legendre rule.
pub(crate) fn gauss(a: f64, b: f64, f: impl Fn(f64) -> f64) -> f64 {
    const NODES: [f64; 2] = [0.538_469_310_105_683_1, 0.906_179_845_938_664];
    const WEIGHTS: [f64; 3] = [0.568_888_888_888_888_9, 0.478_628_670_499_366_5, 0.236_926_885_056_189_1];
    let (middle, half) = (0.5 * (a + b), 0.5 * (b - a));
    let mut sum = WEIGHTS[0] * f(middle);
    for (node, weight) in NODES.iter().zip(&WEIGHTS[1..]) {
        sum += weight * (f(middle + half * node) + f(middle - half * node));
    }
    sum * half
}

/// `P(a < Z <= b)`; zero where `b <= a`.
///
/// Relative error below 1e-14 for any width: thin intervals are integrated by a five-point Gauss rule, whose
/// error `4e-13 ((|m| + 1) w)^10` is below rounding for `(|m| + 1) w <= 1/2` (`m` the midpoint, `w` the width); wide
/// ones are differences of tails on the side where no digits cancel.
pub(crate) fn interval(a: f64, b: f64) -> f64 {
    if b <= a {
        return 0.0;
    }
    let middle = 0.5 * (a + b);
    if (middle.abs() + 1.0) * (b - a) <= 0.5 {
        // phi(m + t) = phi(m) exp(-m t - t^2 / 2): t is exact where m + t would be rounded.
        let half = 0.5 * (b - a);
        return density(middle) * gauss(-half, half, |t| (-t * (middle + 0.5 * t)).exp());
    }
    if a >= 0.0 {
        upper_tail(a) - upper_tail(b)
    } else if b <= 0.0 {
        upper_tail(-b) - upper_tail(-a)
    } else {
        1.0 - upper_tail(b) - upper_tail(-a)
    }
}

/// The exact privacy profile of the Gaussian mechanism: `delta(epsilon)` for two unit normals at distance `mu`
/// (Balle and Wang 2018, Theorem 8), as a natural logarithm.
pub(crate) fn log_gaussian_delta(mu: f64, epsilon: f64) -> f64 {
    // delta = Q(epsilon / mu - mu / 2) - e^epsilon Q(epsilon / mu + mu / 2)
    let a = epsilon / mu - 0.5 * mu;
    let b = epsilon / mu + 0.5 * mu;
    let first = log_upper_tail(a);
    // e^epsilon phi(b) = phi(a), hence with the Mills ratio R(x) = Q(x) / phi(x): delta = phi(a) (R(a) - R(b)).
    if a > -1.0 {
        let difference = mills_difference(a, b);
        return -0.5 * a * a - 0.5 * (2.0 * PI).ln() + difference.ln();
    }
    let second = epsilon + log_upper_tail(b);
    first + (-(second - first).exp()).ln_1p()
}

/// `R(a) - R(b)` for the Mills ratio `R(x) = Q(x) / phi(x)`, `b >= a`.
fn mills_difference(a: f64, b: f64) -> f64 {
    const SQRT_PI_2: f64 = 1.253_314_137_315_500_3;
    let mills = |x: f64| SQRT_PI_2 * puruspe::erfcx(x * FRAC_1_SQRT_2);
    let width = b - a;
    if width > 0.05 {
        return mills(a) - mills(b);
    }
    // -R'(x) = 1 - x R(x) > 0
    gauss(a, b, |x| 1.0 - x * mills(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_match_arbitrary_precision_arithmetic() {
        for line in include_str!("../../tests/goldens/normal_tails.csv")
            .lines()
            .filter(|l| !l.starts_with('#'))
            .skip(1)
        {
            let (x, figure) = line.split_once(',').unwrap();
            let (x, figure): (f64, f64) = (x.parse().unwrap(), figure.parse().unwrap());
            let ours = log_upper_tail(x);
            // x is rounded to the nearest f64 in the golden's text, which moves ln Q(x) ~ -x^2 / 2 by x^2 roundings.
            let error = 4.0 * f64::EPSILON * (1.0 + x * x) * figure.abs().max(1e-300);
            assert!((ours - figure).abs() <= error, "{x}: {ours} {figure}");
        }
    }

    #[test]
    fn thin_intervals_are_as_exact_as_wide_ones() {
        for start in [-9.0, -3.3, -0.2, 0.0, 0.7, 4.0, 12.0] {
            let whole = interval(start, start + 0.4);
            for parts in [7, 50, 1000] {
                let cut = |i: usize| start + 0.4 * i as f64 / parts as f64;
                let sum: f64 = (0..parts).map(|i| interval(cut(i), cut(i + 1))).sum();
                // Boundaries are rounded: each moves mass phi(x) u |x| between neighbours, nothing at the ends but one rounding.
                assert!((sum / whole - 1.0).abs() < 1e-13, "{start} {parts}: {sum} {whole}");
            }
        }
        assert_eq!(interval(1.0, 1.0), 0.0);
        assert_eq!(interval(f64::NEG_INFINITY, f64::INFINITY), 1.0);
    }
}
