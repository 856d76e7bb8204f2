//! What the card asks of an operation, and of the kernel that it becomes.

use std::fmt::Debug;

use dapple_graph::ParameterId;

use super::backward::CardParameterGradients;
use super::clip::SumTarget;
use super::device::Device;
use super::error::CudaError;
use super::lower::CardSteps;
use super::memory::CardModel;
use super::run::CardRun;
use crate::layout::Layout;
use crate::op::conv::CudaConvKernel;

/// An operation of a graph, as the card lowers it.
pub(crate) trait CudaOperation {
    /// The kernel of a node, its tables placed among those of the steps.
    fn kernel(&self, node: &ShapedNode<'_>, steps: &mut CardSteps) -> Box<dyn CudaKernel>;
}

/// A node on its way to a kernel.
pub(crate) struct ShapedNode<'a> {
    /// Shapes of its inputs, and its own.
    pub(crate) inputs: &'a [&'a [usize]],
    pub(crate) shape: &'a [usize],
    /// Whether the gradient of its first input is wanted.
    pub(crate) wanted: bool,
}

/// Values of a row.
pub(crate) fn last(shape: &[usize]) -> usize {
    shape.last().copied().unwrap_or(1)
}

impl<'a> ShapedNode<'a> {
    /// Shape of its first input.
    pub(crate) fn input(&self) -> &'a [usize] {
        self.inputs.first().copied().unwrap_or(&[])
    }

    /// The first axis of its first input.
    pub(crate) fn channels(&self) -> usize {
        self.input()[0]
    }

    /// Values of a channel of its first input.
    pub(crate) fn positions(&self) -> usize {
        self.input().iter().skip(1).product()
    }

    /// Values of a row of its first input.
    pub(crate) fn features(&self) -> usize {
        last(self.input())
    }

    /// Rows of its first input.
    pub(crate) fn rows(&self) -> usize {
        self.input().iter().product::<usize>() / self.features()
    }
}

/// What a step of a program does, with its sizes and where its tables lie.
pub(crate) trait CudaKernel: Debug + Send + Sync {
    /// Computes the node's values.
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError>;

    /// Computes the gradients of its inputs and of its parameters from its own.
    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError>;

    /// The name under which its time is reported.
    fn name(&self, _backward: bool) -> &'static str {
        "other"
    }

    /// Whether its values are the samples themselves.
    fn is_input(&self) -> bool {
        false
    }

    /// Whether the backward pass reads an input; `trains` says whether the weight trains.
    fn reads_input(&self, _slot: usize, _trains: bool) -> bool {
        false
    }

    /// Whether the backward pass reads the output.
    fn reads_output(&self) -> bool {
        false
    }

    /// Whether the backward pass first takes its own gradient through a ReLU, in the gradient's memory.
    fn masks(&self) -> bool {
        false
    }

    /// Whether an input's gradient is the step's own, once that is masked.
    fn passes_on(&self, _slot: usize) -> bool {
        false
    }

    /// Numbers per item that the forward pass keeps for the backward pass; `len` are those of its values.
    fn kept(&self, _len: usize) -> usize {
        0
    }

    /// Whether the forward pass works in what it keeps, also where no backward pass follows.
    fn works_in_kept(&self) -> bool {
        false
    }

    /// Numbers of scratch per item in the backward pass.
    fn scratch(&self) -> usize {
        0
    }

    /// The weight, where the step multiplies by one.
    fn weight(&self) -> Option<ParameterId> {
        None
    }

    /// Takes a ReLU behind it over, be it behind the norm itself or behind a sum that was taken over; says whether it did.
    fn fold_relu(&mut self, _sum: bool) -> bool {
        false
    }

    /// Takes a sum with another value behind it over; says whether it did.
    fn fold_sum(&mut self) -> bool {
        false
    }

    /// Puts its weights in the form in which it multiplies by them. `parameters` says where each parameter starts.
    fn arrange(&self, _device: &Device, _model: &CardModel, _parameters: &[usize]) -> Result<(), CudaError> {
        Ok(())
    }

    /// Whether its products are of halves: its weight's gradient is then written down in halves, too.
    fn halves(&self) -> bool {
        false
    }

    /// The convolution, where it is one: those are measured.
    fn convolution(&self) -> Option<&CudaConvKernel> {
        None
    }

    /// Whether it runs its convolution the other way round: what it reads is the convolution's output, what it makes is the input.
    fn transposes(&self) -> bool {
        false
    }

    /// Whether its norm is cheaper by inner products than by writing down one weight gradient per sample.
    ///
    /// Both ways multiply once over all positions for the sum itself, so the inner products stand against what is written and read.
    fn prefers_ghost(&self, _views: usize) -> bool {
        false
    }

    /// Numbers of workspace per sample where its weight gradient is never written down: inner products in double precision, which take
    /// two numbers each.
    fn ghost_workspace(&self, _views: usize) -> usize {
        0
    }

    /// Adds what all samples add of a weight gradient that is never written down.
    fn deferred_sum(
        &self,
        _run: &mut CardRun<'_>,
        _node: usize,
        _layout: &Layout,
        _target: SumTarget<'_>,
    ) -> Result<(), CudaError> {
        Ok(())
    }
}
