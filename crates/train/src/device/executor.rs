//! One way to run a graph, whatever machine it runs on.

use dapple_engine::{Batch, Clipping, CpuExecutor, GradientSum, Layout, Options, StepStats};
use dapple_graph::{Graph, Parameters};

use crate::error::TrainError;

/// Runs one graph on the machine that the run chose.
#[derive(Debug)]
pub(crate) enum Executor {
    Cpu(CpuExecutor),
}

/// An executor with a set of parameters arranged for it.
#[derive(Debug)]
pub(crate) enum Loaded<'e, 'p> {
    Cpu(dapple_engine::Loaded<'e, 'p>),
}

/// A sum of clipped gradients where the executor keeps it.
#[derive(Debug)]
pub(crate) enum Sum {
    Cpu(GradientSum),
}

impl Executor {
    pub(crate) fn new(graph: &Graph, threads: usize) -> Result<Self, TrainError> {
        Ok(Self::Cpu(CpuExecutor::new(graph, Options { threads, ..Options::default() })?))
    }

    /// Where the trainable parameters lie in a gradient.
    pub(crate) fn layout(&self) -> &Layout {
        match self {
            Self::Cpu(executor) => executor.layout(),
        }
    }

    /// An empty sum in the memory of an earlier gradient.
    pub(crate) fn gradient_sum_in(&mut self, buffer: Vec<f32>) -> Result<Sum, TrainError> {
        match self {
            Self::Cpu(executor) => Ok(Sum::Cpu(executor.gradient_sum_in(buffer))),
        }
    }

    /// Arranges parameters for the kernels.
    pub(crate) fn load<'e, 'p>(
        &'e mut self,
        parameters: &'p Parameters,
    ) -> Result<Loaded<'e, 'p>, TrainError> {
        match self {
            Self::Cpu(executor) => Ok(Loaded::Cpu(executor.load(parameters)?)),
        }
    }
}

impl Loaded<'_, '_> {
    /// Outputs of all samples, one after the other, dropout off.
    pub(crate) fn forward(&mut self, inputs: &[f32]) -> Result<Vec<f32>, TrainError> {
        match self {
            Self::Cpu(loaded) => Ok(loaded.forward(inputs)?),
        }
    }

    /// Adds every sample's clipped gradient to a sum of the same executor.
    ///
    /// # Guarantee
    /// Each sample adds a vector of norm at most [`Clipping::sensitivity`] that depends on no other sample.
    pub(crate) fn clipped_sum(
        &mut self,
        batch: &Batch<'_>,
        clipping: &Clipping,
        sum: &mut Sum,
    ) -> Result<StepStats, TrainError> {
        match (self, sum) {
            (Self::Cpu(loaded), Sum::Cpu(sum)) => Ok(loaded.clipped_sum(batch, clipping, sum)?),
        }
    }

    /// The sum as a flat gradient in the order of [`Executor::layout`].
    pub(crate) fn gradient(&mut self, sum: Sum) -> Result<Vec<f32>, TrainError> {
        match (self, sum) {
            (Self::Cpu(loaded), Sum::Cpu(sum)) => Ok(loaded.gradient(sum)?),
        }
    }
}
