//! One step.

use dapple_engine::{ClippingRule, StepStats};

use crate::error::StepError;
use crate::executor::{Executor, Microbatches};
use crate::learned::{Learned, Update};

/// Takes one step.
///
/// # Guarantee
/// What is learned changes by a function of the noisy sum alone: the sum, without any rounding, of one vector for each record drawn, each
/// of norm at most the rule's sensitivity and dependent on no other record, plus the noise of `update`, rounded to a lattice, divided by
/// the expected batch, never by the number drawn. An empty batch is a sum of zero; it is noised and used.
///
/// # Errors
/// As [`Executor::clipped_sum`] and [`Executor::update`].
pub fn private_step(
    executor: &mut dyn Executor,
    learned: &mut Learned,
    microbatches: &mut dyn Microbatches,
    rule: &ClippingRule,
    update: &Update<'_>,
) -> Result<StepStats, StepError> {
    let stats = executor.clipped_sum(learned, microbatches, rule)?;
    executor.update(learned, update)?;
    Ok(stats)
}
