//! The private step, whichever machine takes it.

use dapple_engine::{ClippingRule, EngineError, StepStats};

use crate::adaptive::noisy_share;
use crate::error::StepError;
use crate::executor::{Executor, Microbatches};
use crate::learned::{Learned, Update};

/// Takes one step: the clipped sum of the records drawn, then the update that it leads to.
///
/// # Guarantee
/// What is learned changes by a function of the noisy sum alone. Each record drawn adds one vector, which depends on no other record and
/// whose norm is at most the rule's sensitivity; these are added without any rounding. The noise of `update` comes on top, the result is
/// rounded to a lattice, and it is divided by the expected batch, never by the number drawn. An empty batch has a sum of zero, which is
/// noised and used like any other.
///
/// If the clip norm follows a quantile, the next one is a function of this one and of a noisy count, to which each drawn record adds 1 or
/// -1, whatever the other records are; see [`AdaptiveClip`](crate::AdaptiveClip). Measured in standard deviations of their noise, what a
/// record adds to the sum and the count is one vector of norm at most
/// `sqrt((C / deviation of the sum)^2 + (1 / deviation of the count)^2)`.
///
/// # Errors
/// Those of [`Executor::clipped_sum`] and [`Executor::update`]; and, if the clip norm follows a quantile, a rule with another bound or a step
/// without noise for its sum and its count.
pub fn private_step(
    executor: &mut dyn Executor,
    learned: &mut Learned,
    microbatches: &mut dyn Microbatches,
    rule: &ClippingRule,
    update: &Update<'_>,
) -> Result<StepStats, StepError> {
    if let Some(clip) = learned.clip {
        // A count is only released as part of a step that adds noise.
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
