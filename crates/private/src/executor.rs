//! What a machine must be able to do to take private steps.

use std::fmt::Debug;

use dapple_engine::{Batch, ClippingRule, Layout, StepStats};
use dapple_graph::Parameters;

use crate::error::StepError;
use crate::learned::{Learned, Update};

/// The records of one step, a part of them at a time.
pub trait Microbatches {
    /// The next part; `None` behind the last.
    ///
    /// # Errors
    /// Records that cannot be read.
    fn next(&mut self) -> Result<Option<Batch<'_>>, StepError>;
}

/// Runs one graph. GPUs keep what is learned in their own memory from step to step; [`Executor::fetch`] brings it back.
pub trait Executor: Debug + Send {
    /// Where the trainable parameters lie in a gradient.
    fn layout(&self) -> &Layout;

    /// Adds up the clipped gradients of all records of a step, and keeps the sum for [`Executor::update`].
    ///
    /// # Guarantee
    /// Each record adds a vector of norm at most [`ClippingRule::sensitivity`] that depends on no other record, and they add up without
    /// rounding. A record whose gradient is not finite adds nothing.
    ///
    /// # Errors
    /// Records that cannot be read, or a device that fails; what was summed is lost then.
    fn clipped_sum(
        &mut self,
        learned: &Learned,
        microbatches: &mut dyn Microbatches,
        rule: &ClippingRule,
    ) -> Result<StepStats, StepError>;

    /// Takes in the sum that was kept: noise, the expected batch as divisor, the optimiser.
    ///
    /// # Guarantee
    /// What is learned changes by a function of the noisy sum alone, rounded to a lattice and divided by the expected batch. Every
    /// executor adds the same noise, bit by bit, for the same key and the same sum.
    ///
    /// # Errors
    /// No sum, a sum of plain numbers where noise is asked for, a device that fails, or weights that are not finite any more, which is
    /// public.
    fn update(&mut self, learned: &mut Learned, update: &Update<'_>) -> Result<(), StepError>;

    /// Brings what was learned back to the host.
    ///
    /// # Errors
    /// A device that fails.
    fn fetch(&mut self, learned: &mut Learned) -> Result<(), StepError>;

    /// Arranges parameters for the kernels, to be evaluated. What was learned must have been fetched.
    ///
    /// # Errors
    /// Parameters of another graph, or a device that fails.
    fn load<'e>(&'e mut self, parameters: &'e Parameters) -> Result<Box<dyn Forward + 'e>, StepError>;
}

/// A model with its parameters, ready to answer.
pub trait Forward {
    /// Outputs of all samples, one after the other, dropout off.
    ///
    /// # Errors
    /// Samples of another size, or a device that fails.
    fn forward(&mut self, inputs: &[f32]) -> Result<Vec<f32>, StepError>;
}
