//! The graph: nodes in topological order, named parameters, an input shape, an output, a loss.

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
    /// Position in [`Graph::parameters`].
    pub fn index(self) -> usize {
        self.0
    }
}

/// One operation with its inputs and the shape of what it makes of one sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Unique name, dotted like torchvision's modules.
    pub name: String,
    /// The operation.
    pub op: Op,
    /// Nodes it reads, all earlier in the graph.
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
    /// Unique name, as in the state dictionary of the library it comes from.
    pub name: String,
    /// Shape, as there.
    pub shape: Vec<usize>,
    /// How a fresh model fills it.
    pub init: Init,
    /// Whether training may change it. Stored statistics never are.
    pub trainable: bool,
    /// Whether it is a stored statistic rather than something to learn.
    pub buffer: bool,
    /// Height and width of the grid whose positions its last rows belong to. A file with another grid is resampled.
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

/// A second output that trains beside the first: its loss with the same target, times a weight, is added to the output's loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Auxiliary {
    /// The node whose value is compared with the target; it has the output's shape.
    pub output: NodeId,
    /// What its loss is multiplied by.
    pub weight: f32,
}

/// A checked model: made by [`crate::GraphBuilder::finish`], so every shape fits and no node mixes examples.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) output: NodeId,
    pub(crate) auxiliary: Vec<Auxiliary>,
    pub(crate) loss: Loss,
    /// First nodes of its blocks.
    pub(crate) blocks: Vec<NodeId>,
    /// The first node behind the last of them.
    pub(crate) behind_blocks: NodeId,
}

impl Graph {
    /// All nodes, inputs before their users; the first is the input.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// All parameters, in the order of the nodes that use them.
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

    /// Outputs that exist for training only; a forward pass leaves them out.
    pub fn auxiliary(&self) -> &[Auxiliary] {
        &self.auxiliary
    }

    /// For every node, whether the output depends on it, or an auxiliary output if they are asked for.
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

    /// The loss of every output.
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

    /// For every node, whether a gradient must reach its output: whether a trainable parameter lies at or above it on a path to the
    /// output or an auxiliary one. The backward pass visits no other node, so a frozen trunk costs nothing.
    pub fn needs_gradient(&self) -> Vec<bool> {
        let mut needs = vec![false; self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            needs[index] = node.inputs.iter().any(|input| needs[input.0])
                || node.op.parameters().iter().any(|id| self.parameters[id.0].trainable);
        }
        needs.iter().zip(self.reached(true)).map(|(&needs, reached)| needs && reached).collect()
    }
}
