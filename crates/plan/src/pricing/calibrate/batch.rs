//! Finds the largest batch.

use dapple_accounting::search;
use dapple_accounting::search::Strides;

use super::problem::Problem;
use super::{MAX_STEPS, Solution, SolvedValue, Unknown};
use crate::error::PlanError;

impl Problem<'_> {
    /// Finds the largest batch of balanced sampling. A larger batch shortens the epochs, in which a record is seen as often as before.
    fn balanced_batch(&self) -> Result<Solution, PlanError> {
        let with = |batch| {
            self.plan(|spec| {
                spec.sampling.batch = Some(batch);
                spec.sampling.steps = None;
                spec.sampling.epochs = spec.sampling.epochs.or(Some(1));
            })
        };
        let records = self.spec.sampling.records.unwrap_or(1);
        with(records)?;
        let draws = [self.spec.sampling.per_record.unwrap_or(1), self.spec.sampling.epochs.unwrap_or(1)]
            .iter()
            .fold(u128::from(records), |draws, &factor| draws.saturating_mul(factor.into()));
        let least = u64::try_from(draws.div_ceil(MAX_STEPS.into())).unwrap_or(records).clamp(1, records);
        let found = self.largest(least, records, with)?;
        let batch = found.ok_or_else(|| self.unreachable(Unknown::Batch, least as f64, records as f64))?;
        let plan = with(batch)?;
        // The batch that fills the fewest possible steps evenly.
        let batch = plan.batch;
        Ok((plan, SolvedValue::Whole(batch), None))
    }

    /// Finds the largest batch. If the epochs are fixed, a larger batch takes fewer steps: epsilon grows with the batch between two
    /// changes of `ceil(records / batch)` and drops at each change. So first find the fewest parts of an epoch, then the largest batch
    /// for them.
    pub(super) fn batch(&self) -> Result<Solution, PlanError> {
        if self.is_balanced() {
            return self.balanced_batch();
        }
        let records = self.spec.sampling.records.unwrap_or(1);
        // The largest batch is checked first, because a batch of one may need more steps than are allowed.
        let base = self.plan(|spec| spec.sampling.batch = Some(records))?;
        let epochs = self.spec.sampling.epochs;
        let with = |batch: u64| {
            base.changed(|plan| {
                plan.batch = batch;
                if let Some(epochs) = epochs {
                    plan.steps = epochs * records.div_ceil(batch);
                }
            })
        };
        // Rates below the accountant's limit and runs with more steps than it takes are not searched.
        let smallest = (records as f64 * 1e-8).ceil().max(1.0) as u64;
        let most_parts = epochs.map_or(records, |epochs| (MAX_STEPS / epochs).min(records)).max(1);
        let least = smallest.max(records.div_ceil(most_parts));
        let (low, high) = match epochs {
            None => (least, records),
            Some(_) => {
                let batch_of = |parts: u64| records.div_ceil(parts).max(least);
                let most_parts = records.div_ceil(least);
                let meets = |parts, precision| self.epsilon_to(&with(batch_of(parts)), precision);
                let unreachable = || self.unreachable(Unknown::Batch, least as f64, records as f64);
                let rough = |parts| meets(parts, self.rough());
                let near = search::smallest(1, most_parts, self.target, rough)?.unwrap_or(most_parts);
                // More precision may allow fewer parts. The more parts are left out, the larger is epsilon.
                let range = (0, most_parts - 1);
                let strides = Strides { first: near / 100, growth: 2 };
                let quick = |left_out| meets(most_parts - left_out, self.precision);
                let left_out =
                    search::largest_from(most_parts - near, strides, range, self.target, quick)?.unwrap_or(0);
                let strides = Strides { first: 1, growth: 2 };
                let full = |left_out| self.epsilon(&with(batch_of(most_parts - left_out)));
                let left_out = search::largest_from(left_out, strides, range, self.target, full)?;
                let parts = most_parts - left_out.ok_or_else(unreachable)?;
                let low = batch_of(parts);
                let high = if parts > 1 { (batch_of(parts - 1) - 1).max(low) } else { records };
                (low, high)
            }
        };
        let found = self.largest(low, high, |batch| Ok(with(batch)))?;
        let batch = found.ok_or_else(|| self.unreachable(Unknown::Batch, least as f64, records as f64))?;
        Ok((with(batch), SolvedValue::Whole(batch), None))
    }
}
