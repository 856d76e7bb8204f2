//! Which values of a graph are zero, and which have no gradient, while a unit is dropped.

use super::units::DropoutUnits;
use crate::graph::{Graph, Node};
use crate::op::{Activation, Op};

/// A unit of which something depends, or `None` if nothing is known.
pub(super) type UnitTag = Option<usize>;

/// Tags of all values of a node, in row-major order; `None` where no value has one.
type NodeTags = Option<Vec<UnitTag>>;

/// How an operation passes tags between its only input and its output.
enum TagFlow {
    /// Each value depends on the value at the same place, and is zero where that is zero.
    Values,
    /// The values of each channel depend on those of the same channel alone, and are zero where these are all zero.
    Channels,
    /// Anything may depend on anything.
    Mixed,
}

impl TagFlow {
    /// What is known of an operation. Whatever is not listed here is taken to mix everything.
    fn of(op: &Op) -> Self {
        match op {
            Op::Activation(Activation::Scale(factor)) if !factor.is_finite() => Self::Mixed,
            Op::Activation(_) | Op::Dropout(_) | Op::Reshape(_) | Op::ChannelScale(_) => Self::Values,
            Op::MaxPool(_) | Op::AvgPool(_) | Op::AdaptiveAvgPool(_) | Op::Upsample(_) => Self::Channels,
            _ => Self::Mixed,
        }
    }

    /// What is known of how gradients pass through an operation. A norm by stored statistics moves zeros elsewhere, but multiplies the gradient of
    /// each value by a number.
    fn of_gradients(op: &Op) -> Self {
        match op {
            Op::BatchNorm(norm) if !norm.training => Self::Values,
            op => Self::of(op),
        }
    }

    /// The tags of a node, from those of its neighbour on the other side of the operation.
    fn pass(&self, tags: &[UnitTag], from: &Node, to: &Node) -> NodeTags {
        match self {
            Self::Values => Some(tags.to_vec()),
            Self::Channels => {
                let positions = to.len() / to.shape[0];
                let channels = of_channels(tags, from);
                known(channels.into_iter().flat_map(|tag| std::iter::repeat_n(tag, positions)).collect())
            }
            Self::Mixed => None,
        }
    }
}

/// The tags that say something.
fn known(tags: Vec<UnitTag>) -> NodeTags {
    tags.iter().any(Option::is_some).then_some(tags)
}

/// The unit of each group of values, where all values of a group have the same.
fn grouped(tags: &[UnitTag], groups: usize, group: impl Fn(usize) -> usize) -> Vec<UnitTag> {
    let mut found: Vec<Option<UnitTag>> = vec![None; groups];
    for (index, &tag) in tags.iter().enumerate() {
        let own = &mut found[group(index)];
        *own = Some(own.map_or(tag, |own| own.filter(|_| own == tag)));
    }
    found.into_iter().map(Option::flatten).collect()
}

/// The units of a node's channels, which lie along its first axis.
pub(super) fn of_channels(tags: &[UnitTag], node: &Node) -> Vec<UnitTag> {
    let positions = node.len() / node.shape[0];
    grouped(tags, node.shape[0], |index| index / positions)
}

/// The units of a node's features, which lie along its last axis.
pub(super) fn of_features(tags: &[UnitTag], node: &Node) -> Vec<UnitTag> {
    let features = node.shape.last().copied().unwrap_or(1);
    grouped(tags, features, |index| index % features)
}

/// The units of the values of a dropout layer at one half.
fn own_units(units: &DropoutUnits, node: usize, len: usize) -> NodeTags {
    let layer = units.of(node)?;
    Some((0..len).map(|index| Some(layer.first + index / layer.together)).collect())
}

/// For each value of each node a unit, if there is one, so that the value is zero while the unit is dropped.
pub(super) fn silences(graph: &Graph, units: &DropoutUnits) -> Vec<NodeTags> {
    let mut tags: Vec<NodeTags> = Vec::with_capacity(graph.nodes.len());
    for (index, node) in graph.nodes.iter().enumerate() {
        let own = own_units(units, index, node.len()).or_else(|| {
            let &[input] = &node.inputs[..] else { return None };
            TagFlow::of(&node.op).pass(tags[input.0].as_ref()?, &graph.nodes[input.0], node)
        });
        tags.push(own);
    }
    tags
}

/// For each value of each node a unit, if there is one, so that no output depends on the value while the unit is dropped. Every way from
/// the value to an output leads through that unit.
pub(super) fn gates(graph: &Graph, units: &DropoutUnits) -> Vec<NodeTags> {
    let mut reached = vec![false; graph.nodes.len()];
    let mut tags: Vec<NodeTags> = vec![None; graph.nodes.len()];
    let auxiliary = graph.auxiliary.iter().map(|auxiliary| auxiliary.output);
    for output in std::iter::once(graph.output).chain(auxiliary) {
        reached[output.0] = true;
    }
    for (index, node) in graph.nodes.iter().enumerate().rev() {
        if !reached[index] {
            continue;
        }
        for &input in &node.inputs {
            let through = own_units(units, index, node.len()).or_else(|| match &node.op {
                Op::Add(_) => tags[index].clone(),
                op => TagFlow::of_gradients(op).pass(tags[index].as_ref()?, node, &graph.nodes[input.0]),
            });
            let first = !std::mem::replace(&mut reached[input.0], true);
            tags[input.0] = if first { through } else { common(tags[input.0].take(), through) };
        }
    }
    tags
}

/// What is known on both of two ways.
fn common(one: NodeTags, other: NodeTags) -> NodeTags {
    let both = one?.into_iter().zip(other?);
    known(both.map(|(one, other)| one.filter(|_| one == other)).collect())
}
