//! Laws of split models and allocated records, over the whole range that is served.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test")]

use dapple_accounting::partition::rdp::{Bound, PartitionRdp};
use dapple_accounting::rdp::Rdp;
use dapple_accounting::{AccountingError, Bracket, BracketPrecision, Pld, RandomAllocation};
use proptest::prelude::*;

const PRECISION: BracketPrecision = BracketPrecision { relative: 1e-3 };

/// A bracket, infinite beyond the accountant's limit.
fn finite(answer: Result<Bracket, AccountingError>) -> Bracket {
    match answer {
        Ok(bracket) => bracket,
        Err(AccountingError::EpsilonTooLarge { .. }) => Bracket::exact(f64::INFINITY),
        Err(error) => panic!("{error}"),
    }
}

fn epsilon(pld: &Pld, delta: f64) -> Bracket {
    finite(pld.epsilon(delta, PRECISION))
}

fn power(low: f64, high: f64) -> impl Strategy<Value = f64> {
    (low..high).prop_map(|exponent| 10f64.powf(exponent))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// More submodels, more noise, less of the gradient outside the split and rarer sampling never cost more; splitting never costs more than not
    /// splitting, and a shared part never costs less than itself.
    #[test]
    fn splits_keep_their_order(
        submodels in 1_u64..12,
        sigma in power(-0.3, 1.0),
        shared in 0.0..1.0_f64,
        rate in power(-2.0, 0.0),
        steps in 1_u64..300,
        delta in power(-9.0, -2.0),
    ) {
        let inside = (1.0 - shared * shared).sqrt();
        let run = |submodels: u64, sigma: f64, rate: f64| {
            let step = Pld::partial_split(submodels, inside, shared, sigma).unwrap();
            epsilon(&step.subsample_poisson(rate).unwrap().self_compose(steps), delta)
        };
        let here = run(submodels, sigma, rate);
        // Where a bound of Rényi is the best answer, there is no lower end.
        prop_assert!(here.least() <= here.upper);
        prop_assert!(run(submodels + 1, sigma, rate).lower.unwrap() <= here.upper);
        prop_assert!(run(submodels, 1.2 * sigma, rate).lower.unwrap() <= here.upper);
        prop_assert!(run(submodels, sigma, 0.7 * rate).lower.unwrap() <= here.upper);
        let whole = epsilon(&Pld::poisson_gaussian(rate, sigma).unwrap().self_compose(steps), delta);
        prop_assert!(here.lower.unwrap() <= whole.upper);
        if submodels == 1 {
            prop_assert!(whole.lower.unwrap() <= here.upper);
        }
        if shared > 0.01 {
            let step = Pld::gaussian(shared, sigma).unwrap().subsample_poisson(rate).unwrap();
            prop_assert!(epsilon(&step.self_compose(steps), delta).lower.unwrap() <= here.upper);
        }
        // A second opinion that shares nothing with it.
        let rdp = PartitionRdp::partial_split(submodels, inside, shared, sigma, Bound::Exact).unwrap();
        let renyi = Rdp::partition(rdp.sampled(rate).unwrap()).self_compose(steps).epsilon(delta).unwrap();
        prop_assert!(here.lower.unwrap() <= renyi.epsilon, "{here:?} above {renyi:?}");
    }

    /// An allocation costs no more than its appearances would if they were known, and no less than what the mean of all outputs
    /// shows: a Gaussian at distance `k / (sigma sqrt(T))` (data processing). More noise never costs more, more epochs never less.
    #[test]
    fn allocations_lie_between_what_is_known_and_what_is_averaged(
        steps in 1_u64..60,
        share in 0.0..1.0_f64,
        sigma in power(-0.2, 1.0),
        delta in power(-9.0, -2.0),
    ) {
        let per_record = 1 + (share * (steps - 1) as f64) as u64;
        let best = |sigma: f64, epochs: u64| {
            let allocation = RandomAllocation::new(steps, per_record, sigma).unwrap().epochs(epochs).unwrap();
            finite(allocation.epsilon(delta, PRECISION).map(|answer| answer.epsilon))
        };
        let here = best(sigma, 1);
        // Where a bound of Rényi is the best answer, there is no lower end.
        prop_assert!(here.least() <= here.upper);
        let known = Pld::gaussian(1.0, sigma).unwrap().self_compose(per_record);
        prop_assert!(here.least() <= epsilon(&known, delta).upper);
        let mean = Pld::gaussian_distance(per_record as f64 / (sigma * (steps as f64).sqrt())).unwrap();
        prop_assert!(epsilon(&mean, delta).lower.unwrap() <= here.upper);
        prop_assert!(best(1.2 * sigma, 1).upper <= here.upper * 1.001);
        prop_assert!(best(sigma, 2).upper * 1.001 >= here.upper);
    }
}
