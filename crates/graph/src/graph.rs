//! The graph: nodes in topological order, named parameters, an output and a loss.

use crate::init::Init;
use crate::loss::Loss;
use crate::op::Op;

/// Index of a node in its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) usize);

impl NodeId {
    /// Position in [`Graph::nodes`].
    pub fn index(self) -> usize {
        self.0
    }
}

/// Index of a parameter in its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParameterId(pub(crate) usize);

impl ParameterId {
    /// The parameter at a position in [`Graph::parameters`].
    pub fn at(index: usize) -> Self {
        Self(index)
    }

    /// Position in [`Graph::parameters`].
    pub fn index(self) -> usize {
        self.0
    }
}

/// One operation with its inputs and the shape of its output for one sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// A unique name, dotted like torchvision's modules.
    pub name: String,
    /// The operation.
    pub op: Op,
    /// The nodes it reads, all of which come earlier in the graph.
    pub inputs: Vec<NodeId>,
    /// Shape of its output for one sample.
    pub shape: Vec<usize>,
}

impl Node {
    /// Number of values in the output for one sample.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the output holds no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A named tensor of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// A unique name, the same as in the state dictionary of the library that the model comes from.
    pub name: String,
    /// The shape, the same as in that state dictionary.
    pub shape: Vec<usize>,
    /// How a fresh model fills it.
    pub init: Init,
    /// Whether training may change it. Stored statistics are never trainable.
    pub trainable: bool,
    /// Whether it is a stored statistic rather than something to learn.
    pub buffer: bool,
    /// For position embeddings, the height and width of the grid whose positions the last rows belong to. Embeddings that a file has for
    /// another grid are resampled.
    pub grid: Option<[usize; 2]>,
}

impl Parameter {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it holds no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A second output for training only: its loss against the same target, times a weight, is added to the main output's loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Auxiliary {
    /// The node whose value is compared with the target; it has the output's shape.
    pub output: NodeId,
    /// The factor by which its loss is multiplied.
    pub weight: f32,
}

/// A checked model. Only [`crate::GraphBuilder::finish`] makes one, so every shape fits and no node mixes examples.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) output: NodeId,
    pub(crate) auxiliary: Vec<Auxiliary>,
    pub(crate) loss: Loss,
    /// The first node of every block.
    pub(crate) blocks: Vec<NodeId>,
    /// The first node after the last block.
    pub(crate) behind_blocks: NodeId,
}

impl Graph {
    /// All nodes, each after those it reads; the first is the input.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// All parameters, in the order in which they were added. Those of adapters come last.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// One parameter.
    pub fn parameter(&self, id: ParameterId) -> &Parameter {
        &self.parameters[id.0]
    }

    /// The parameter with this name.
    pub fn find_parameter(&self, name: &str) -> Option<ParameterId> {
        self.parameters.iter().position(|p| p.name == name).map(ParameterId)
    }

    /// Shape of one sample.
    pub fn input_shape(&self) -> &[usize] {
        &self.nodes[0].shape
    }

    /// The node whose value is the model's output.
    pub fn output(&self) -> NodeId {
        self.output
    }

    /// Shape of the output for one sample.
    pub fn output_shape(&self) -> &[usize] {
        &self.nodes[self.output.0].shape
    }

    /// The outputs that exist for training only. A forward pass leaves them out.
    pub fn auxiliary(&self) -> &[Auxiliary] {
        &self.auxiliary
    }

    /// Tells for every node whether the output depends on it, or, if `auxiliary` is set, whether any output does.
    pub fn reached(&self, auxiliary: bool) -> Vec<bool> {
        let mut reached = vec![false; self.nodes.len()];
        reached[self.output.0] = true;
        for auxiliary in self.auxiliary.iter().filter(|_| auxiliary) {
            reached[auxiliary.output.0] = true;
        }
        for index in (0..self.nodes.len()).rev() {
            if reached[index] {
                for input in &self.nodes[index].inputs {
                    reached[input.0] = true;
                }
            }
        }
        reached
    }

    /// The loss by which every output is judged.
    pub fn loss(&self) -> Loss {
        self.loss
    }

    /// Replaces the loss.
    ///
    /// # Errors
    /// If the output does not suit it.
    pub fn with_loss(mut self, loss: Loss) -> Result<Self, crate::GraphError> {
        self.loss = loss;
        crate::validate::check(&self)?;
        Ok(self)
    }

    /// Number of values in all trainable parameters.
    pub fn trainable_len(&self) -> usize {
        self.parameters.iter().filter(|p| p.trainable).map(Parameter::len).sum()
    }

    /// Decides by name which parameters train. Stored statistics stay frozen whatever is asked.
    pub fn set_trainable(&mut self, mut trainable: impl FnMut(&str) -> bool) {
        for parameter in &mut self.parameters {
            parameter.trainable = !parameter.buffer && trainable(&parameter.name);
        }
    }

    /// Numbers the dropout layers in their order.
    pub(crate) fn number_dropout(&mut self) {
        let layers = self.nodes.iter_mut().filter_map(|node| match &mut node.op {
            Op::Dropout(dropout) => Some(dropout),
            _ => None,
        });
        layers.enumerate().for_each(|(number, dropout)| dropout.number = number);
    }

    /// Tells for every node whether a gradient must reach its output. That is so if the node, or one that it depends on, reads a trainable
    /// parameter, and an output depends on the node. The backward pass visits no other node, so a frozen trunk costs it nothing.
    pub fn needs_gradient(&self) -> Vec<bool> {
        let mut needs = vec![false; self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            needs[index] = node.inputs.iter().any(|input| needs[input.0])
                || node.op.parameters().iter().any(|id| self.parameters[id.0].trainable);
        }
        needs.iter().zip(self.reached(true)).map(|(&needs, reached)| needs && reached).collect()
    }
}
