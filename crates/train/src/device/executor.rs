//! One way to run a graph, whatever machine it runs on.

use dapple_engine::{Batch, ClippingRule, GradientSum, Layout, StepStats};
use dapple_graph::{Graph, Parameters};

#[cfg(feature = "cuda")]
use super::cards::{Cards, failed};
use super::processor::Processor;
use crate::error::TrainError;
use crate::learned::{Learned, Update};

/// Runs one graph. GPUs keep what is learned in their own memory from step to step; [`Executor::fetch`] brings it back.
#[derive(Debug)]
pub(crate) enum Executor {
    Cpu(Box<Processor>),
    #[cfg(feature = "cuda")]
    Cuda(Box<Cards>),
}

/// An executor with a set of parameters arranged for it.
#[derive(Debug)]
pub(crate) enum Loaded<'e, 'p> {
    Cpu(dapple_engine::Loaded<'e, 'p>),
    #[cfg(feature = "cuda")]
    Cuda {
        group: &'e mut dapple_engine::cuda::CudaGroup,
        device: &'e str,
    },
}

/// A sum of clipped gradients where the executor keeps it.
#[derive(Debug)]
pub(crate) enum Sum {
    Cpu(GradientSum),
    #[cfg(feature = "cuda")]
    Cuda(dapple_engine::cuda::CudaGroupSum),
}

/// A sum that another executor began.
#[cfg(feature = "cuda")]
fn foreign<T>() -> Result<T, TrainError> {
    Err(dapple_engine::EngineError::Parameters.into())
}

impl Executor {
    /// An executor on the processor.
    pub(crate) fn new(graph: &Graph, threads: usize) -> Result<Self, TrainError> {
        Ok(Self::Cpu(Box::new(Processor::new(graph, threads)?)))
    }

    /// Where the trainable parameters lie in a gradient.
    pub(crate) fn layout(&self) -> &Layout {
        match self {
            Self::Cpu(processor) => processor.layout(),
            #[cfg(feature = "cuda")]
            Self::Cuda(cards) => cards.layout(),
        }
    }

    /// An empty sum.
    pub(crate) fn sum(&mut self) -> Result<Sum, TrainError> {
        match self {
            Self::Cpu(processor) => Ok(Sum::Cpu(processor.sum())),
            #[cfg(feature = "cuda")]
            Self::Cuda(cards) => cards.sum().map(Sum::Cuda),
        }
    }

    /// Arranges parameters for the kernels, to be evaluated. What a GPU has learned must have been fetched.
    pub(crate) fn load<'e, 'p>(
        &'e mut self,
        parameters: &'p Parameters,
    ) -> Result<Loaded<'e, 'p>, TrainError> {
        match self {
            Self::Cpu(processor) => processor.load(parameters).map(Loaded::Cpu),
            #[cfg(feature = "cuda")]
            Self::Cuda(cards) => cards.load(parameters),
        }
    }

    /// Arranges what is learned for the kernels, to be trained.
    pub(crate) fn train<'e, 'p>(&'e mut self, learned: &'p Learned) -> Result<Loaded<'e, 'p>, TrainError> {
        match self {
            Self::Cpu(processor) => processor.train(learned).map(Loaded::Cpu),
            #[cfg(feature = "cuda")]
            Self::Cuda(cards) => cards.train(learned),
        }
    }

    /// Takes in a sum of clipped gradients: noise, the expected batch as divisor, the optimiser. `pool` is for the host's part.
    ///
    /// # Guarantee
    /// As [`Learned::update`]: the GPU adds the same noise, bit by bit, for the same key and the same sum.
    pub(crate) fn update(
        &mut self,
        sum: Sum,
        learned: &mut Learned,
        update: &Update<'_>,
        pool: &rayon::ThreadPool,
    ) -> Result<(), TrainError> {
        match (self, sum) {
            (Self::Cpu(processor), Sum::Cpu(sum)) => processor.update(sum, learned, update, pool),
            #[cfg(feature = "cuda")]
            (Self::Cuda(cards), Sum::Cuda(sum)) => cards.update(sum, learned, update),
            #[cfg(feature = "cuda")]
            _ => foreign(),
        }
    }

    /// Brings what was learned back to the host, which the processor works on anyway.
    #[cfg_attr(not(feature = "cuda"), allow(unused_variables, reason = "only a GPU keeps it elsewhere"))]
    pub(crate) fn fetch(&mut self, learned: &mut Learned) -> Result<(), TrainError> {
        match self {
            Self::Cpu(_) => Ok(()),
            #[cfg(feature = "cuda")]
            Self::Cuda(cards) => cards.fetch(learned),
        }
    }

    /// Lets the processor fail after so many steps, as a device may.
    #[cfg(test)]
    pub(crate) fn fail_after(&mut self, steps: u64) {
        match self {
            Self::Cpu(processor) => processor.fails_after = Some(steps),
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => {}
        }
    }
}

impl Loaded<'_, '_> {
    /// Outputs of all samples, one after the other, dropout off.
    pub(crate) fn forward(&mut self, inputs: &[f32]) -> Result<Vec<f32>, TrainError> {
        match self {
            Self::Cpu(loaded) => Ok(loaded.forward(inputs)?),
            #[cfg(feature = "cuda")]
            Self::Cuda { group, device } => group.forward(inputs).map_err(|error| failed(device, error)),
        }
    }

    /// Adds every sample's clipped gradient to a sum of the same executor.
    ///
    /// # Guarantee
    /// Each sample adds a vector of norm at most [`ClippingRule::sensitivity`] that depends on no other sample.
    pub(crate) fn clipped_sum(
        &mut self,
        batch: &Batch<'_>,
        rule: &ClippingRule,
        sum: &mut Sum,
    ) -> Result<StepStats, TrainError> {
        match (self, sum) {
            (Self::Cpu(loaded), Sum::Cpu(sum)) => Ok(loaded.clipped_sum(batch, rule, sum)?),
            #[cfg(feature = "cuda")]
            (Self::Cuda { group, device }, Sum::Cuda(sum)) => {
                group.clipped_sum(batch, rule, sum).map_err(|error| failed(device, error))
            }
            #[cfg(feature = "cuda")]
            _ => foreign(),
        }
    }
}
