//! The private step, whichever machine takes it.

use dapple_engine::{ClippingRule, StepStats};

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
/// # Errors
/// Those of [`Executor::clipped_sum`] and [`Executor::update`].
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
