//! Finds the most epochs, and the most steps.

use dapple_accounting::BracketPrecision;

use super::problem::{Problem, finite};
use super::{MAX_STEPS, Solution, SolvedValue, Unknown};
use crate::error::PlanError;
use crate::spec::Accountant;
use crate::{Plan, Sampling};

impl Problem<'_> {
    pub(super) fn epochs(&self) -> Result<Solution, PlanError> {
        let base = match self.is_balanced() {
            true => self.plan(|spec| spec.sampling.epochs = spec.sampling.epochs.or(Some(1)))?,
            false => self.plan(|spec| (spec.sampling.epochs, spec.sampling.steps) = (Some(1), None))?,
        };
        let (plan, epochs) = self.most_epochs(base, Unknown::Epochs)?;
        Ok((plan, SolvedValue::Whole(epochs), None))
    }

    /// Finds how often the base plan's epoch can be repeated at the most.
    fn most_epochs(&self, base: Plan, unknown: Unknown) -> Result<(Plan, u64), PlanError> {
        let length = match base.sampling {
            Sampling::Balanced { epoch_steps, .. } => epoch_steps,
            Sampling::Poisson | Sampling::WithoutReplacement => base.steps,
        };
        let most = MAX_STEPS / length;
        let with = |epochs| base.changed(|plan| plan.steps = length * epochs);
        let found = if let (Accountant::Pld, Ok(epoch)) = (base.accountant(), with(1).pld()) {
            // The distribution of an epoch is computed once. Other bounds can only be better.
            let quick = |epochs: u64, precision: BracketPrecision| {
                self.bound((epochs.to_string(), precision.relative.to_bits()), || {
                    let run = epoch.self_compose(epochs);
                    finite(run.epsilon_upper(base.delta, self.effort(precision)).map_err(PlanError::from))
                })
            };
            self.largest_by(1, most, |epochs| Ok(with(epochs)), quick)?
        } else {
            self.largest(1, most, |epochs| Ok(with(epochs)))?
        };
        let epochs = found.ok_or_else(|| self.unreachable(unknown, 1.0, most as f64))?;
        Ok((with(epochs), epochs))
    }

    pub(super) fn steps(&self) -> Result<Solution, PlanError> {
        if self.is_balanced() {
            // More steps in an epoch hide a record better, but more epochs show it more often. So whole epochs are counted.
            let base = self.plan(|spec| (spec.sampling.epochs, spec.sampling.steps) = (Some(1), None))?;
            let (plan, _) = self.most_epochs(base, Unknown::Steps)?;
            let steps = plan.steps;
            return Ok((plan, SolvedValue::Whole(steps), None));
        }
        let base = self.plan(|spec| (spec.sampling.epochs, spec.sampling.steps) = (None, Some(1)))?;
        let (plan, steps) = self.most_epochs(base, Unknown::Steps)?;
        Ok((plan, SolvedValue::Whole(steps), None))
    }
}
