//! A graph as the CPU runs it: steps with their memory forms settled, activations folded in, and copies made explicit.

use dapple_graph::{Graph, Node, NodeId, Op, ParameterId, op};

use super::depthwise::Depthwise;
use super::form::{Form, Transfer};
use super::gemm::Gemm;
use super::matrix::{Attention, MatMul};
use super::norm::{Kind, Norm};
use super::pointwise::{Activation, Drop};
use super::pool::{MaxPool, Resample};

/// What a step does.
#[derive(Debug, Clone)]
pub(crate) enum Kernel {
    Input(Transfer),
    Parameter(ParameterId, Transfer),
    Gemm(Box<Gemm>),
    Depthwise(Depthwise),
    Norm(Norm),
    Activation(Activation),
    MaxPool(MaxPool),
    Resample(Resample),
    Add {
        relu: bool,
    },
    Multiply,
    /// Every input by its transfers; together they cover the output once.
    Move(Vec<Vec<Transfer>>),
    MatMul(MatMul),
    Softmax {
        features: usize,
    },
    Attention(Attention),
    Dropout(Drop),
}

/// One step: reads the values of earlier steps, makes one of its own.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) kernel: Kernel,
    pub(crate) inputs: Vec<usize>,
    pub(crate) form: Form,
    /// Whether a gradient must reach its value.
    pub(crate) needs_gradient: bool,
}

/// All steps, and which of them make the outputs.
#[derive(Debug, Clone)]
pub(crate) struct Steps {
    pub(crate) steps: Vec<Step>,
    pub(crate) output: usize,
    /// Auxiliary outputs and what their losses are multiplied by.
    pub(crate) auxiliary: Vec<(usize, f32)>,
}

impl Steps {
    /// All outputs, the main one first.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.output).chain(self.auxiliary.iter().map(|(step, _)| *step))
    }
}

/// The steps that lead to the output, and to auxiliary outputs where those are wanted.
pub(crate) fn lower(graph: &Graph, auxiliary: bool) -> Steps {
    let reached = graph.reached(auxiliary);
    let fused = fused(graph, &reached);
    let mut lowering = Lowering {
        steps: Vec::new(),
        values: vec![None; graph.nodes().len()],
        needs: graph.needs_gradient(),
    };
    for (index, node) in graph.nodes().iter().enumerate().filter(|(index, _)| reached[*index]) {
        let value = match fused.iter().any(|(_, relu)| *relu == index) {
            // The activation was folded into a neighbour: its value is that of the step before.
            true => lowering.value(node.inputs[0]),
            false => lowering.node(index, node, fused.iter().any(|(host, _)| *host == index)),
        };
        lowering.values[index] = Some(value);
    }
    let output = lowering.value(graph.output());
    let wanted = graph.auxiliary().iter().filter(|_| auxiliary);
    let auxiliary = wanted.map(|auxiliary| (lowering.value(auxiliary.output), auxiliary.weight)).collect();
    let mut steps = Steps { steps: lowering.steps, output, auxiliary };
    // A copy inherits its source's need; drop it where no path leads on to an output.
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

/// Pairs of nodes and the activation that is folded into them: into the node before, if nothing else reads that, or into the maximum
/// taken of it. A maximum of activations is the activation of the maximum; then the backward pass needs no values of before the pooling.
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
    let relus = nodes().filter(|(_, node)| node.op == Op::Activation(op::Activation::Relu));
    let host = |(index, node): (usize, &Node)| {
        if let Some((reader, Op::MaxPool(_))) = only_reader(index) {
            return Some((reader, index));
        }
        let before = node.inputs[0].index();
        let foldable = match &graph.nodes()[before].op {
            Op::Conv(op::Conv { standardise: None, groups, .. }) => *groups == 1,
            Op::Linear(_) | Op::GroupNorm(_) | Op::BatchNorm(_) | Op::Add(_) => true,
            _ => false,
        };
        (foldable && only_reader(before).is_some()).then_some((before, index))
    };
    relus.filter_map(host).collect()
}

struct Lowering {
    steps: Vec<Step>,
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
        kernel: Kernel,
        inputs: Vec<usize>,
        form: Form,
        needs_gradient: bool,
    ) -> usize {
        self.steps.push(Step { name: name.into(), kernel, inputs, form, needs_gradient });
        self.steps.len() - 1
    }

    /// The value in the form that is asked for, converted if need be.
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
        let transfer = Transfer::new(&wanted.shape, (0, step.form.strides()), (0, wanted.strides()));
        let (name, needs) = (format!("{}.layout", step.name), step.needs_gradient);
        self.push(&name, Kernel::Move(vec![vec![transfer]]), vec![value], wanted, needs)
    }

    /// Values of a node's inputs; a value read twice is copied, so that every input has a gradient of its own.
    fn inputs(&mut self, node: &Node, channels_last: Option<bool>) -> Vec<usize> {
        let mut values: Vec<usize> = Vec::new();
        for id in &node.inputs {
            let mut value = self.value(*id);
            let last = channels_last.unwrap_or_else(|| {
                let first = values.first().copied().unwrap_or(value);
                self.steps[first].form.channels_last
            });
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
        let shape = &node.shape;
        let channels_last = match &node.op {
            Op::Conv(_)
            | Op::MaxPool(_)
            | Op::AvgPool(_)
            | Op::AdaptiveAvgPool(_)
            | Op::Upsample(_)
            | Op::GroupNorm(_)
            | Op::BatchNorm(_) => Some(true),
            Op::Linear(_)
            | Op::LayerNorm(_)
            | Op::Softmax(_)
            | Op::MatMul(_)
            | Op::Attention(_)
            | Op::Reshape(_) => Some(false),
            _ => None,
        };
        let inputs = self.inputs(node, channels_last);
        let forms: Vec<Form> = inputs.iter().map(|&value| self.steps[value].form.clone()).collect();
        let form = match (&node.op, channels_last) {
            (Op::Input(_), _) if shape.len() > 2 => Form::channels_last(shape),
            (_, Some(true)) => Form::channels_last(shape),
            (Op::Input(_) | Op::ParameterValue(_) | Op::Permute(_), _) | (_, Some(false)) => {
                Form::row_major(shape)
            }
            (_, None) if forms[0].channels_last => Form::channels_last(shape),
            (_, None) => Form::row_major(shape),
        };
        let kernel = self.kernel(index, node, relu, &forms, &form);
        self.push(&node.name, kernel, inputs, form, self.needs[index])
    }

    fn kernel(&self, index: usize, node: &Node, relu: bool, forms: &[Form], form: &Form) -> Kernel {
        let whole = |from: &Form, to: &Form| Transfer::new(&to.shape, (0, from.strides()), (0, to.strides()));
        let spatial = |form: &Form| form.shape[1..].to_vec();
        match &node.op {
            Op::Input(_) => Kernel::Input(whole(&Form::row_major(&node.shape), form)),
            Op::ParameterValue(op::ParameterValue(id)) => {
                Kernel::Parameter(*id, whole(&Form::row_major(&node.shape), form))
            }
            Op::Conv(op::Conv { window, groups, weight, bias, standardise }) => {
                let (channels, out) = (forms[0].shape[0], form.shape[0]);
                let (input, output) = (spatial(&forms[0]), spatial(form));
                if *groups == channels && *groups == out && channels > 1 && standardise.is_none() {
                    let parameters = (*weight, *bias);
                    return Kernel::Depthwise(Depthwise::new(parameters, channels, window, &input, &output));
                }
                let mut gemm =
                    Gemm::linear(*weight, *bias, 0, channels, out).over(window, &input, &output, *groups);
                gemm.standardise = *standardise;
                gemm.relu = relu;
                Kernel::Gemm(Box::new(gemm))
            }
            Op::Linear(op::Linear { weight, bias }) => {
                let (rows, channels) = forms[0].rows();
                let mut gemm = Gemm::linear(*weight, *bias, rows, channels, form.rows().1);
                gemm.relu = relu;
                Kernel::Gemm(Box::new(gemm))
            }
            Op::GroupNorm(op::GroupNorm { groups, eps, affine }) => {
                let (positions, channels) = form.positions();
                let kind = Kind::Group(*groups);
                Kernel::Norm(Norm { kind, eps: *eps, affine: *affine, positions, channels, relu })
            }
            Op::LayerNorm(op::LayerNorm { eps, affine }) => {
                let (positions, channels) = form.rows();
                Kernel::Norm(Norm {
                    kind: Kind::Layer,
                    eps: *eps,
                    affine: *affine,
                    positions,
                    channels,
                    relu,
                })
            }
            Op::BatchNorm(op::BatchNorm { eps, affine, mean, variance, .. }) => {
                let (positions, channels) = form.positions();
                let kind = Kind::Batch { mean: *mean, variance: *variance };
                Kernel::Norm(Norm { kind, eps: *eps, affine: Some(*affine), positions, channels, relu })
            }
            Op::MaxPool(op::MaxPool(window)) => {
                let (input, output) = (spatial(&forms[0]), spatial(form));
                Kernel::MaxPool(MaxPool::new(window, form.shape[0], &input, &output, relu))
            }
            Op::AvgPool(op::AvgPool(window)) => Kernel::Resample(Resample::average(
                window,
                form.shape[0],
                &spatial(&forms[0]),
                &spatial(form),
            )),
            Op::AdaptiveAvgPool(_) => {
                Kernel::Resample(Resample::adaptive(form.shape[0], &spatial(&forms[0]), &spatial(form)))
            }
            Op::Upsample(_) => {
                Kernel::Resample(Resample::bilinear(form.shape[0], &spatial(&forms[0]), &spatial(form)))
            }
            Op::Add(_) => Kernel::Add { relu },
            Op::Mul(_) => Kernel::Multiply,
            Op::Concat(_) | Op::Slice(_) | Op::Permute(_) | Op::Reshape(_) | Op::Gather(_) => {
                Kernel::Move(transfers(&node.op, forms, form))
            }
            Op::MatMul(op::MatMul { transpose }) => {
                let rank = form.shape.len();
                let batches = form.shape[..rank - 2].iter().product();
                let (m, k, n) = (form.shape[rank - 2], forms[0].shape[rank - 1], form.shape[rank - 1]);
                Kernel::MatMul(MatMul::new(batches, m, k, n, *transpose))
            }
            Op::Softmax(_) => Kernel::Softmax { features: form.rows().1 },
            Op::Attention(op::Attention { heads }) => {
                let (rows, features) = form.rows();
                Kernel::Attention(Attention::new(*heads, rows, forms[1].shape[0], features))
            }
            Op::Dropout(op::Dropout { rate, channels: false }) => {
                Kernel::Dropout(Drop { rate: *rate, node: index, channels: false })
            }
            Op::Dropout(op::Dropout { rate, channels: true }) => {
                Kernel::Dropout(Drop { rate: *rate, node: index, channels: true })
            }
            Op::Activation(op::Activation::Relu)
            | Op::Activation(op::Activation::Relu6)
            | Op::Activation(op::Activation::Gelu)
            | Op::Activation(op::Activation::Silu)
            | Op::Activation(op::Activation::Tanh)
            | Op::Activation(op::Activation::Scale(_)) => {
                Kernel::Activation(Activation::of(&node.op).unwrap_or(Activation::Scale(1.0)))
            }
        }
    }
}

/// Transfers of an operation that only moves values, per input.
fn transfers(op: &Op, forms: &[Form], form: &Form) -> Vec<Vec<Transfer>> {
    let strides = form.strides();
    match op {
        Op::Concat(op::Concat { axis }) => {
            let mut start = 0;
            let mut list = Vec::new();
            for input in forms {
                let target = (start * strides[*axis], strides.clone());
                list.push(vec![Transfer::new(&input.shape, (0, input.strides()), target)]);
                start += input.shape[*axis];
            }
            list
        }
        Op::Slice(op::Slice { axis, start, .. }) => {
            let from = forms[0].strides();
            vec![vec![Transfer::new(&form.shape, (start * from[*axis], from), (0, strides))]]
        }
        Op::Permute(op::Permute(axes)) => {
            let from = forms[0].strides();
            let from = axes.iter().map(|&axis| from[axis]).collect();
            vec![vec![Transfer::new(&form.shape, (0, from), (0, strides))]]
        }
        Op::Gather(op::Gather(rows)) => {
            let from = forms[0].strides();
            let row = |(to, &row): (usize, &usize)| {
                let source = (row * from[0], from[1..].to_vec());
                Transfer::new(&form.shape[1..], source, (to * strides[0], strides[1..].to_vec()))
            };
            vec![rows.iter().enumerate().map(row).collect()]
        }
        // A reshape of row-major values is a copy.
        _ => vec![vec![Transfer::new(&[form.len()], (0, vec![1]), (0, vec![1]))]],
    }
}
