//! A graph as the steps that run on the card: nodes with their sizes and tables, in which reshapes, and the ReLUs and sums that follow
//! norms, are folded away.

use std::collections::BTreeSet;

use dapple_graph::{DropoutUnits, Graph, Op, Window, op};

use super::Precision;
use super::geometry::Geometry;
use super::narrow::OwedBias;
use super::operation::{CudaKernel, ShapedNode};

/// A graph's steps, indexed like its nodes.
#[derive(Debug)]
pub(crate) struct CardSteps {
    /// What each node does; `None` if its value is that of an earlier node.
    pub(crate) operations: Vec<Option<Box<dyn CudaKernel>>>,
    /// For each node, the node whose value it has, which is its root.
    pub(crate) roots: Vec<usize>,
    /// The roots of each node's inputs.
    pub(crate) inputs: Vec<Vec<usize>>,
    /// The number of values of an item of each node.
    pub(crate) lens: Vec<usize>,
    pub(crate) needs_gradient: Vec<bool>,
    pub(crate) output: usize,
    /// All outputs that have a loss, each with the factor of its loss. The main output comes first.
    pub(crate) outputs: Vec<(usize, f32)>,
    /// All tables, one after the other.
    pub(crate) tables: Vec<i32>,
    /// How many numbers there are of standardised weights, of deviations of their filters, and of weights arranged for tilings.
    pub(crate) used_len: usize,
    pub(crate) inverses_len: usize,
    pub(crate) arranged_len: usize,
    /// How many pairs of halves the weights that are multiplied in halves have, and how many weights those are.
    pub(crate) halves_len: usize,
    pub(crate) halved: usize,
    /// For how many features the kernels of attention are made that run.
    pub(crate) head_sizes: BTreeSet<usize>,
    /// The precision to which the factors of products may be rounded.
    pub(crate) precision: Precision,
    /// For each node, whether its values and their gradient are narrow.
    pub(crate) narrow: Vec<bool>,
    /// For each node, the bias that its reader has to add.
    pub(crate) owed: Vec<Option<OwedBias>>,
    /// Where each parameter starts.
    pub(crate) parameters: Vec<usize>,
    pub(crate) parameters_len: usize,
    /// The units for which samples may have masks.
    pub(crate) units: DropoutUnits,
}

impl CardSteps {
    /// Lowers a graph.
    pub(crate) fn new(graph: &Graph, precision: Precision) -> Self {
        Self::of_submodel(graph, graph, precision)
    }

    /// Lowers a submodel of a graph, which has the graph's nodes and parameters. Its weights and tables lie as those of the whole.
    pub(crate) fn of_submodel(graph: &Graph, whole: &Graph, precision: Precision) -> Self {
        let nodes = graph.nodes();
        let needs = whole.needs_gradient();
        let mut readers = vec![0usize; nodes.len()];
        nodes.iter().flat_map(|node| &node.inputs).for_each(|id| readers[id.index()] += 1);
        let outputs: Vec<(usize, f32)> = std::iter::once((graph.output().index(), 1.0))
            .chain(graph.auxiliary().iter().map(|auxiliary| (auxiliary.output.index(), auxiliary.weight)))
            .collect();
        outputs.iter().for_each(|(output, _)| readers[*output] += 1);
        let mut steps = Self {
            operations: Vec::new(),
            roots: Vec::new(),
            inputs: Vec::new(),
            lens: nodes.iter().map(|node| node.len()).collect(),
            needs_gradient: graph.needs_gradient(),
            output: 0,
            outputs: Vec::new(),
            tables: Vec::new(),
            used_len: 0,
            inverses_len: 0,
            arranged_len: 0,
            halves_len: 0,
            halved: 0,
            head_sizes: BTreeSet::new(),
            precision,
            narrow: vec![false; nodes.len()],
            owed: vec![None; nodes.len()],
            parameters: Vec::new(),
            parameters_len: 0,
            units: graph.dropout_units(),
        };
        for parameter in graph.parameters() {
            steps.parameters.push(steps.parameters_len);
            steps.parameters_len += parameter.len();
        }
        for (index, node) in nodes.iter().enumerate() {
            let inputs: Vec<usize> = node.inputs.iter().map(|id| steps.roots[id.index()]).collect();
            let shapes: Vec<&[usize]> =
                node.inputs.iter().map(|id| nodes[id.index()].shape.as_slice()).collect();
            let before: Vec<usize> = node.inputs.iter().map(|id| id.index()).collect();
            let only = |before: usize| readers[before] == 1;
            let folded = match (&node.op, &before[..]) {
                (Op::Reshape(_), [_]) => Some(inputs[0]),
                (Op::Activation(op::Activation::Relu), &[before]) if only(before) => {
                    steps.fold_relu(before, matches!(nodes[before].op, Op::Add(_)))
                }
                (Op::Add(_), &[a, b]) if only(a.max(b)) => steps.fold_sum(index, a.min(b), a.max(b)),
                _ => None,
            };
            // What a kernel arranges depends on the whole model, so that all submodels find it in one place.
            let wanted = whole.nodes()[index].inputs.first().is_some_and(|before| needs[before.index()]);
            let shaped = ShapedNode { inputs: &shapes, shape: &node.shape, wanted };
            let operation = folded.is_none().then(|| crate::op::cuda(&node.op).kernel(&shaped, &mut steps));
            steps.roots.push(folded.unwrap_or(index));
            steps.operations.push(operation);
            steps.inputs.push(inputs);
        }
        steps.output = steps.roots[graph.output().index()];
        steps.outputs = outputs.iter().map(|&(output, weight)| (steps.roots[output], weight)).collect();
        steps.choose_narrow(graph);
        steps
    }

    /// Whether weights and tables lie as those of other steps do, so that one model on the card serves both.
    pub(crate) fn lie_alike(&self, other: &Self) -> bool {
        let lens = |steps: &Self| {
            (
                steps.used_len,
                steps.inverses_len,
                steps.arranged_len,
                steps.halves_len,
                steps.halved,
                steps.parameters_len,
            )
        };
        lens(self) == lens(other) && self.tables == other.tables && self.parameters == other.parameters
    }

    /// Folds a ReLU into the norm before it, if there is one. With `sum`, the node before is a sum that may itself have been folded into a
    /// norm. Returns the node that now does the ReLU's work.
    fn fold_relu(&mut self, before: usize, sum: bool) -> Option<usize> {
        let root = if sum { self.roots[before] } else { before };
        self.operations[root].as_mut()?.fold_relu(sum).then_some(root)
    }

    /// Folds a sum into the norm that is the later of its two inputs, which then adds the other input. Returns that norm.
    fn fold_sum(&mut self, sum: usize, other: usize, norm: usize) -> Option<usize> {
        let other = self.roots[other];
        let operation = self.operations[norm].as_mut().filter(|_| other < norm)?;
        operation.fold_sum().then(|| {
            self.inputs[norm].push(other);
            self.needs_gradient[norm] |= self.needs_gradient[sum];
            norm
        })
    }

    /// Appends a table, and returns where it begins.
    pub(crate) fn table(&mut self, values: Vec<i32>) -> usize {
        // Tables are aligned, because kernels read rows of four at once.
        self.tables.resize(self.tables.len().next_multiple_of(4), 0);
        let start = self.tables.len();
        self.tables.extend(values);
        start
    }

    /// Appends the table of a window over a node's input, and returns where it begins.
    pub(crate) fn window(&mut self, window: &Window, node: &ShapedNode<'_>) -> usize {
        self.table(Geometry::new(window, 1, node.input(), node.shape).window_table())
    }
}
