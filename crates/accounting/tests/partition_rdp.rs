//! The Rényi bounds of the partitioning paper against brute force, integration and the exact distribution.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use dapple_accounting::partition::rdp::{
    Bound, PartitionRdp, forward_bound, forward_exact, forward_exact_several, printed_reverse,
};
use dapple_accounting::rdp::{Conversion, Rdp};
use dapple_accounting::{BracketPrecision, Pld};

/// All subsets of size `k` of `d` places, as bit masks.
fn subsets(d: u32, k: u32) -> Vec<u32> {
    (0..1_u32 << d).filter(|mask| mask.count_ones() == k).collect()
}

/// Equation (2) of the partitioning paper (D) by its definition: the sum over all tuples of centres.
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
                // Sums of at most a few thousand exponentials: 1e-12 of rounding.
                assert!(bound >= exact - 1e-12 * (1.0 + exact), "{d} {k} {sigma} {order}: {bound} {exact}");
                if order == 2 {
                    assert!((bound - exact).abs() <= 1e-12 * (1.0 + exact), "{d} {k} {sigma}");
                }
            }
        }
    }
}

#[test]
fn several_appearances_match_the_sum_over_all_tuples() {
    for (d, k, most) in
        [(3, 2, 6), (4, 2, 5), (5, 2, 4), (5, 3, 4), (6, 2, 4), (6, 4, 4), (7, 3, 3), (5, 5, 3)]
    {
        for sigma in [0.4, 1.0, 3.0] {
            let ours = forward_exact_several(d.into(), k.into(), sigma, most);
            assert_eq!(ours.len(), most as usize - 1, "{d} {k}: all orders are within reach");
            for order in 2..=most {
                let (exact, value) = (brute(d, k, sigma, order), ours[order as usize - 2]);
                // Sums of positive terms: a few hundred roundings.
                assert!(
                    (value - exact).abs() <= 1e-12 * (1.0 + exact),
                    "{d} {k} {sigma} {order}: {value} {exact}"
                );
            }
        }
    }
    // One of many, by power series and by columns.
    let (series, columns) = (forward_exact(1000, 0.8, 12), forward_exact_several(1000, 1, 0.8, 12));
    for (a, b) in series.iter().zip(&columns) {
        // The series keeps logarithms of coefficients, an absolute precision of 1e-13 before division by the order.
        assert!((a - b).abs() < 1e-12 * (1.0 + a), "{a} {b}");
    }
    // Equation (3) is never below it, wherever it can be computed.
    for (d, k) in [(10, 4), (10, 7), (20, 10), (50, 2), (100, 95), (1000, 10)] {
        for sigma in [0.5, 1.0, 4.0] {
            for (two, order) in forward_exact_several(d, k, sigma, 20).iter().zip(2_u32..) {
                let three = forward_bound(d, k, sigma, order);
                assert!(*two <= three * (1.0 + 1e-12), "{d} {k} {sigma} {order}: {two} above {three}");
            }
        }
    }
    // Long runs are cut short, not refused.
    assert!((3..40).contains(&forward_exact_several(1000, 10, 1.0, 256).len()));
    assert_eq!(forward_exact_several(2000, 655, 10.0, 256).len(), 1);
}

/// How often a record is sampled and what all submodels share.
#[derive(Debug, Clone, Copy)]
struct Extras {
    rate: f64,
    shared: f64,
}

/// `D_a(P || Q)` and `D_a(Q || P)` of `k` of `d` places by the trapezoid rule over each coordinate, good to ten digits
/// for these smooth, fast decaying integrands.
fn integrated(d: usize, k: usize, sigma: f64, order: u32, extras: Extras) -> [f64; 2] {
    let a = f64::from(order);
    let nodes = |mu: f64, count: u32| -> Vec<(f64, f64)> {
        if mu == 0.0 {
            return vec![(1.0, 1.0)];
        }
        let reach = 9.0 + a * mu;
        let step = 2.0 * reach / f64::from(count);
        let node = |i: u32| {
            let t = step * f64::from(i) - reach;
            ((mu * t - 0.5 * mu * mu).exp(), step * (-0.5 * t * t).exp() / std::f64::consts::TAU.sqrt())
        };
        (0..=count).map(node).collect()
    };
    let coordinate = nodes(1.0 / sigma, 64);
    let shared = nodes(extras.shared / sigma, 40);
    let subsets = subsets(d as u32, k as u32);
    let mut moments = [0.0; 2];
    let mut index = vec![0; d];
    loop {
        let weight: f64 = index.iter().map(|&i| coordinate[i].1).product();
        if weight > 1e-60 {
            let product = |mask: &u32| -> f64 {
                (0..d).filter(|j| mask >> j & 1 == 1).map(|j| coordinate[index[j]].0).product()
            };
            let ratio = subsets.iter().map(product).sum::<f64>() / subsets.len() as f64;
            for &(x, w) in &shared {
                let seen = 1.0 - extras.rate + extras.rate * ratio * x;
                moments[0] += weight * w * seen.powf(a);
                moments[1] += weight * w * seen.powf(1.0 - a);
            }
        }
        let Some(place) = index.iter().position(|&i| i + 1 < coordinate.len()) else { break };
        index[place] += 1;
        index[..place].fill(0);
    }
    moments.map(|moment| moment.ln() / (a - 1.0))
}

#[test]
fn the_forward_divergence_is_exact_and_bounds_the_reverse_one() {
    for (d, k, sigma) in [(2_usize, 1_usize, 0.7), (2, 1, 2.0), (3, 1, 1.0), (3, 2, 1.0), (3, 2, 2.5)] {
        for extras in [
            Extras { rate: 1.0, shared: 0.0 },
            Extras { rate: 0.2, shared: 0.0 },
            Extras { rate: 0.3, shared: 0.8 },
        ] {
            let split = if extras.shared > 0.0 {
                // Several appearances beside a shared part are no mechanism of ours.
                if k > 1 {
                    continue;
                }
                PartitionRdp::partial_split(d as u64, 1.0, extras.shared, sigma, Bound::Exact).unwrap()
            } else {
                PartitionRdp::new(d as u64, k as u64, sigma, Bound::Exact).unwrap()
            };
            let rdp = split.sampled(extras.rate).unwrap();
            for order in [2, 3, 5] {
                let [forward, reverse] = integrated(d, k, sigma, order, extras);
                let ours = rdp.divergence(order).unwrap();
                // The integral is good to nine digits, which the comparison of both directions relies on, too.
                assert!(
                    (ours - forward).abs() < 1e-8 * (1.0 + forward),
                    "{d} {k} {sigma} {order} {extras:?}: {ours} {forward}"
                );
                assert!(reverse <= ours + 1e-9, "{d} {k} {sigma} {order} {extras:?}: {reverse} above {ours}");
            }
        }
    }
}

#[test]
fn the_printed_reverse_term_is_no_bound() {
    let none = Extras { rate: 1.0, shared: 0.0 };
    let (printed, [_, exact]) = (printed_reverse(2, 1, 1.0, 2), integrated(2, 1, 1.0, 2, none));
    assert!((printed - 0.5502).abs() < 5e-5 && (exact - 0.5690).abs() < 5e-5, "{printed} {exact}");
    for (d, k, sigma, order) in [(2_usize, 1_usize, 2.0, 3), (3, 1, 1.0, 2), (3, 2, 1.0, 3)] {
        let [_, exact] = integrated(d, k, sigma, order, none);
        let printed = printed_reverse(d as u64, k as u64, sigma, order);
        assert!(printed < exact - 1e-4, "{d} {k} {sigma} {order}: {printed} {exact}");
    }
}

#[test]
fn cases_that_need_no_theory() {
    // Closed sums in another order: 1e-11 of rounding.
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-11 * (1.0 + b);
    let gaussian = Rdp::poisson_gaussian(0.2, 1.3).unwrap();
    for bound in [Bound::Exact, Bound::Convexity] {
        // One place, whole or in two parts, is the Gaussian mechanism; sampled, D Theorem 3.11.
        let whole = PartitionRdp::new(1, 1, 1.3, bound).unwrap();
        let parts = PartitionRdp::partial_split(1, 0.6, 0.8, 1.3, bound).unwrap();
        // All places, or all parameters shared, leave nothing to hide in.
        let all = PartitionRdp::new(9, 9, 3.9, bound).unwrap();
        let shared = PartitionRdp::partial_split(7, 0.0, 1.0, 1.3, bound).unwrap();
        for order in [2, 3, 17] {
            let expected = 0.5 * f64::from(order) / 1.69;
            for rdp in [&whole, &parts, &all, &shared] {
                // Equation (2) stops early for nine of nine only if its orders are out of reach.
                assert!(close(rdp.divergence(order).unwrap(), expected), "{bound:?} {order}");
                let sampled = rdp.sampled(0.2).unwrap().divergence(order).unwrap();
                assert!(close(sampled, gaussian.divergence(order.into())), "{bound:?} {order}");
            }
        }
        let split = PartitionRdp::new(5, 1, 0.8, bound).unwrap();
        let unsampled = split.sampled(1.0).unwrap();
        let mixture = PartitionRdp::mixture(&[(0.3, split.clone()), (0.7, split.clone())]).unwrap();
        let other = PartitionRdp::mixture(&[(0.3, whole.clone()), (0.7, split.clone())]).unwrap();
        for order in [2, 3, 17] {
            let expected = split.divergence(order).unwrap();
            assert!(close(unsampled.divergence(order).unwrap(), expected));
            assert!(close(mixture.divergence(order).unwrap(), expected));
            // E R^a of a mixture lies between those of its parts.
            let between = other.divergence(order).unwrap();
            let ends = [whole.divergence(order).unwrap(), expected];
            assert!(between <= ends[0].max(ends[1]) && between >= ends[0].min(ends[1]));
        }
    }
    assert!(PartitionRdp::mixture(&[]).is_err());
}

#[test]
fn real_orders_lie_between_integer_ones() {
    let split = PartitionRdp::new(4, 1, 1.0, Bound::Exact).unwrap();
    let rdp = Rdp::partition(split.clone()).self_compose(10);
    let integer = split.epsilon(10, 1e-6, Conversion::Tight).unwrap().epsilon;
    let real = rdp.epsilon(1e-6).unwrap().epsilon;
    let pld =
        Pld::split(4, 1.0).unwrap().self_compose(10).epsilon(1e-6, BracketPrecision::default()).unwrap();
    // A chord meets the curve at integer orders; the search over real ones stops within 1e-4 of the best logarithm.
    assert!(pld.lower.unwrap() <= real && real <= integer * 1.001, "{pld:?} {real} {integer}");
    assert_eq!(rdp.divergence(300.0), f64::INFINITY);
    for order in [2.0, 3.0, 100.0] {
        assert_eq!(rdp.divergence(order), 10.0 * split.divergence(order as u32).unwrap());
        assert!(rdp.divergence(order + 0.5) >= rdp.divergence(order));
    }
}

#[test]
fn the_papers_figures_are_met() {
    let orders: Vec<f64> = (2_u32..=100).map(f64::from).collect();
    let balanced = |steps, k, sigma| PartitionRdp::new(steps, k, sigma, Bound::Convexity).unwrap();
    let rdp = |sampling: &str, steps: u64, k: u64, sigma: f64| match sampling {
        "poisson" => Rdp::poisson_gaussian(k as f64 / steps as f64, sigma).unwrap().self_compose(steps),
        "balanced" => Rdp::partition(balanced(steps, k, sigma)),
        _ => {
            let split = PartitionRdp::partial_split(k, 0.5, 0.5, sigma, Bound::Convexity).unwrap();
            Rdp::partition(split.sampled(0.1).unwrap()).self_compose(steps)
        }
    };
    for row in common::rows(include_str!("goldens/partition/renyi.csv")) {
        let [steps, k] = ["steps", "per_record"].map(|column| common::number(&row, column) as u64);
        let (at, value) = (common::number(&row, "at"), common::number(&row, "value"));
        let of = |sigma: f64| rdp(row["sampling"], steps, k, sigma);
        match row["quantity"] {
            // Logarithms of binomials by lgamma: ten digits.
            "divergence" => {
                let ours = of(common::number(&row, "sigma")).divergence(at);
                assert!((ours / value - 1.0).abs() < 1e-9, "{row:?}: {ours}");
            }
            "delta" => {
                let sigma = common::number(&row, "sigma");
                let ours = of(sigma).delta_over(&orders, at, Conversion::Classic).unwrap();
                assert!((ours / value - 1.0).abs() < 1e-8, "{row:?}: {ours}");
                if row["sampling"] == "balanced" {
                    // The tight conversion and higher orders can only help.
                    assert!(balanced(steps, k, sigma).delta(1, at, Conversion::Tight).unwrap() < ours);
                }
            }
            _ => {
                // The noise was bisected to one part in ten million, from above.
                let epsilon =
                    |sigma| of(sigma).epsilon_over(&orders, 1e-5, Conversion::Classic).unwrap().epsilon;
                assert!(epsilon(value * (1.0 + 1e-6)) < at && epsilon(value * (1.0 - 1e-6)) > at, "{row:?}");
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
            let pld = Pld::split(d, sigma).unwrap().epsilon(delta, BracketPrecision::default()).unwrap();
            let [two, three] =
                [&exact, &bound].map(|rdp| rdp.epsilon(1, delta, Conversion::Tight).unwrap().epsilon);
            let classic = exact.epsilon(1, delta, Conversion::Classic).unwrap().epsilon;
            assert!(
                pld.lower.unwrap() <= two && two <= three && two <= classic,
                "{pld:?} {two} {three} {classic}"
            );
        }
    }
}

#[test]
fn all_places_taken_is_the_gaussian_mechanism() {
    for order in [2, 7, 50] {
        // Distance sqrt(d) / sigma; a closed form against sums of at most fifty terms.
        let gaussian = 0.5 * f64::from(order) * 9.0 / 4.0;
        assert!((forward_bound(9, 9, 2.0, order) - gaussian).abs() < 1e-12 * gaussian);
        let one = forward_exact(1, 2.0, order)[order as usize - 2];
        assert!((one - 0.5 * f64::from(order) / 4.0).abs() < 1e-12 * f64::from(order));
    }
}
