//! What the CPU asks of an operation, and of the kernel that the operation becomes.

use std::fmt;

use dapple_graph::{ParameterId, Parameters};

pub(crate) use super::backward::{BackwardItem, BackwardPass};
use super::form::Form;
pub(crate) use super::forward::{ForwardItem, ForwardPass};
use super::gemm::{Gemm, PreparedWeights};
use super::kernel::Lanes;
use super::summand::Exported;
pub(crate) use super::values::ItemValues;

/// An operation of a graph, as the CPU lowers it.
pub(crate) trait CpuOperation {
    /// The order in which the operation wants to read its inputs.
    fn order(&self) -> Order {
        Order::AsGiven
    }

    /// How its value lies in memory. Unless it says otherwise, that is the order in which it reads its inputs.
    fn form(&self, shape: &[usize], inputs: &[Form]) -> Form {
        let channels_last = match self.order() {
            Order::ChannelsLast => true,
            Order::RowMajor => false,
            Order::AsGiven => inputs[0].channels_last,
        };
        if channels_last { Form::channels_last(shape) } else { Form::row_major(shape) }
    }

    /// Whether its kernel can also do a ReLU that comes after it and is the only one to read its value.
    fn folds_relu(&self) -> bool {
        false
    }

    /// Whether its kernel can also do a ReLU that comes before it, if nothing else reads that ReLU. The kernel does it last, which must
    /// make no difference.
    fn swaps_with_relu(&self) -> bool {
        false
    }

    /// The kernel for a node whose sizes and forms are settled.
    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel>;
}

/// The order in which an operation reads values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The first axis, which is the channels, lies innermost.
    ChannelsLast,
    RowMajor,
    /// The order of the first input, whichever that is.
    AsGiven,
}

/// A node on its way to a kernel.
pub(crate) struct LoweredNode<'a> {
    /// Its number in the graph.
    pub(crate) index: usize,
    pub(crate) inputs: &'a [Form],
    /// The form of its value.
    pub(crate) form: &'a Form,
    /// Whether a ReLU was folded into the node.
    pub(crate) relu: bool,
}

/// What one step does to items.
pub(crate) trait CpuKernel: fmt::Debug + Send + Sync {
    /// What the backward pass reads besides the gradient. `deferred` says that the weight gradient is not written down.
    fn reads(&self, deferred: bool) -> BackwardReads;

    /// How many numbers of an item the forward pass keeps for the backward pass.
    fn saved(&self) -> usize {
        0
    }

    /// How many numbers of scratch either pass needs, with this many threads inside an item.
    fn scratch(&self, _lanes: Lanes, _parallel: usize) -> usize {
        0
    }

    /// Computes the values of some items.
    fn forward(&self, pass: ForwardPass<'_>);

    /// Adds the gradients of some items' parameters, and writes or adds those of their inputs.
    fn backward(&self, pass: BackwardPass<'_>);

    /// Whether the gradient of each input equals the kernel's own, so that one of them may take over its memory.
    fn hands_gradient_on(&self) -> bool {
        false
    }

    /// The kernel as one that multiplies by a weight, if it does.
    fn weighted(&self) -> Option<&dyn WeightedKernel> {
        None
    }

    /// The kernel as a matrix product, if it is one. Schedules treat those by their sizes.
    fn product(&self) -> Option<&Gemm> {
        None
    }
}

/// What a backward pass reads besides the gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BackwardReads {
    pub(crate) inputs: bool,
    pub(crate) output: bool,
}

impl BackwardReads {
    /// Neither inputs nor output.
    pub(crate) const NOTHING: Self = Self { inputs: false, output: false };
    /// The inputs alone.
    pub(crate) const INPUTS: Self = Self { inputs: true, output: false };
}

/// A kernel that multiplies by a weight. It wants the weight arranged, and may store the weight's gradient in an order of its own.
pub(crate) trait WeightedKernel {
    /// The weight.
    fn weight(&self) -> ParameterId;

    /// Whether gradients are stored in another order than the parameter's.
    fn arranged(&self) -> bool;

    /// Arranges weight and bias for the forward pass, and with `gradient` for the data gradient as well.
    fn prepare(&self, lanes: Lanes, parameters: &Parameters, gradient: bool, prepared: &mut PreparedWeights);

    /// Brings a sum of weight gradients from the stored order into the parameter's.
    fn export(&self, prepared: &PreparedWeights, sum: Exported<'_>);
}
