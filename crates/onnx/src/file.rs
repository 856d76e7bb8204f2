//! The file while it is put together: nodes, stored tensors, and the names of both.

use std::borrow::Cow;
use std::collections::BTreeSet;

use dapple_graph::{Graph, ParameterId, Parameters};
use dapple_protobuf::Message;

use crate::node::WrittenNode;
use crate::{FORMAT, OPERATORS};

/// Types of numbers, by their number in the format.
const FLOAT: i64 = 1;
const INTEGER: i64 = 7;

/// A setting of an operator.
#[derive(Debug, Clone)]
pub(crate) enum Attribute {
    Float(f32),
    Integer(i64),
    Integers(Vec<i64>),
    Text(&'static str),
}

impl Attribute {
    /// A list of sizes.
    pub(crate) fn sizes(sizes: &[usize]) -> Self {
        Self::Integers(sizes.iter().map(|&size| size as i64).collect())
    }

    fn message(self, name: &str) -> Message<'static> {
        let mut message = Message::default();
        message.text(1, name);
        let kind = match self {
            Self::Float(value) => {
                message.float(2, value);
                1
            }
            Self::Integer(value) => {
                message.integer(3, value);
                2
            }
            Self::Text(value) => {
                message.text(4, value);
                3
            }
            Self::Integers(values) => {
                values.into_iter().for_each(|value| message.integer(8, value));
                7
            }
        };
        message.integer(20, kind);
        message
    }
}

/// A graph whose nodes write themselves one after the other.
pub(crate) struct OnnxFile<'m> {
    graph: &'m Graph,
    parameters: &'m Parameters,
    nodes: Vec<Message<'m>>,
    stored: Vec<Message<'m>>,
    /// Every name of a value that is taken.
    names: BTreeSet<String>,
}

impl<'m> OnnxFile<'m> {
    pub(crate) fn new(graph: &'m Graph, parameters: &'m Parameters) -> Self {
        let own = graph.parameters().iter().map(|parameter| parameter.name.clone());
        let names = own.chain([INPUT.to_owned(), OUTPUT.to_owned()]).collect();
        Self { graph, parameters, nodes: Vec::new(), stored: Vec::new(), names }
    }

    /// A name that no value has, as close to the one that is wanted as can be.
    fn free(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        while !self.names.insert(name.clone()) {
            name.push('_');
        }
        name
    }

    /// Adds an operator, and returns the name of what it makes.
    pub(crate) fn add(
        &mut self,
        operator: &str,
        name: &str,
        inputs: &[&str],
        attributes: Vec<(&str, Attribute)>,
    ) -> String {
        let output = self.free(name);
        self.push(operator, &output, inputs, attributes);
        output
    }

    fn push(&mut self, operator: &str, output: &str, inputs: &[&str], attributes: Vec<(&str, Attribute)>) {
        let mut node = Message::default();
        inputs.iter().for_each(|input| node.text(1, input));
        node.text(2, output);
        node.text(3, output);
        node.text(4, operator);
        for (name, attribute) in attributes {
            node.message(5, attribute.message(name));
        }
        self.nodes.push(node);
    }

    /// Stores numbers, and returns their name.
    pub(crate) fn numbers(
        &mut self,
        name: &str,
        shape: &[usize],
        values: impl Into<Cow<'m, [f32]>>,
    ) -> String {
        let name = self.free(name);
        self.store(&name, shape, values.into());
        name
    }

    fn store(&mut self, name: &str, shape: &[usize], values: Cow<'m, [f32]>) {
        let mut tensor = Message::default();
        shape.iter().for_each(|&size| tensor.integer(1, size as i64));
        tensor.integer(2, FLOAT);
        tensor.text(8, name);
        tensor.numbers(9, values);
        self.stored.push(tensor);
    }

    /// Stores whole numbers in a row, and returns their name.
    pub(crate) fn integers(&mut self, name: &str, values: &[i64]) -> String {
        let name = self.free(name);
        let mut tensor = Message::default();
        tensor.integer(1, values.len() as i64);
        tensor.integer(2, INTEGER);
        tensor.text(8, &name);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        tensor.bytes(9, bytes);
        self.stored.push(tensor);
        name
    }

    /// The values of a parameter.
    pub(crate) fn values(&self, id: ParameterId) -> &'m [f32] {
        self.parameters.get(id)
    }

    /// Stores a parameter as it is, under its own name.
    pub(crate) fn parameter(&mut self, id: ParameterId) -> String {
        let shape = self.graph.parameter(id).shape.clone();
        self.parameter_as(id, &shape, self.parameters.get(id))
    }

    /// Stores what a parameter becomes, under its own name. No two operations read one parameter, so it is stored once.
    pub(crate) fn parameter_as(
        &mut self,
        id: ParameterId,
        shape: &[usize],
        values: impl Into<Cow<'m, [f32]>>,
    ) -> String {
        let name = self.graph.parameter(id).name.clone();
        self.store(&name, shape, values.into());
        name
    }

    /// Gives a value another shape for each sample.
    pub(crate) fn reshape(&mut self, name: &str, value: &str, shape: &[usize]) -> String {
        // A zero keeps the axis, which is the batch.
        self.reshape_to(
            name,
            value,
            &std::iter::once(0).chain(shape.iter().map(|&s| s as i64)).collect::<Vec<_>>(),
        )
    }

    /// Gives a value another shape, batch included.
    pub(crate) fn reshape_to(&mut self, name: &str, value: &str, shape: &[i64]) -> String {
        let shape = self.integers(&format!("{name}/shape"), shape);
        self.add("Reshape", name, &[value, &shape], Vec::new())
    }

    /// Reorders all axes, batch included.
    pub(crate) fn transpose(&mut self, name: &str, value: &str, axes: &[i64]) -> String {
        self.add("Transpose", name, &[value], vec![("perm", Attribute::Integers(axes.to_vec()))])
    }

    /// Keeps a range along an axis of the file.
    pub(crate) fn slice(
        &mut self,
        name: &str,
        value: &str,
        axis: i64,
        (start, end): (usize, usize),
    ) -> String {
        let ends = [("start", start as i64), ("end", end as i64), ("axis", axis)];
        let [start, end, axis] = ends.map(|(what, value)| self.integers(&format!("{name}/{what}"), &[value]));
        self.add("Slice", name, &[value, &start, &end, &axis], Vec::new())
    }

    /// Computes a value with one stored number.
    pub(crate) fn with_number(&mut self, operator: &str, name: &str, value: &str, number: f32) -> String {
        let number = self.numbers(&format!("{name}/number"), &[], vec![number]);
        self.add(operator, name, &[value, &number], Vec::new())
    }

    /// Multiplies each channel along an axis of the sample by a stored scale and adds a stored shift, where there are any.
    pub(crate) fn affine(
        &mut self,
        node: &WrittenNode<'_>,
        value: String,
        axis: usize,
        (scale, shift): (Option<ParameterId>, Option<ParameterId>),
    ) -> String {
        let mut shape = vec![node.shape[axis]];
        shape.resize(node.shape.len() - axis, 1);
        let mut value = value;
        for (operator, part, id) in [("Mul", "scaled", scale), ("Add", "shifted", shift)] {
            let Some(id) = id else { continue };
            let stored = self.parameter_as(id, &shape, self.parameters.get(id));
            value = self.add(operator, &node.part(part), &[&value, &stored], Vec::new());
        }
        value
    }

    /// The whole file.
    pub(crate) fn finish(mut self, output: &str, notes: &[(&str, &str)]) -> Message<'m> {
        self.push("Identity", OUTPUT, &[output], Vec::new());
        let mut graph = Message::default();
        self.nodes.into_iter().for_each(|node| graph.message(1, node));
        graph.text(2, "dapple");
        self.stored.into_iter().for_each(|tensor| graph.message(5, tensor));
        graph.message(11, value_info(INPUT, self.graph.input_shape()));
        graph.message(12, value_info(OUTPUT, self.graph.output_shape()));
        let mut operators = Message::default();
        operators.text(1, "");
        operators.integer(2, OPERATORS);
        let mut model = Message::default();
        model.integer(1, FORMAT);
        model.text(2, "dapple");
        model.text(3, env!("CARGO_PKG_VERSION"));
        model.message(7, graph);
        model.message(8, operators);
        for (key, text) in notes {
            let mut note = Message::default();
            note.text(1, key);
            note.text(2, text);
            model.message(14, note);
        }
        model
    }
}

/// The names of the file's input and output.
pub(crate) const INPUT: &str = "input";
const OUTPUT: &str = "output";

/// Type and shape of an input or output, whose first axis may have any size.
fn value_info(name: &str, sample: &[usize]) -> Message<'static> {
    let mut shape = Message::default();
    let mut batch = Message::default();
    batch.text(2, "batch");
    shape.message(1, batch);
    for &size in sample {
        let mut dimension = Message::default();
        dimension.integer(1, size as i64);
        shape.message(1, dimension);
    }
    let mut tensor = Message::default();
    tensor.integer(1, FLOAT);
    tensor.message(2, shape);
    let mut kind = Message::default();
    kind.message(1, tensor);
    let mut info = Message::default();
    info.text(1, name);
    info.message(2, kind);
    info
}
