//! A graph as the CPU runs it: as steps whose memory forms are settled, with ReLUs folded in and copies made explicit.

use std::collections::BTreeMap;
use std::sync::Arc;

use dapple_graph::op::Activation;
use dapple_graph::{Graph, Node, NodeId, Op};

use super::form::{Form, Transfer};
use super::gemm::Gemm;
use super::operation::{CpuKernel, LoweredNode, Order};
use super::transfers::TransferKernel;
use crate::op;

/// One step, which reads the values of earlier steps and makes one of its own.
#[derive(Debug)]
pub(crate) struct CpuStep {
    pub(crate) name: String,
    pub(crate) kernel: Arc<dyn CpuKernel>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) form: Form,
    /// Whether a gradient must reach its value.
    pub(crate) needs_gradient: bool,
}

impl CpuStep {
    /// Whether all threads multiply by the step's weight together, so that it is read once for all of them.
    pub(crate) fn vast(&self) -> bool {
        self.kernel.product().is_some_and(Gemm::vast)
    }
}

/// All steps, and which of them make the outputs.
#[derive(Debug)]
pub(crate) struct CpuSteps {
    pub(crate) steps: Vec<CpuStep>,
    /// Where the sample enters; `None` if nothing depends on it.
    pub(crate) input: Option<usize>,
    pub(crate) output: usize,
    /// The auxiliary outputs, each with the factor of its loss.
    pub(crate) auxiliary: Vec<(usize, f32)>,
}

impl CpuSteps {
    /// All outputs, the main one first.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.output).chain(self.auxiliary.iter().map(|(step, _)| *step))
    }

    /// Takes the matrix products that another graph has in the same way from that graph's steps. Their tables of rows are the largest part of a
    /// program, so programs that differ in a few steps take little memory beside the first.
    pub(crate) fn share(&mut self, other: &Self) {
        let product = |kernel: &Arc<dyn CpuKernel>| kernel.product().map(|gemm| gemm.weight.index());
        let kernels = other.steps.iter().map(|step| &step.kernel);
        let known: BTreeMap<usize, &Arc<dyn CpuKernel>> =
            kernels.filter_map(|kernel| Some((product(kernel)?, kernel))).collect();
        for step in &mut self.steps {
            let same = product(&step.kernel).and_then(|weight| known.get(&weight).copied());
            if let Some(same) = same.filter(|same| same.product() == step.kernel.product()) {
                step.kernel = Arc::clone(same);
            }
        }
    }
}

/// The steps that lead to the output, and to the auxiliary outputs if `auxiliary` is set.
pub(crate) fn lower(graph: &Graph, auxiliary: bool) -> CpuSteps {
    let reached = graph.reached(auxiliary);
    let fused = fused(graph, &reached);
    let mut lowering = Lowering {
        steps: Vec::new(),
        values: vec![None; graph.nodes().len()],
        needs: graph.needs_gradient(),
    };
    for (index, node) in graph.nodes().iter().enumerate().filter(|(index, _)| reached[*index]) {
        let value = match fused.iter().any(|(_, relu)| *relu == index) {
            // The ReLU was folded into a neighbour, so its value is that of the step before.
            true => lowering.value(node.inputs[0]),
            false => lowering.node(index, node, fused.iter().any(|(host, _)| *host == index)),
        };
        lowering.values[index] = Some(value);
    }
    let output = lowering.value(graph.output());
    let wanted = graph.auxiliary().iter().filter(|_| auxiliary);
    let auxiliary = wanted.map(|auxiliary| (lowering.value(auxiliary.output), auxiliary.weight)).collect();
    let input = lowering.values[0];
    let mut steps = CpuSteps { steps: lowering.steps, input, output, auxiliary };
    // A copy inherits its source's need of a gradient, which is dropped here if no output depends on the copy.
    let mut reached = vec![false; steps.steps.len()];
    steps.outputs().for_each(|output| reached[output] = true);
    for (index, step) in steps.steps.iter_mut().enumerate().rev() {
        for &input in &step.inputs {
            reached[input] |= reached[index];
        }
        step.needs_gradient &= reached[index];
    }
    steps
}

/// Pairs of a node and the ReLU that is folded into it. A ReLU is folded into its only reader, or else into the node that it reads if
/// nothing else reads that, in each case if the operation allows it.
fn fused(graph: &Graph, reached: &[bool]) -> Vec<(usize, usize)> {
    let nodes = || graph.nodes().iter().enumerate().filter(|(index, _)| reached[*index]);
    let mut readers = vec![Vec::new(); graph.nodes().len()];
    for (index, node) in nodes() {
        node.inputs.iter().for_each(|input| readers[input.index()].push(index));
    }
    let outputs = std::iter::once(graph.output()).chain(graph.auxiliary().iter().map(|a| a.output));
    outputs.for_each(|output| readers[output.index()].push(usize::MAX));
    let only_reader = |index: usize| match readers[index][..] {
        [reader] => graph.nodes().get(reader).map(|node| (reader, &node.op)),
        _ => None,
    };
    let relus = nodes().filter(|(_, node)| node.op == Op::Activation(Activation::Relu));
    let host = |(index, node): (usize, &Node)| {
        if let Some((reader, op)) = only_reader(index)
            && op::cpu(op).swaps_with_relu()
        {
            return Some((reader, index));
        }
        let before = node.inputs[0].index();
        let foldable = op::cpu(&graph.nodes()[before].op).folds_relu();
        (foldable && only_reader(before).is_some()).then_some((before, index))
    };
    relus.filter_map(host).collect()
}

struct Lowering {
    steps: Vec<CpuStep>,
    values: Vec<Option<usize>>,
    needs: Vec<bool>,
}

impl Lowering {
    fn value(&self, id: NodeId) -> usize {
        self.values[id.index()].expect("inputs come before their readers in a checked graph")
    }

    fn push(
        &mut self,
        name: &str,
        kernel: Box<dyn CpuKernel>,
        inputs: Vec<usize>,
        form: Form,
        needs_gradient: bool,
    ) -> usize {
        self.steps.push(CpuStep { name: name.into(), kernel: kernel.into(), inputs, form, needs_gradient });
        self.steps.len() - 1
    }

    /// The value in the wanted form, converted if need be.
    fn converted(&mut self, value: usize, channels_last: bool) -> usize {
        let form = self.steps[value].form.clone();
        let wanted = match channels_last {
            true => Form::channels_last(&form.shape),
            false => Form::row_major(&form.shape),
        };
        if form == wanted {
            return value;
        }
        let copied = self
            .steps
            .iter()
            .position(|step| step.inputs == [value] && step.form == wanted && step.name.ends_with(".layout"));
        copied.unwrap_or_else(|| self.copy(value, wanted))
    }

    fn copy(&mut self, value: usize, wanted: Form) -> usize {
        let step = &self.steps[value];
        let kernel = TransferKernel::new(vec![vec![Transfer::whole(&step.form, &wanted)]]);
        let (name, needs) = (format!("{}.layout", step.name), step.needs_gradient);
        self.push(&name, Box::new(kernel), vec![value], wanted, needs)
    }

    /// The values of a node's inputs. A value that the node reads twice is copied, so that every input has a gradient of its own.
    fn inputs(&mut self, node: &Node, order: Order) -> Vec<usize> {
        let mut values: Vec<usize> = Vec::new();
        for id in &node.inputs {
            let mut value = self.value(*id);
            let last = match order {
                Order::ChannelsLast => true,
                Order::RowMajor => false,
                Order::AsGiven => self.steps[values.first().copied().unwrap_or(value)].form.channels_last,
            };
            value = self.converted(value, last);
            if values.contains(&value) {
                let form = self.steps[value].form.clone();
                value = self.copy(value, form);
            }
            values.push(value);
        }
        values
    }

    fn node(&mut self, index: usize, node: &Node, relu: bool) -> usize {
        let operation = op::cpu(&node.op);
        let inputs = self.inputs(node, operation.order());
        let forms: Vec<Form> = inputs.iter().map(|&value| self.steps[value].form.clone()).collect();
        let form = operation.form(&node.shape, &forms);
        let kernel = operation.kernel(&LoweredNode { index, inputs: &forms, form: &form, relu });
        self.push(&node.name, kernel, inputs, form, self.needs[index])
    }
}
