//! The best of a random number of outputs, against the law of that output written down outcome by outcome.

#![allow(clippy::unwrap_used, reason = "a test")]

use dapple_accounting::rdp::Rdp;
use dapple_accounting::selection::{BaseMechanism, Repetitions, Selection};
use proptest::prelude::*;

/// A mechanism with a few outcomes, worst first, on two neighbouring data sets.
#[derive(Debug, Clone)]
struct Finite {
    here: Vec<f64>,
    there: Vec<f64>,
}

/// `1/(a-1) ln sum p^a q^(1-a)`
fn divergence(p: &[f64], q: &[f64], order: f64) -> f64 {
    let terms = p.iter().zip(q).map(|(p, q)| order * p.ln() + (1.0 - order) * q.ln());
    let largest = terms.clone().fold(f64::NEG_INFINITY, f64::max);
    (largest + terms.map(|term| (term - largest).exp()).sum::<f64>().ln()) / (order - 1.0)
}

/// `sup_A P(A) - e^eps Q(A)`
fn hockey_stick(p: &[f64], q: &[f64], epsilon: f64) -> f64 {
    p.iter().zip(q).map(|(p, q)| (p - epsilon.exp() * q).max(0.0)).sum()
}

impl BaseMechanism for Finite {
    fn divergence(&self, order: f64) -> f64 {
        divergence(&self.here, &self.there, order).max(divergence(&self.there, &self.here, order))
    }

    fn delta(&self, epsilon: f64) -> f64 {
        hockey_stick(&self.here, &self.there, epsilon).max(hockey_stick(&self.there, &self.here, epsilon))
    }

    fn largest_order(&self) -> f64 {
        300.0
    }
}

/// The probabilities of 0, 1, 2, ... repetitions by the definitions in the paper; what is left out is below 1e-13.
fn masses(law: Repetitions) -> Vec<f64> {
    let mut masses = Vec::new();
    let mut sum = 0.0;
    while sum < 1.0 - 1e-13 && masses.len() < 100_000 {
        let k = masses.len();
        let mass = match law {
            Repetitions::Poisson { mean } => {
                (1..=k).map(|l| (mean / l as f64).ln()).sum::<f64>().exp() * (-mean).exp()
            }
            Repetitions::NegativeBinomial { .. } if k == 0 => 0.0,
            Repetitions::NegativeBinomial { shape: 0.0, gamma } => {
                (1.0 - gamma).powf(k as f64) / (k as f64 * -gamma.ln())
            }
            Repetitions::NegativeBinomial { shape, gamma } => {
                let product: f64 = (0..k).map(|l| (l as f64 + shape) / (l as f64 + 1.0)).product();
                (1.0 - gamma).powf(k as f64) / (gamma.powf(-shape) - 1.0) * product
            }
        };
        sum += mass;
        masses.push(mass);
    }
    masses
}

/// The law of the best output; last, where that can be, of none.
fn best(outcomes: &[f64], masses: &[f64]) -> Vec<f64> {
    let (mut below, mut law) = (0.0, Vec::new());
    for &mass in outcomes {
        let upto = below + mass;
        let between = |k: usize| f64::powf(upto, k as f64) - f64::powf(below, k as f64);
        law.push(masses.iter().enumerate().skip(1).map(|(k, mass)| mass * between(k)).sum());
        below = upto;
    }
    if masses[0] > 0.0 {
        law.push(masses[0]);
    }
    law
}

fn laws() -> Vec<Repetitions> {
    let mut laws = Vec::new();
    for mean in [1.3, 3.0, 20.0] {
        laws.extend(
            [-0.5, 0.0, 0.5, 1.0, 2.0].map(|shape| Repetitions::negative_binomial(shape, mean).unwrap()),
        );
    }
    laws.extend([0.05, 0.7, 3.0, 20.0].map(|mean| Repetitions::poisson(mean).unwrap()));
    laws
}

const ORDERS: [f64; 7] = [1.05, 1.5, 2.0, 3.5, 8.0, 30.0, 200.0];

#[test]
fn laws_have_the_mean_that_was_asked_for() {
    for (law, mean) in laws().into_iter().zip([[1.3; 5], [3.0; 5], [20.0; 5]].concat()) {
        let found: f64 = masses(law).iter().enumerate().map(|(k, mass)| k as f64 * mass).sum();
        // Masses below 1e-13 are left out, and they lie a few hundred repetitions out.
        assert!((found - mean).abs() < 1e-8 && (law.mean() - mean).abs() < 1e-9, "{law:?}: {found}");
    }
}

#[test]
fn quantiles_are_those_of_the_masses() {
    for law in laws() {
        let masses = masses(law);
        let mut below = 0.0;
        for (k, mass) in masses.iter().enumerate().filter(|(_, mass)| **mass > 1e-9) {
            // Just inside both ends, farther than sums of probabilities round.
            for uniform in [below + 0.001 * mass, below + 0.999 * mass] {
                assert_eq!(law.quantile(uniform), k as u64, "{law:?} at {uniform}");
            }
            below += mass;
        }
        // The last number below 1 is a quantile too.
        assert!(law.quantile(1.0 - f64::EPSILON / 2.0) < 100_000);
    }
}

fn mechanism() -> impl Strategy<Value = Finite> {
    (2..5usize).prop_flat_map(|outcomes| {
        let side = || prop::collection::vec(0.01..1.0_f64, outcomes);
        (side(), side()).prop_map(|(here, there)| {
            let normed = |side: Vec<f64>| {
                let sum: f64 = side.iter().sum();
                side.into_iter().map(|mass| mass / sum).collect()
            };
            Finite { here: normed(here), there: normed(there) }
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_true_divergence_is_never_above(base in mechanism(), which in 0..19usize) {
        let law = laws()[which];
        let masses = masses(law);
        let [here, there] = [&base.here, &base.there].map(|side| best(side, &masses));
        let selection = Selection::new(law, &base);
        for order in ORDERS {
            let truth = divergence(&here, &there, order).max(divergence(&there, &here, order));
            // The enumeration leaves out masses of 1e-13, and rounds.
            prop_assert!(truth <= selection.divergence(order) + 1e-9, "order {order}: {truth}");
        }
        for delta in [1e-9, 1e-4, 0.05] {
            let epsilon = selection.epsilon(delta).unwrap().epsilon;
            let truth = hockey_stick(&here, &there, epsilon).max(hockey_stick(&there, &here, epsilon));
            prop_assert!(truth <= delta + 1e-11, "{truth} at {epsilon}");
        }
    }
}

#[test]
fn a_bound_that_ignores_the_law_is_broken() {
    // A rare best outcome that one data set has e times as often.
    let e = std::f64::consts::E;
    let base = Finite { here: vec![1.0 - 0.001 * e, 0.001 * e], there: vec![0.999, 0.001] };
    let law = Repetitions::negative_binomial(1.0, 20.0).unwrap();
    let [here, there] = [&base.here, &base.there].map(|side| best(side, &masses(law)));
    let truth = |order| divergence(&here, &there, order).max(divergence(&there, &here, order));
    assert!(truth(4.0) > base.divergence(4.0), "one run's price is not enough");
    // Twenty runs, no more and no less: the law's price is not enough where the worst outcome is told apart by never being chosen.
    let rare = Finite { here: vec![0.5, 0.5], there: vec![0.5 / e, 1.0 - 0.5 / e] };
    let mut fixed = vec![0.0; 21];
    fixed[20] = 1.0;
    let [here, there] = [&rare.here, &rare.there].map(|side| best(side, &fixed));
    let bound = Selection::new(law, &rare).divergence(50.0);
    assert!(divergence(&here, &there, 50.0) > bound, "a fixed number costs more: {bound}");
}

#[test]
fn no_repetition_at_all_is_counted() {
    let base = Finite { here: vec![0.2, 0.8], there: vec![0.4, 0.6] };
    let law = Repetitions::poisson(0.05).unwrap();
    let [here, there] = [&base.here, &base.there].map(|side| best(side, &masses(law)));
    let truth = divergence(&here, &there, 3.0);
    // Without the term of K = 0 the sum of Theorem 6 would be below the truth, and even negative.
    let without = base.divergence(3.0) + 0.05 * base.delta(1.5_f64.ln()) + 0.05_f64.ln() / 2.0;
    assert!(without < 0.0 && truth > 0.0 && Selection::new(law, &base).divergence(3.0) >= truth);
}

/// A mechanism that is known to be `epsilon`-private, and nothing else.
struct Pure(f64);

impl BaseMechanism for Pure {
    fn divergence(&self, _: f64) -> f64 {
        self.0
    }

    fn delta(&self, epsilon: f64) -> f64 {
        if epsilon >= self.0 { 0.0 } else { 1.0 }
    }

    fn largest_order(&self) -> f64 {
        1e9
    }
}

#[test]
fn pure_privacy_costs_two_plus_shape_times_as_much() {
    for shape in [-0.5, 0.0, 1.0, 3.0] {
        for mean in [2.0, 100.0] {
            let law = Repetitions::negative_binomial(shape, mean).unwrap();
            let found = Selection::new(law, &Pure(0.3)).divergence(1e8);
            // ln(1/gamma) / b and ln E[K] / (a - 1) vanish with the orders, here 1e9 at most.
            assert!((found - (2.0 + shape) * 0.3).abs() < 1e-5, "{shape} {mean}: {found}");
        }
    }
}

#[test]
fn one_repetition_costs_what_the_mechanism_costs() {
    let rdp = Rdp::poisson_gaussian(0.01, 1.0).unwrap().self_compose(1000);
    let single = rdp.epsilon(1e-5).unwrap().epsilon;
    struct Sgd(Rdp);
    impl BaseMechanism for Sgd {
        fn divergence(&self, order: f64) -> f64 {
            self.0.divergence(order)
        }
        fn delta(&self, _: f64) -> f64 {
            1.0
        }
        fn largest_order(&self) -> f64 {
            self.0.largest_order()
        }
    }
    let base = Sgd(rdp);
    let at = |mean: f64| {
        let law = Repetitions::negative_binomial(0.0, mean).unwrap();
        Selection::new(law, &base).epsilon(1e-5).unwrap().epsilon
    };
    // One almost surely, so that the choice is no choice.
    assert!((at(1.0 + 1e-6) - single).abs() < 1e-3 * single, "{} {single}", at(1.0 + 1e-6));
    // More repetitions cost more, and far less than running them all.
    assert!(single < at(2.0) && at(2.0) < at(10.0) && at(10.0) < at(100.0) && at(100.0) < 4.0 * single);
}
