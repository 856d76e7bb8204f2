//! How many products a model takes.

use crate::graph::{Graph, Node};
use crate::op::{Conv, Linear, Op, PooledAttention, TokenConv, TransposedConv};

impl Graph {
    /// How many products of two numbers, each followed by a sum, the layers with weights and the attention take for one sample, forward. That is
    /// the number that tables of models state as operations of an image. Norms, activations and resampling take far fewer and are not counted.
    #[must_use]
    pub fn multiply_adds(&self) -> u64 {
        self.nodes().iter().map(|node| self.products_of(node) as u64).sum()
    }

    fn products_of(&self, node: &Node) -> usize {
        let input = |place: usize| self.node(node.inputs[place]);
        // Weights are stored by what each makes one of.
        let of_each = |weight| {
            let weight = self.parameter(weight);
            weight.len() / weight.shape[0].max(1)
        };
        match &node.op {
            Op::Conv(Conv { weight, .. }) | Op::Linear(Linear { weight, .. }) => {
                node.len() * of_each(*weight)
            }
            // A transposed convolution stores them by its inputs.
            Op::TransposedConv(TransposedConv { weight, .. }) => input(0).len() * of_each(*weight),
            // The first token is copied.
            Op::TokenConv(TokenConv { weight, .. }) => (node.len() - node.shape[1]) * of_each(*weight),
            Op::MatMul(_) => node.len() * input(0).shape.last().copied().unwrap_or(0),
            // Scores, and the sum of values by them.
            Op::Attention(_) => 2 * node.len() * input(if node.inputs.len() > 2 { 1 } else { 0 }).shape[0],
            Op::PooledAttention(PooledAttention { keys, .. }) => {
                2 * node.len() * input(1).shape[0] + (node.len() - node.shape[1]) * keys.iter().sum::<usize>()
            }
            Op::Input(_)
            | Op::ParameterValue(_)
            | Op::GroupNorm(_)
            | Op::LayerNorm(_)
            | Op::BatchNorm(_)
            | Op::ChannelScale(_)
            | Op::Activation(_)
            | Op::MaxPool(_)
            | Op::AvgPool(_)
            | Op::AdaptiveAvgPool(_)
            | Op::Upsample(_)
            | Op::Add(_)
            | Op::Mul(_)
            | Op::Concat(_)
            | Op::Slice(_)
            | Op::Permute(_)
            | Op::Reshape(_)
            | Op::Gather(_)
            | Op::Softmax(_)
            | Op::Dropout(_) => 0,
        }
    }
}
