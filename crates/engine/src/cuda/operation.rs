//! What the card asks of an operation, and of the kernel that the operation becomes.

use std::fmt::Debug;

use dapple_graph::ParameterId;

use super::backward::CardParameterGradients;
use super::clip::WeightSum;
use super::device::Device;
use super::error::CudaError;
use super::lower::CardSteps;
use super::memory::CardModel;
use super::run::CardRun;
use crate::op::conv::CudaConvKernel;

/// An operation of a graph, as the card lowers it.
pub(crate) trait CudaOperation {
    /// The kernel for a node, whose tables it adds to those of the steps.
    fn kernel(&self, node: &ShapedNode<'_>, steps: &mut CardSteps) -> Box<dyn CudaKernel>;
}

/// A node on its way to a kernel.
pub(crate) struct ShapedNode<'a> {
    /// The shapes of its inputs, and its own.
    pub(crate) inputs: &'a [&'a [usize]],
    pub(crate) shape: &'a [usize],
    /// Whether the gradient of its first input is wanted.
    pub(crate) wanted: bool,
}

/// The number of values of a row.
pub(crate) fn last(shape: &[usize]) -> usize {
    shape.last().copied().unwrap_or(1)
}

impl<'a> ShapedNode<'a> {
    /// The shape of its first input.
    pub(crate) fn input(&self) -> &'a [usize] {
        self.inputs.first().copied().unwrap_or(&[])
    }

    /// The size of the first axis of its first input.
    pub(crate) fn channels(&self) -> usize {
        self.input()[0]
    }

    /// The number of values of a channel of its first input.
    pub(crate) fn positions(&self) -> usize {
        self.input().iter().skip(1).product()
    }

    /// The number of values of a row of its first input.
    pub(crate) fn features(&self) -> usize {
        last(self.input())
    }

    /// The number of rows of its first input.
    pub(crate) fn rows(&self) -> usize {
        self.input().iter().product::<usize>() / self.features()
    }
}

/// What a step of a program does, with its sizes and where its tables lie.
pub(crate) trait CudaKernel: Debug + Send + Sync {
    /// Computes the node's values.
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError>;

    /// Computes the gradients of the inputs and of the parameters from the node's own gradient.
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

    /// Whether the backward pass first takes the step's own gradient through a ReLU, in the gradient's own memory.
    fn masks(&self) -> bool {
        false
    }

    /// Whether the gradient of an input equals the step's own, once that went through the ReLU if there is one.
    fn passes_on(&self, _slot: usize) -> bool {
        false
    }

    /// How many numbers of an item the forward pass keeps for the backward pass; `len` is how many values an item has.
    fn kept(&self, _len: usize) -> usize {
        0
    }

    /// Whether the forward pass works in the memory of what it keeps, and so needs it even if no backward pass follows.
    fn works_in_kept(&self) -> bool {
        false
    }

    /// How many numbers of scratch the backward pass needs for each item.
    fn scratch(&self) -> usize {
        0
    }

    /// The weight, if the step multiplies by one.
    fn weight(&self) -> Option<ParameterId> {
        None
    }

    /// Takes over a ReLU that follows, if the kernel can do that too, and says whether it did. With `sum`, the ReLU follows a sum that was
    /// taken over before.
    fn fold_relu(&mut self, _sum: bool) -> bool {
        false
    }

    /// Takes over a following sum with another value, if the kernel can do that too, and says whether it did.
    fn fold_sum(&mut self) -> bool {
        false
    }

    /// Puts the kernel's weights in the form in which it multiplies by them. `parameters` says where each parameter starts.
    fn arrange(&self, _device: &Device, _model: &CardModel, _parameters: &[usize]) -> Result<(), CudaError> {
        Ok(())
    }

    /// Whether the kernel multiplies in half precision, in which case the gradient of its weight is also written in half precision.
    fn halves(&self) -> bool {
        false
    }

    /// In how many parts the norm of a weight gradient is made that is written in half precision.
    fn norm_parts(&self) -> usize {
        1
    }

    /// Whether the kernel can write its values as narrow numbers, and then reads their gradient as narrow numbers, too.
    fn writes_narrow(&self) -> bool {
        false
    }

    /// Whether the kernel can read an input as narrow numbers, and then writes the gradient of that input as narrow numbers, too.
    fn reads_narrow(&self, _slot: usize) -> bool {
        false
    }

    /// The bias that the kernel can leave to the reader of its narrow values.
    fn leaves_bias(&self) -> Option<ParameterId> {
        None
    }

    /// Whether the kernel can add the bias that was left to it by whoever makes an input.
    fn adds_bias(&self) -> bool {
        false
    }

    /// Is told whether its first input is narrow, and whether its own values are.
    fn settle_narrow(&mut self, _input: bool, _output: bool) {}

    /// The kernel as a convolution, if it is one. Convolutions are measured.
    fn convolution(&self) -> Option<&CudaConvKernel> {
        None
    }

    /// Whether the kernel runs its convolution the other way round, so that it reads the convolution's output and makes its input.
    fn transposes(&self) -> bool {
        false
    }

    /// Whether norms are cheaper to get by inner products than by writing down one weight gradient for each sample.
    ///
    /// Both ways multiply once over all positions for the gradients themselves, so the cost of the inner products is compared with that of
    /// writing and reading.
    fn prefers_ghost(&self, _views: usize) -> bool {
        false
    }

    /// How many numbers of workspace a sample needs if its weight gradient is never written down. These are for inner products in double
    /// precision, which take two numbers each.
    fn ghost_workspace(&self, _views: usize) -> usize {
        0
    }

    /// Adds the clipped gradients of all samples for a weight whose gradient is never written down.
    fn deferred_sum(
        &self,
        _run: &mut CardRun<'_>,
        _node: usize,
        _sum: WeightSum<'_>,
    ) -> Result<(), CudaError> {
        Ok(())
    }
}
