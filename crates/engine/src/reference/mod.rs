//! The oracle: double precision, one sample at a time, one obvious loop per operation, row-major tensors, no speed.

mod matrix;
mod norm;
mod pointwise;
mod window;

use dapple_graph::op::{Conv, ParameterValue};
use dapple_graph::{Graph, Op, ParameterId, Parameters};

use crate::batch::{self, Batch};
use crate::clipping::ClippingRule;
use crate::error::EngineError;
use crate::layout::Layout;
use crate::loss::{self, Strides};
use crate::stats::StepStats;

/// A value of the graph.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) shape: Vec<usize>,
    pub(crate) data: Vec<f64>,
}

impl Tensor {
    fn zeros(shape: &[usize]) -> Self {
        Self { shape: shape.to_vec(), data: vec![0.0; shape.iter().product()] }
    }
}

/// Gradients of an operation: one tensor per input, and what its parameters receive.
#[derive(Default)]
pub(crate) struct Gradients {
    inputs: Vec<Tensor>,
    parameters: Vec<(ParameterId, Vec<f64>)>,
}

/// A graph with its parameters in double precision.
pub struct Reference<'g> {
    graph: &'g Graph,
    layout: Layout,
    parameters: Vec<Vec<f64>>,
}

impl<'g> Reference<'g> {
    /// A graph with these parameters.
    ///
    /// # Errors
    /// If they belong to another graph.
    pub fn new(graph: &'g Graph, parameters: &Parameters) -> Result<Self, EngineError> {
        if !parameters.fit(graph) {
            return Err(EngineError::Parameters);
        }
        let values = graph
            .parameters()
            .iter()
            .filter_map(|p| graph.find_parameter(&p.name))
            .map(|id| parameters.get(id).iter().map(|&value| f64::from(value)).collect())
            .collect();
        Ok(Self { graph, layout: Layout::new(graph), parameters: values })
    }

    /// The values of one parameter, to change.
    pub fn parameter_mut(&mut self, id: ParameterId) -> &mut [f64] {
        &mut self.parameters[id.index()]
    }

    /// Outputs of all samples, one after the other, dropout off.
    ///
    /// # Errors
    /// If the inputs have a wrong length or a value that is not finite.
    pub fn forward(&self, inputs: &[f32]) -> Result<Vec<f64>, EngineError> {
        batch::samples(self.graph, inputs, 1)?;
        let len: usize = self.graph.input_shape().iter().product();
        let output = self.graph.output().index();
        Ok(inputs
            .chunks_exact(len)
            .flat_map(|sample| self.run(sample, None).swap_remove(output).data)
            .collect())
    }

    /// Loss and flat gradient of one sample: the means over its views.
    ///
    /// # Errors
    /// If the batch does not fit the graph.
    pub fn gradient(&self, batch: &Batch<'_>, sample: usize) -> Result<(f64, Vec<f64>), EngineError> {
        let samples = batch.check(self.graph)?;
        if sample >= samples {
            return Err(EngineError::Length { what: "samples".into(), expected: sample + 1, found: samples });
        }
        let (loss, mut gradient) = self.clippable(batch, sample);
        self.project(&mut gradient);
        Ok((loss, gradient))
    }

    /// Takes the part along each standardised filter off a gradient, or off a sum of them.
    fn project(&self, gradient: &mut [f64]) {
        for node in self.graph.nodes() {
            if let Op::Conv(Conv { weight, standardise: Some(eps), .. }) = &node.op
                && let Some(position) = self.layout.position(*weight)
            {
                let range = self.layout.entries()[position].range.clone();
                let weight = &self.parameters[weight.index()];
                window::project(weight, node.shape[0], *eps, &mut gradient[range]);
            }
        }
    }

    /// As [`Self::gradient`], before the last step of standardised filters: what is clipped.
    fn clippable(&self, batch: &Batch<'_>, sample: usize) -> (f64, Vec<f64>) {
        let len: usize = self.graph.input_shape().iter().product();
        let mut loss = 0.0;
        let mut gradient = vec![0.0; self.layout.len()];
        for view in sample * batch.views..(sample + 1) * batch.views {
            let key = batch.dropout_key(view);
            let values = self.run(&batch.inputs[view * len..][..len], key);
            let share = 1.0 / batch.views as f64;
            loss += share * self.backward(&values, batch, view, key, share, &mut gradient);
        }
        (loss, gradient)
    }

    /// The clipped sum of all samples' gradients.
    ///
    /// # Errors
    /// If the batch does not fit the graph, or the rule the model.
    ///
    /// # Guarantee
    /// Each sample contributes a vector of norm at most [`ClippingRule::sensitivity`] that depends on no other sample.
    pub fn clipped_sum(
        &self,
        batch: &Batch<'_>,
        rule: &ClippingRule,
    ) -> Result<(Vec<f64>, StepStats), EngineError> {
        let samples = batch.check(self.graph)?;
        let mut sum = vec![0.0; self.layout.len()];
        let mut stats = StepStats::default();
        let mut factors = vec![0.0f32; self.layout.entries().len()];
        for sample in 0..samples {
            let (loss, gradient) = self.clippable(batch, sample);
            let squared: Vec<f64> = self
                .layout
                .entries()
                .iter()
                .map(|entry| gradient[entry.range.clone()].iter().map(|g| g * g).sum())
                .collect();
            let unit = rule.unit().unwrap_or(1.0);
            if rule.factors(&squared, &mut factors) {
                for (entry, &factor) in self.layout.entries().iter().zip(&factors) {
                    for index in entry.range.clone() {
                        sum[index] += unit * f64::from(factor) * gradient[index];
                    }
                }
            } else {
                stats.not_finite += 1;
            }
            stats.losses.push(loss as f32);
            stats.norms.push(squared.iter().sum::<f64>().sqrt() as f32);
        }
        self.project(&mut sum);
        Ok((sum, stats))
    }

    /// Values of all nodes for one view.
    fn run(&self, input: &[f32], key: Option<u64>) -> Vec<Tensor> {
        let mut values: Vec<Tensor> = Vec::with_capacity(self.graph.nodes().len());
        for (index, node) in self.graph.nodes().iter().enumerate() {
            let inputs: Vec<&Tensor> = node.inputs.iter().map(|id| &values[id.index()]).collect();
            let mut output = Tensor::zeros(&node.shape);
            match &node.op {
                Op::Input(_) => output.data = input.iter().map(|&value| f64::from(value)).collect(),
                Op::ParameterValue(ParameterValue(id)) => {
                    output.data.clone_from(&self.parameters[id.index()])
                }
                Op::Conv(_) | Op::MaxPool(_) | Op::AvgPool(_) | Op::AdaptiveAvgPool(_) | Op::Upsample(_) => {
                    window::forward(&node.op, inputs[0], &self.parameters, &mut output);
                }
                Op::GroupNorm(_) | Op::LayerNorm(_) | Op::BatchNorm(_) => {
                    norm::forward(&node.op, inputs[0], &self.parameters, &mut output);
                }
                Op::Linear(_) | Op::MatMul(_) | Op::Softmax(_) | Op::Attention(_) => {
                    matrix::forward(&node.op, &inputs, &self.parameters, &mut output);
                }
                op => pointwise::forward(op, &inputs, key.map(|key| (key, index)), &mut output),
            }
            values.push(output);
        }
        values
    }

    /// Adds `share` times the gradient of one view; returns its loss.
    fn backward(
        &self,
        values: &[Tensor],
        batch: &Batch<'_>,
        view: usize,
        key: Option<u64>,
        share: f64,
        gradient: &mut [f64],
    ) -> f64 {
        let needs = self.graph.needs_gradient();
        let mut pending: Vec<Tensor> =
            self.graph.nodes().iter().map(|node| Tensor::zeros(&node.shape)).collect();
        let shape = self.graph.output_shape();
        let positions: usize = shape[1..].iter().product();
        let strides = Strides { classes: shape[0], positions, class_stride: positions, position_stride: 1 };
        let target = batch.target(self.graph, view);
        let auxiliary = self.graph.auxiliary().iter().map(|a| (a.output, f64::from(a.weight)));
        let mut loss = 0.0;
        for (output, weight) in std::iter::once((self.graph.output(), 1.0)).chain(auxiliary) {
            let (value, gradient) = (&values[output.index()].data, &mut pending[output.index()].data);
            loss +=
                weight * loss::evaluate(self.graph.loss(), strides, value, target, share * weight, gradient);
        }
        for (index, node) in self.graph.nodes().iter().enumerate().rev() {
            if !needs[index] {
                continue;
            }
            let inputs: Vec<&Tensor> = node.inputs.iter().map(|id| &values[id.index()]).collect();
            let upstream = pending[index].clone();
            let gradients = match &node.op {
                Op::Input(_) => Gradients::default(),
                Op::ParameterValue(ParameterValue(id)) => {
                    Gradients { inputs: Vec::new(), parameters: vec![(*id, upstream.data)] }
                }
                Op::Conv(_) | Op::MaxPool(_) | Op::AvgPool(_) | Op::AdaptiveAvgPool(_) | Op::Upsample(_) => {
                    window::backward(&node.op, inputs[0], &self.parameters, &upstream)
                }
                Op::GroupNorm(_) | Op::LayerNorm(_) | Op::BatchNorm(_) => {
                    norm::backward(&node.op, inputs[0], &self.parameters, &upstream)
                }
                Op::Linear(_) | Op::MatMul(_) | Op::Softmax(_) | Op::Attention(_) => {
                    matrix::backward(&node.op, &inputs, &values[index], &self.parameters, &upstream)
                }
                op => pointwise::backward(op, &inputs, key.map(|key| (key, index)), &upstream),
            };
            for (id, input) in node.inputs.iter().zip(gradients.inputs) {
                pending[id.index()].data.iter_mut().zip(input.data).for_each(|(sum, g)| *sum += g);
            }
            for (id, values) in gradients.parameters {
                if let Some(position) = self.layout.position(id) {
                    let range = self.layout.entries()[position].range.clone();
                    gradient[range].iter_mut().zip(values).for_each(|(sum, g)| *sum += g);
                }
            }
        }
        loss
    }
}
