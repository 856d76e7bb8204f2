//! Batches of Poisson sampling that have a largest size.

use super::mix::Averaged;
use crate::error::PlanError;
use crate::spec::SamplingSpec;
use crate::{Relation, Sampling};

const KEY: &str = "sampling.max_batch";

/// The most records that a step takes. Where more coins show heads, a uniform subset of so many is kept.
///
/// # Guarantee
/// As long as fewer *other* records than the limit show heads, a step is that of unlimited Poisson sampling. Otherwise a record that is kept takes the
/// place of another, whose contribution may lie two clip norms from its own, and it is kept no more often than it is drawn. Which of the two it is does not depend on
/// the record, so a step costs the mixture of both with the probability of the second (joint convexity), for which a bound is taken: the Chernoff bound on the
/// tail of a binomial law over all records. It is never below the truth, because the second case costs more than the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchLimit {
    most: u64,
}

impl BatchLimit {
    /// The limit of a plan; `None` if there is none. `apart` is whether a record's contributions are counted by other laws than that of one step.
    pub(crate) fn check(
        spec: &SamplingSpec,
        (relation, sampling, averaged, apart): (Relation, Sampling, Averaged, bool),
        batch: u64,
    ) -> Result<Option<Self>, PlanError> {
        let Some(most) = spec.max_batch else { return Ok(None) };
        if sampling != Sampling::Poisson {
            return Err(PlanError::invalid(
                KEY,
                format!("has no meaning for {sampling} sampling, whose batches are bounded"),
                "leave it out, or use --sampling poisson",
            ));
        }
        if most <= batch {
            return Err(PlanError::invalid(
                KEY,
                format!(
                    "{most} is not above the expected batch of {batch}, so that many steps would lose records"
                ),
                "give some standard deviations more, that is of the root of the batch",
            ));
        }
        if relation == Relation::Masked || averaged.shares_clip() || apart {
            return Err(PlanError::NoTheorem {
                combination: format!("{KEY} with masked privacy, microbatches, submodels or noise.bands"),
                reason: "a record that is kept would take the place of another one",
                hint: "leave sampling.max_batch out; memory does not grow with the batch",
            });
        }
        Ok(Some(Self { most }))
    }

    /// The most records.
    #[must_use]
    pub fn most(self) -> u64 {
        self.most
    }

    /// A bound on the probability that a step of this batch has as many other records.
    #[must_use]
    pub fn probability(self, batch: u64, records: u64) -> f64 {
        tail(self.most, batch, records)
    }
}

/// A bound on the probability that at least `most` of so many coins show heads, `most` being above the expected number.
fn tail(most: u64, batch: u64, records: u64) -> f64 {
    if most > records {
        return 0.0;
    }
    // The bound is for numbers above the expected one.
    if most <= batch {
        return 1.0;
    }
    // Chernoff: ln P(K >= a n) <= -n KL(a || g).
    let (n, a, g) = (records as f64, most as f64 / records as f64, batch as f64 / records as f64);
    let rest = if a < 1.0 { (1.0 - a) * ((1.0 - a) / (1.0 - g)).ln() } else { 0.0 };
    let heads = a * (a / g).ln();
    // Each term is off by a few roundings of itself and of the logarithms' arguments.
    let lost = 16.0 * f64::EPSILON * (heads.abs() + rest.abs() + a + 1.0);
    (-n * (heads + rest - lost)).exp().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds up the law of so many coins, term by term.
    fn exact(most: u64, batch: u64, records: u64) -> f64 {
        let g = batch as f64 / records as f64;
        let mut term = (1.0 - g).powi(records as i32);
        let mut sum = 0.0;
        for heads in 0..=records {
            if heads >= most {
                sum += term;
            }
            term *= (records - heads) as f64 / (heads + 1) as f64 * g / (1.0 - g);
        }
        sum
    }

    /// A bound for one batch is none for a larger one, so it follows from the batch that is priced, and a search for the batch has no limit.
    #[test]
    fn limits_follow_the_batch() {
        let limit = BatchLimit { most: 40 };
        let bounds = [10, 20, 30, 39].map(|batch| limit.probability(batch, 300));
        assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]), "{bounds:?}");
        assert_eq!([40, 300].map(|batch| limit.probability(batch, 300)), [1.0; 2]);
        let text = "[privacy]\nepsilon = 2.0\nnoise_multiplier = 1.0\ndelta = 1e-5\n[sampling]\nbatch = 10\nmax_batch = 40\nrecords = 300\nsteps = 20";
        let spec = crate::PlanSpec::from_toml(text).unwrap();
        let sought = crate::calibrate(&spec, &[], crate::Unknown::Batch, crate::BracketPrecision::default());
        assert!(matches!(sought, Err(PlanError::Invalid { key: "sampling.max_batch", .. })), "{sought:?}");
    }

    #[test]
    fn tails_are_bounded_and_not_by_much() {
        for (batch, records) in [(1, 10), (5, 10), (30, 300), (100, 900)] {
            for most in batch + 1..=(3 * batch).min(records) {
                let (bound, exact) = (tail(most, batch, records), exact(most, batch, records));
                // Sums of up to 900 terms that were each multiplied as often.
                assert!(bound >= exact * (1.0 - 1e-10), "{most} {batch} {records}: {bound} {exact}");
                // Chernoff's bound lacks a factor of about the root of the expected number.
                assert!(
                    bound <= exact * 8.0 * (batch as f64).sqrt(),
                    "{most} {batch} {records}: {bound} {exact}"
                );
            }
        }
        assert_eq!(tail(11, 5, 10), 0.0);
    }
}
