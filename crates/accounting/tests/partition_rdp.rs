//! The Rényi bounds of the partitioning paper against brute force, integration and the exact distribution.

#![allow(clippy::unwrap_used, reason = "a test")]

use dapple_accounting::partition::rdp::{Bound, PartitionRdp, forward_bound, forward_exact, reverse_bound};
use dapple_accounting::rdp::Conversion;
use dapple_accounting::{Pld, Precision};

/// All subsets of size `k` of `d` places, as bit masks.
fn subsets(d: u32, k: u32) -> Vec<u32> {
    (0..1_u32 << d).filter(|mask| mask.count_ones() == k).collect()
}

/// D equation (2) by its definition: the sum over all tuples of centres.
fn brute(d: u32, k: u32, sigma: f64, order: u32) -> f64 {
    let centres = subsets(d, k);
    let mut total = 0.0;
    let mut tuple = vec![0_usize; order as usize];
    loop {
        let mut overlap = 0;
        for (i, &a) in tuple.iter().enumerate() {
            for &b in &tuple[..i] {
                overlap += (centres[a] & centres[b]).count_ones();
            }
        }
        total += (f64::from(overlap) / (sigma * sigma)).exp();
        let Some(digit) = tuple.iter().position(|&t| t + 1 < centres.len()) else { break };
        tuple[digit] += 1;
        tuple[..digit].fill(0);
    }
    (total / (centres.len() as f64).powf(f64::from(order))).ln() / (f64::from(order) - 1.0)
}

#[test]
fn one_appearance_matches_the_sum_over_all_tuples() {
    for (d, most) in [(1, 5), (2, 8), (3, 6), (5, 5), (7, 4)] {
        for sigma in [0.4, 1.0, 3.0] {
            let ours = forward_exact(d.into(), sigma, most);
            for order in 2..=most {
                let exact = brute(d, 1, sigma, order);
                let value = ours[order as usize - 2];
                // Logarithms of sums of order 1: absolute rounding of 1e-13.
                assert!(
                    (value - exact).abs() <= 1e-12 * (1.0 + exact),
                    "{d} {sigma} {order}: {value} {exact}"
                );
            }
        }
    }
}

#[test]
fn the_convexity_bound_holds_and_is_exact_at_order_two() {
    for (d, k, most) in [(2, 1, 6), (4, 2, 4), (5, 3, 3), (4, 4, 3), (6, 2, 3)] {
        for sigma in [0.5, 1.0, 2.0] {
            for order in 2..=most {
                let exact = brute(d, k, sigma, order);
                let bound = forward_bound(d.into(), k.into(), sigma, order);
                assert!(bound >= exact - 1e-12 * (1.0 + exact), "{d} {k} {sigma} {order}: {bound} {exact}");
                if order == 2 {
                    assert!((bound - exact).abs() <= 1e-12 * (1.0 + exact), "{d} {k} {sigma}");
                }
            }
        }
    }
}

/// `E_Q R^s` over `d` = 2 or 3 places by the trapezoid rule, and the divergence `ln / (order - 1)` for `s = 1 - order`.
fn reverse_integrated(d: u32, sigma: f64, order: u32) -> f64 {
    let mu = 1.0 / sigma;
    let reach = 12.0 + f64::from(order) * mu;
    let count = 300;
    let nodes: Vec<(f64, f64)> = (0..=count)
        .map(|i| {
            let t = reach * (2.0 * f64::from(i) / f64::from(count) - 1.0);
            let weight = 2.0 * reach / f64::from(count) / std::f64::consts::TAU.sqrt();
            ((mu * t - 0.5 * mu * mu).exp(), weight * (-0.5 * t * t).exp())
        })
        .collect();
    let power = |sum: f64| (sum / f64::from(d)).powf(1.0 - f64::from(order));
    let mut total = 0.0;
    for &(x, p) in &nodes {
        for &(y, q) in &nodes {
            if d == 2 {
                total += p * q * power(x + y);
            } else {
                total +=
                    nodes.iter().step_by(4).map(|&(z, r)| 4.0 * p * q * r * power(x + y + z)).sum::<f64>();
            }
        }
    }
    total.ln() / (f64::from(order) - 1.0)
}

#[test]
fn the_reverse_bound_holds_where_the_printed_one_does_not() {
    // D Corollary 3.19 as printed, for d = 2, one appearance, sigma = 1, order 2.
    let printed = 0.5 + 0.5 * (2.0 * 0.5 - 2.0 * (2.0 * 0.25_f64.exp() - 1.0).ln());
    let exact = reverse_integrated(2, 1.0, 2);
    assert!(printed < exact, "{printed} is not a bound on {exact}");
    assert!((printed - 0.5502).abs() < 5e-5 && (exact - 0.5690).abs() < 5e-5);
    for (d, sigmas) in [(2, &[0.7, 1.0, 2.0][..]), (3, &[1.0, 2.0])] {
        for &sigma in sigmas {
            for order in [2, 3, 5] {
                let exact = reverse_integrated(d, sigma, order);
                let bound = reverse_bound(d.into(), 1, sigma, order);
                // The trapezoid rule on smooth, fast decaying integrands: ten digits.
                assert!(bound >= exact - 1e-9, "{d} {sigma} {order}: {bound} below {exact}");
            }
        }
    }
}

#[test]
fn equation_three_is_above_two_is_above_the_distribution() {
    for (d, sigma) in [(2, 1.0), (4, 0.7), (8, 2.0), (100, 1.0), (1000, 1.0)] {
        let exact = PartitionRdp::new(d, 1, sigma, Bound::Exact).unwrap();
        let bound = PartitionRdp::new(d, 1, sigma, Bound::Convexity).unwrap();
        for order in 2..=100 {
            let (two, three) = (exact.divergence(order).unwrap(), bound.divergence(order).unwrap());
            assert!(three >= two * (1.0 - 1e-12) - 1e-12, "{d} {sigma} {order}: {three} < {two}");
        }
        for delta in [1e-3, 1e-6, 1e-9] {
            let pld = Pld::split(d, sigma).unwrap().epsilon(delta, Precision::default()).unwrap();
            let [two, three] =
                [&exact, &bound].map(|rdp| rdp.epsilon(1, delta, Conversion::Tight).unwrap().epsilon);
            let classic = exact.epsilon(1, delta, Conversion::Classic).unwrap().epsilon;
            assert!(pld.lower <= two && two <= three && two <= classic, "{pld:?} {two} {three} {classic}");
        }
    }
}

#[test]
fn all_places_taken_is_the_gaussian_mechanism() {
    for order in [2, 7, 50] {
        // Distance sqrt(d) / sigma.
        let gaussian = 0.5 * f64::from(order) * 9.0 / 4.0;
        assert!((forward_bound(9, 9, 2.0, order) - gaussian).abs() < 1e-12 * gaussian);
        assert!((reverse_bound(9, 9, 2.0, order) - gaussian).abs() < 1e-12 * gaussian);
        let one = forward_exact(1, 2.0, order)[order as usize - 2];
        assert!((one - 0.5 * f64::from(order) / 4.0).abs() < 1e-12 * f64::from(order));
    }
}
