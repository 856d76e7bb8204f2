//! The units of a graph that dropout at one half keeps or drops as wholes.

use crate::graph::{Graph, NodeId};
use crate::op::{Dropout, Op};

/// The rate at which a mask and its complement are equally likely.
const HALF: f32 = 0.5;

/// The units of one dropout layer at one half: its values, or its channels where these are dropped as wholes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitLayer {
    /// The dropout layer.
    pub node: NodeId,
    /// The number of its first unit among those of the graph.
    pub first: usize,
    /// How many units it has.
    pub count: usize,
    /// How many of its values, in row-major order, are dropped together.
    pub together: usize,
}

/// All units of a graph that are kept or dropped by fair coins, numbered layer after layer. A mask is one coin for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropoutUnits {
    layers: Vec<UnitLayer>,
}

impl Graph {
    /// The units of all dropout layers at one half. Layers at other rates have none: for them a mask and its complement are not equally
    /// likely, so no guarantee can rest on their coins.
    pub fn dropout_units(&self) -> DropoutUnits {
        let mut layers: Vec<UnitLayer> = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let Op::Dropout(Dropout { rate: HALF, channels, .. }) = node.op else { continue };
            let together = if channels { node.shape[1..].iter().product() } else { 1 };
            let first = layers.last().map_or(0, |layer| layer.first + layer.count);
            layers.push(UnitLayer { node: NodeId(index), first, count: node.len() / together, together });
        }
        DropoutUnits { layers }
    }

    /// The same model with all its dropout layers at one half, where they drop nodes: channels of an image as wholes, because a filter reads all
    /// positions of a channel with the same weights, and single values of anything else.
    #[must_use]
    pub fn with_even_dropout(mut self) -> Self {
        for node in &mut self.nodes {
            if let Op::Dropout(dropout) = &mut node.op {
                let channels = dropout.channels || node.shape.len() > 2;
                *dropout = Dropout { rate: HALF, channels, ..*dropout };
            }
        }
        self
    }
}

impl DropoutUnits {
    /// The number of units.
    pub fn len(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.first + layer.count)
    }

    /// Whether no layer drops by fair coins.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// The layers, in the order of the graph.
    pub fn layers(&self) -> &[UnitLayer] {
        &self.layers
    }

    /// The units of a node, by its position among the graph's; `None` if it has none.
    pub fn of(&self, node: usize) -> Option<&UnitLayer> {
        self.layers.iter().find(|layer| layer.node.0 == node)
    }
}
