//! What the masked paper says a run costs, to be shown beside what it really costs.

use crate::Plan;

/// The orders that are tried. The best one for an epsilon of 0.1 lies near 200.
const ORDERS: std::ops::RangeInclusive<u32> = 2..=256;

/// The epsilon that Theorem 1 of the masked paper (M) claims for the plan's noise, batch and steps: the least over orders `a` of
/// `T eps_a + ln((a-1)/a) - (ln delta + ln a)/(a-1)`, with the step's `eps_a` of M equation (5),
///
/// ```text
/// ln[ (1-g)^(a-1) (a g - g + 1) + C(a,2) g^2 (1-g)^(a-2) e^(1/s^2)
///     + sum_{l=3..a} C(a,l) (1-g)^(a-l) g^l e^(l(l-1)/(2 s^2)) ] / (a-1),     g = B/N, s = sigma/C.
/// ```
///
/// The displayed theorem drops a factor `l` of the last exponent that its proof has, and sets products as powers. This is the form of the
/// proof.
///
/// # Guarantee
/// None. The claim counts a substituted token as one clip norm although it moves the sum by two, and takes the sample to be secret
/// although unclipped public gradients reveal it. [`Plan::epsilon`] is the bound that holds.
#[must_use]
pub fn claimed_epsilon(plan: &Plan) -> f64 {
    let delta = plan.delta();
    let at = |a: u32| {
        let order = f64::from(a);
        let part = |part: &Plan| part.steps() as f64 * step(a, part.sample_rate(), part.noise_multiplier());
        plan.parts().iter().map(part).sum::<f64>() + ((order - 1.0) / order).ln()
            - (delta.ln() + order.ln()) / (order - 1.0)
    };
    ORDERS.map(at).fold(f64::INFINITY, f64::min).max(0.0)
}

/// M equation (5), in logarithms so that no term overflows.
fn step(a: u32, g: f64, s: f64) -> f64 {
    let order = f64::from(a);
    // x^n, with 0^0 = 1
    let log_power = |x: f64, n: u32| if n == 0 { 0.0 } else { f64::from(n) * x.ln() };
    let mut logs = vec![log_power(1.0 - g, a - 1) + (order * g - g + 1.0).ln()];
    let mut log_binomial = order.ln();
    for l in 2..=a {
        log_binomial += ((order - f64::from(l) + 1.0) / f64::from(l)).ln();
        let exponent = f64::from(l) * (f64::from(l) - 1.0) / (2.0 * s * s);
        logs.push(log_binomial + log_power(1.0 - g, a - l) + log_power(g, l) + exponent);
    }
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logs.iter().map(|log| (log - largest).exp()).sum();
    (largest + sum.ln()) / (order - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_accounting::rdp::{Conversion, Rdp};

    #[test]
    fn the_claim_is_record_level_accounting_for_added_records() {
        // Equation (5) is the Poisson-sampled Gaussian at sensitivity C. The accountant writes the sum differently.
        let orders: Vec<f64> = ORDERS.map(f64::from).collect();
        for (g, s) in [(0.01, 1.0), (0.2, 0.7), (0.001, 5.0), (1.0, 3.0)] {
            let rdp = Rdp::poisson_gaussian(g, s).unwrap();
            for a in [2, 3, 17, 64] {
                let expected = rdp.divergence(f64::from(a));
                // Both lose about 1e-16 / (a - 1) to the logarithm of a sum near one.
                assert!((step(a, g, s) - expected).abs() <= 1e-9 * expected + 1e-14, "{g} {s} {a}");
            }
            let spec = crate::PlanSpec::from_toml(&format!(
                "[privacy]\nrelation = \"masked\"\ndelta = 1e-5\nnoise_multiplier = {s:?}\n[sampling]\nrecords = 1000\nbatch = {}\nsteps = 50\n",
                (1000.0 * g) as u64
            ));
            let plan = Plan::check(&spec.unwrap()).unwrap();
            let expected =
                rdp.self_compose(50).epsilon_over(&orders, 1e-5, Conversion::Tight).unwrap().epsilon;
            // Steps agree to 1e-9, and so does what they compose to.
            assert!((claimed_epsilon(&plan) / expected - 1.0).abs() < 1e-9);
        }
    }
}
