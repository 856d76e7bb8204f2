//! What a machine must be able to do to take private steps.

use std::fmt::Debug;

use dapple_engine::{Batch, ClippingRule, Layout, StepStats};
use dapple_graph::Parameters;

use crate::error::StepError;
use crate::learned::{Learned, Update};

/// The records of one step, a part of them at a time.
pub trait Microbatches: Send {
    /// Returns the next part, or `None` after the last.
    ///
    /// # Errors
    /// Records that cannot be read.
    fn next(&mut self) -> Result<Option<Batch<'_>>, StepError>;
}

/// A machine that runs one graph. GPUs keep what is learned in their own memory from step to step; [`Executor::fetch`] brings it back.
pub trait Executor: Debug + Send {
    /// Where the trainable parameters lie in a gradient.
    fn layout(&self) -> &Layout;

    /// Adds up the clipped gradients of all records of a step, and keeps the sum for [`Executor::update`].
    ///
    /// # Guarantee
    /// Each record adds a vector that depends on no other record and whose norm is at most [`ClippingRule::sensitivity`]; these vectors
    /// are added without rounding. With clipping, a record whose gradient is not finite adds nothing. A record of a batch that belongs to a
    /// submodel adds exactly zero to every parameter that the submodel does not read; one with a mask of dropout layers, to every value that
    /// [`Graph::dropout_split`](dapple_graph::Graph::dropout_split) calls split by a unit which the mask drops.
    ///
    /// # Errors
    /// Records that cannot be read, or a device that fails. Either way, what was summed so far is lost.
    fn clipped_sum(
        &mut self,
        learned: &Learned,
        microbatches: &mut dyn Microbatches,
        rule: &ClippingRule,
    ) -> Result<StepStats, StepError>;

    /// Adds up the gradients of the public parts of records, each bounded by the rule if it has a bound, and keeps their sum times the
    /// weight for the next [`Executor::update`] beside the sum of private parts.
    ///
    /// # Guarantee
    /// If the rule has a bound, that of [`Executor::clipped_sum`], and the weight must be one.
    ///
    /// # Errors
    /// Those of [`Executor::clipped_sum`], and an executor that knows no public parts.
    fn public_sum(
        &mut self,
        _learned: &Learned,
        _microbatches: &mut dyn Microbatches,
        _rule: &ClippingRule,
        _weight: f32,
    ) -> Result<StepStats, StepError> {
        Err(StepError::PublicParts)
    }

    /// Turns the sum that was kept into new parameters: adds noise, divides by the expected batch, and lets the optimiser move them.
    ///
    /// # Guarantee
    /// What is learned changes by a function of the noisy sum alone, rounded to a lattice and divided by the expected batch. A sum of public
    /// parts that have a bound is added before the noise, and one of public parts without a bound behind it. Every executor adds the same noise, bit by bit, for the same key and the same sum.
    ///
    /// # Errors
    /// No sum was kept, a sum of plain numbers is to be noised, a device fails, or a weight is no longer finite. The last says nothing
    /// about the records that the released weights would not say.
    fn update(&mut self, learned: &mut Learned, update: &Update<'_>) -> Result<(), StepError>;

    /// Brings what was learned back to the host.
    ///
    /// # Errors
    /// A device that fails.
    fn fetch(&mut self, learned: &mut Learned) -> Result<(), StepError>;

    /// Arranges parameters for the kernels, so that they can be evaluated. What was learned must have been fetched before, because the
    /// memory that holds it may be overwritten.
    ///
    /// # Errors
    /// Parameters of another graph, or a device that fails.
    fn load<'e>(&'e mut self, parameters: &'e Parameters) -> Result<Box<dyn Forward + 'e>, StepError>;
}

/// A model with its parameters, ready to answer.
pub trait Forward {
    /// Returns the outputs of all samples, one after the other, with dropout off.
    ///
    /// # Errors
    /// Samples of another size, or a device that fails.
    fn forward(&mut self, inputs: &[f32]) -> Result<Vec<f32>, StepError>;
}
