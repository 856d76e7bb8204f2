//! Builds a graph node by node, inferring shapes and making the parameters under torchvision's names.

mod norms;
mod tokens;

use std::collections::BTreeSet;

use crate::error::GraphError;
use crate::graph::{Auxiliary, Graph, Node, NodeId, Parameter, ParameterId};
use crate::init::Init;
use crate::loss::Loss;
use crate::op::shape::elements;
use crate::op::{ChannelScale, Conv, Input, Linear, Op, TransposedConv, Window};
use crate::validate;

/// What a convolution needs besides its input.
#[derive(Debug, Clone)]
pub struct ConvSpec {
    /// Output channels.
    pub out: usize,
    /// The sliding window.
    pub window: Window,
    /// Channel groups.
    pub groups: usize,
    /// Whether it has a bias.
    pub bias: bool,
    /// The eps of weight standardisation; `None` leaves the weights as they are.
    pub standardise: Option<f32>,
    /// How a fresh weight is filled.
    pub init: Init,
    /// How a fresh bias is filled.
    pub bias_init: Init,
}

impl ConvSpec {
    /// A convolution without bias or groups, initialised as torchvision's residual networks are.
    pub fn new(out: usize, window: Window) -> Self {
        Self {
            out,
            window,
            groups: 1,
            bias: false,
            standardise: None,
            init: Init::KaimingNormalFanOut,
            bias_init: Init::Constant(0.0),
        }
    }

    /// Gives the convolution a bias.
    #[must_use]
    pub fn bias(mut self) -> Self {
        self.bias = true;
        self
    }

    /// Divides the channels into groups.
    #[must_use]
    pub fn groups(mut self, groups: usize) -> Self {
        self.groups = groups;
        self
    }

    /// Standardises the weights.
    #[must_use]
    pub fn standardise(mut self, eps: f32) -> Self {
        self.standardise = Some(eps);
        self
    }
}

/// The names of a linear layer and of its parameters.
#[derive(Debug, Clone, Copy)]
pub struct LinearNames<'a> {
    /// The name of the node.
    pub node: &'a str,
    /// The name of the weight.
    pub weight: &'a str,
    /// The name of the bias; `None` for a layer without one.
    pub bias: Option<&'a str>,
}

/// Collects nodes and parameters; [`GraphBuilder::finish`] checks the whole and returns a [`Graph`].
#[derive(Debug)]
pub struct GraphBuilder {
    nodes: Vec<Node>,
    parameters: Vec<Parameter>,
    auxiliary: Vec<Auxiliary>,
    blocks: Vec<NodeId>,
    behind_blocks: Option<NodeId>,
    names: BTreeSet<String>,
}

impl GraphBuilder {
    /// Starts a graph whose samples have this shape.
    pub fn new(input_shape: &[usize]) -> Self {
        let input =
            Node { name: "input".into(), op: Input.into(), inputs: Vec::new(), shape: input_shape.to_vec() };
        let names = BTreeSet::from(["input".to_owned()]);
        Self {
            nodes: vec![input],
            parameters: Vec::new(),
            auxiliary: Vec::new(),
            blocks: Vec::new(),
            behind_blocks: None,
            names,
        }
    }

    /// The input node.
    pub fn input(&self) -> NodeId {
        NodeId(0)
    }

    /// Shape of a node's output for one sample.
    pub fn shape(&self, id: NodeId) -> &[usize] {
        &self.nodes[id.0].shape
    }

    /// Adds a parameter. It is trainable unless it is a buffer.
    ///
    /// # Errors
    /// If the name is taken or the shape holds no values.
    pub fn parameter(
        &mut self,
        name: &str,
        shape: &[usize],
        init: Init,
        buffer: bool,
    ) -> Result<ParameterId, GraphError> {
        if self.parameters.iter().any(|p| p.name == name) {
            return Err(GraphError::DuplicateName(name.into()));
        }
        if elements(shape).unwrap_or(0) == 0 {
            let reason = format!("a parameter of shape {shape:?} holds no values");
            return Err(GraphError::Shape { node: name.into(), op: "Parameter", reason });
        }
        let parameter = Parameter {
            name: name.into(),
            shape: shape.to_vec(),
            init,
            trainable: !buffer,
            buffer,
            grid: None,
        };
        self.parameters.push(parameter);
        Ok(ParameterId(self.parameters.len() - 1))
    }

    /// Says that the last rows of a parameter belong to the positions of a grid of this height and width.
    pub fn positions(&mut self, id: ParameterId, grid: [usize; 2]) {
        self.parameters[id.0].grid = Some(grid);
    }

    /// Adds a node for an operation whose output shape follows from its inputs.
    ///
    /// # Errors
    /// If the name is taken, an input or a parameter is unknown, or the shapes do not fit.
    pub fn add(&mut self, name: &str, op: impl Into<Op>, inputs: &[NodeId]) -> Result<NodeId, GraphError> {
        let op = op.into();
        let shapes = self.input_shapes(inputs)?;
        if let Some(unknown) = op.parameters().iter().find(|id| id.0 >= self.parameters.len()) {
            return Err(GraphError::Unknown(format!("parameter {}", unknown.0)));
        }
        let shape = op.infer(&shapes, &self.parameters).map_err(|reason| refuse(name, &op, reason))?;
        self.push(name, op, inputs, shape)
    }

    /// Adds a convolution with its parameters `name.weight` and, if asked, `name.bias`.
    ///
    /// # Errors
    /// If the shapes do not fit or the name is taken.
    pub fn conv(&mut self, name: &str, input: NodeId, spec: ConvSpec) -> Result<NodeId, GraphError> {
        let refuse = |reason| {
            let op = Conv::name_of(&spec.window);
            GraphError::Shape { node: name.into(), op, reason }
        };
        let input_shape = self.input_shapes(&[input])?[0];
        let weight_shape =
            Conv::weight_shape(&spec.window, spec.groups, spec.out, input_shape).map_err(refuse)?;
        let (weight, bias) = self.conv_parameters(name, &spec, &weight_shape)?;
        let (window, groups, standardise) = (spec.window, spec.groups, spec.standardise);
        self.add(name, Conv { window, groups, weight, bias, standardise }, &[input])
    }

    /// Adds a transposed convolution with its parameters `name.weight`, in PyTorch's order `[c, out / groups, kernel..]`, and, if asked,
    /// `name.bias`. `output_padding` says how many positions are added at the end of each spatial axis.
    ///
    /// # Errors
    /// If the shapes do not fit, the name is taken, or the weight is to be standardised.
    pub fn transposed_conv(
        &mut self,
        name: &str,
        input: NodeId,
        spec: ConvSpec,
        output_padding: &[usize],
    ) -> Result<NodeId, GraphError> {
        let refuse = |reason| {
            let op = TransposedConv::name_of(&spec.window);
            GraphError::Shape { node: name.into(), op, reason }
        };
        if spec.standardise.is_some() {
            return Err(refuse("its weight cannot be standardised".into()));
        }
        let input_shape = self.input_shapes(&[input])?[0];
        let weight_shape =
            TransposedConv::weight_shape(&spec.window, spec.groups, spec.out, input_shape).map_err(refuse)?;
        let (weight, bias) = self.conv_parameters(name, &spec, &weight_shape)?;
        let (window, groups, output_padding) = (spec.window, spec.groups, output_padding.to_vec());
        self.add(name, TransposedConv { window, output_padding, groups, weight, bias }, &[input])
    }

    /// Adds the weight and, if asked, the bias of a convolution.
    fn conv_parameters(
        &mut self,
        name: &str,
        spec: &ConvSpec,
        weight_shape: &[usize],
    ) -> Result<(ParameterId, Option<ParameterId>), GraphError> {
        let weight = self.parameter(&format!("{name}.weight"), weight_shape, spec.init, false)?;
        let bias = match spec.bias {
            true => Some(self.parameter(&format!("{name}.bias"), &[spec.out], spec.bias_init, false)?),
            false => None,
        };
        Ok((weight, bias))
    }

    /// Adds a linear layer with its parameters `name.weight`, filled by `init`, and `name.bias`, filled by `bias_init`.
    ///
    /// # Errors
    /// If the shapes do not fit or the name is taken.
    pub fn linear(
        &mut self,
        name: &str,
        input: NodeId,
        out: usize,
        init: Init,
        bias_init: Init,
    ) -> Result<NodeId, GraphError> {
        let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
        let names = LinearNames { node: name, weight: &weight, bias: Some(&bias) };
        self.linear_named(names, input, out, init, bias_init)
    }

    /// Adds a linear layer whose parameters have names of their own. If the bias has no name, there is no bias.
    ///
    /// # Errors
    /// If the shapes do not fit or a name is taken.
    pub fn linear_named(
        &mut self,
        names: LinearNames<'_>,
        input: NodeId,
        out: usize,
        init: Init,
        bias_init: Init,
    ) -> Result<NodeId, GraphError> {
        let refuse = |reason| GraphError::Shape { node: names.node.into(), op: "Linear", reason };
        let weight_shape = Linear::weight_shape(self.input_shapes(&[input])?[0], out).map_err(refuse)?;
        let weight = self.parameter(names.weight, &weight_shape, init, false)?;
        let bias = names.bias.map(|bias| self.parameter(bias, &[out], bias_init, false)).transpose()?;
        self.add(names.node, Linear { weight, bias }, &[input])
    }

    /// Adds a node that multiplies each channel along an axis by a trainable factor, `name.weight`, which starts at `first`.
    ///
    /// # Errors
    /// If there is no such axis or the name is taken.
    pub fn channel_scale(
        &mut self,
        name: &str,
        input: NodeId,
        axis: usize,
        first: f32,
    ) -> Result<NodeId, GraphError> {
        let Some(&channels) = self.shape(input).get(axis) else {
            let reason = format!("{:?} has no axis {axis}", self.shape(input));
            return Err(GraphError::Shape { node: name.into(), op: "ChannelScale", reason });
        };
        let weight = self.parameter(&format!("{name}.weight"), &[channels], Init::Constant(first), false)?;
        self.add(name, ChannelScale { axis, weight }, &[input])
    }

    /// Makes a node an output that trains beside the main one, its loss multiplied by `weight`.
    pub fn auxiliary(&mut self, output: NodeId, weight: f32) {
        self.auxiliary.push(Auxiliary { output, weight });
    }

    /// Begins a block, whose first node is the next one to be added. A model that is a sequence of blocks can train the last few alone.
    pub fn block(&mut self) {
        self.blocks.push(NodeId(self.nodes.len()));
    }

    /// Ends the last block. The next node to be added comes after all blocks.
    pub fn end_blocks(&mut self) {
        self.behind_blocks = Some(NodeId(self.nodes.len()));
    }

    /// Checks the whole and returns the graph.
    ///
    /// # Errors
    /// If an output is unknown, the sample is empty, a node mixes examples, two nodes read one parameter, the output does not suit the
    /// loss, or an auxiliary output has another shape or a weight that is not positive.
    pub fn finish(self, output: NodeId, loss: Loss) -> Result<Graph, GraphError> {
        let Self { nodes, parameters, auxiliary, blocks, behind_blocks, .. } = self;
        let outputs = auxiliary.iter().map(|auxiliary| auxiliary.output).chain([output]);
        if let Some(unknown) = outputs.into_iter().find(|id| id.0 >= nodes.len()) {
            return Err(GraphError::Unknown(format!("node {}", unknown.0)));
        }
        let behind_blocks = behind_blocks.unwrap_or(NodeId(nodes.len()));
        let mut graph = Graph { nodes, parameters, output, auxiliary, loss, blocks, behind_blocks };
        graph.number_dropout();
        validate::check(&graph)?;
        Ok(graph)
    }

    fn input_shapes(&self, inputs: &[NodeId]) -> Result<Vec<&[usize]>, GraphError> {
        inputs
            .iter()
            .map(|id| match self.nodes.get(id.0) {
                Some(node) => Ok(node.shape.as_slice()),
                None => Err(GraphError::Unknown(format!("node {}", id.0))),
            })
            .collect()
    }

    fn push(
        &mut self,
        name: &str,
        op: Op,
        inputs: &[NodeId],
        shape: Vec<usize>,
    ) -> Result<NodeId, GraphError> {
        if elements(&shape).unwrap_or(0) == 0 {
            let reason = format!("its output {shape:?} holds no values");
            return Err(refuse(name, &op, reason));
        }
        if !self.names.insert(name.to_owned()) {
            return Err(GraphError::DuplicateName(name.into()));
        }
        self.nodes.push(Node { name: name.into(), op, inputs: inputs.to_vec(), shape });
        Ok(NodeId(self.nodes.len() - 1))
    }
}

fn refuse(name: &str, op: &Op, reason: String) -> GraphError {
    GraphError::Shape { node: name.into(), op: op.name(), reason }
}
