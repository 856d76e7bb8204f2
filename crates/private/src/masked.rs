//! The private step where only a part of each record is private.

use dapple_engine::{ClippingRule, StepStats};

use crate::error::StepError;
use crate::executor::{Executor, Microbatches};
use crate::learned::{Learned, Update};

/// The public parts of some records, and what becomes of their gradients.
pub struct PublicParts<'p> {
    /// The records, of which nothing but the public part is shown.
    pub microbatches: &'p mut dyn Microbatches,
    /// How their gradients are bounded, if they are.
    pub rule: &'p ClippingRule,
    /// What the sum of gradients that have no bound is multiplied by; one if they have.
    pub weight: f32,
}

/// Takes one step on the private parts of some records and the public parts of some (MaskDP-SGD; Schneider et al. 2024, Algorithm 1, with
/// the expected batch as divisor). Both sums are divided by the same expected batch. A batch that is empty, or whose records have nothing
/// of a part, has a sum of zero of that part.
///
/// # Guarantee
/// Let the microbatches of each part show nothing of the other. Then private content changes what is learned through the noisy sum alone,
/// to which each drawn record adds a vector whose norm is at most the rule's sensitivity.
///
/// - If public gradients have a bound, they are added to that sum before the noise, in the same whole numbers: what a drawn record adds to it
///   has a norm of at most the sum of both sensitivities, and no bit of the result tells the two sums apart.
/// - If they have none, they are added behind the noise. They are a function of what is public, of released weights and of which records were
///   drawn for them; the caller's price must hold even if that is known.
///
/// # Errors
/// Those of [`private_step`](crate::private_step), and an executor that knows no public parts.
pub fn masked_step(
    executor: &mut dyn Executor,
    learned: &mut Learned,
    private: (&mut dyn Microbatches, &ClippingRule),
    public: PublicParts<'_>,
    update: &Update<'_>,
) -> Result<StepStats, StepError> {
    let (microbatches, rule) = private;
    let stats = executor.clipped_sum(learned, microbatches, rule)?;
    executor.public_sum(learned, public.microbatches, public.rule, public.weight)?;
    executor.update(learned, update)?;
    Ok(stats)
}
