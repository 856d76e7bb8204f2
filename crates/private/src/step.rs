//! One step.

use dapple_engine::{ClippingRule, EngineError, StepStats};

use crate::adaptive::noisy_share;
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
/// Where the clip norm follows a quantile, the next one is a function of this one and of a noisy count, to which each record drawn adds 1
/// or -1, dependent on no other record: see [`AdaptiveClip`](crate::AdaptiveClip). In standard deviations of the noise of each, what a
/// record adds to sum and count is one vector of norm at most `sqrt((C / deviation of the sum)^2 + (1 / deviation of the count)^2)`.
///
/// # Errors
/// As [`Executor::clipped_sum`] and [`Executor::update`]; and a rule with another bound than the clip norm that follows a quantile, or
/// such a clip norm without noise for its count.
pub fn private_step(
    executor: &mut dyn Executor,
    learned: &mut Learned,
    microbatches: &mut dyn Microbatches,
    rule: &ClippingRule,
    update: &Update<'_>,
) -> Result<StepStats, StepError> {
    if let Some(clip) = learned.clip {
        // A count is released as part of a step that is noised.
        let noised = update.noise.is_some() && update.count.is_some();
        if !noised || clip.norm() != rule.sensitivity() {
            let problem = "the rule, or the noise of a step, is not that of the clip norm";
            return Err(EngineError::Clipping(problem.to_owned()).into());
        }
    }
    let stats = executor.clipped_sum(learned, microbatches, rule)?;
    executor.update(learned, update)?;
    if let (Some(clip), Some((noise, key))) = (&mut learned.clip, update.count) {
        clip.follow(noisy_share(&stats, noise, key, update.batch)?);
    }
    Ok(stats)
}
