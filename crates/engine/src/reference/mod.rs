//! The oracle: double precision, one sample at a time, row-major tensors, and one obvious loop for each operation, however slow.

mod matrix;
mod moves;
mod normalised;
mod tensor;
mod window;

use dapple_graph::op::Conv;
use dapple_graph::{Graph, Op, ParameterId, Parameters};

use crate::batch::{self, Batch, NodeDropout};
use crate::clipping::ClippingRule;
use crate::error::EngineError;
use crate::layout::Layout;
use crate::loss::{self, LossStrides};
use crate::op;
use crate::stats::StepStats;
pub(crate) use matrix::{MatrixView, product};
pub(crate) use moves::ElementMoves;
pub(crate) use normalised::Normalised;
pub(crate) use tensor::{Gradients, Tensor};
use window::indices;
pub(crate) use window::{ResamplingMap, flat, taps};

/// An operation as the oracle runs it.
pub(crate) trait ReferenceOperation {
    /// Computes the output from the inputs into `y`, which is all zeros before.
    fn forward(&self, inputs: &[&Tensor], context: &ReferenceContext<'_>, y: &mut Tensor);

    /// Computes the gradients of the inputs and the parameters from the output `y` and its gradient `g`.
    fn backward(
        &self,
        inputs: &[&Tensor],
        y: &Tensor,
        context: &ReferenceContext<'_>,
        g: &Tensor,
    ) -> Gradients;
}

/// What an operation may read besides its inputs.
pub(crate) struct ReferenceContext<'a> {
    parameters: &'a [Vec<f64>],
    /// One view of the sample.
    pub(crate) sample: &'a [f32],
    /// What the node does to this view if it is a dropout layer.
    pub(crate) dropout: NodeDropout<'a>,
}

impl<'a> ReferenceContext<'a> {
    /// The values of a parameter.
    pub(crate) fn parameter(&self, id: ParameterId) -> &'a [f64] {
        &self.parameters[id.index()]
    }
}

/// A graph with its parameters in double precision.
pub struct ReferenceExecutor<'g> {
    graph: &'g Graph,
    layout: Layout,
    parameters: Vec<Vec<f64>>,
}

impl<'g> ReferenceExecutor<'g> {
    /// Makes an executor of a graph with these parameters.
    ///
    /// # Errors
    /// If the parameters belong to another graph.
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

    /// The outputs of all samples, one after the other, with dropout off.
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

    /// The loss and the flat gradient of one sample, which are the means over its views.
    ///
    /// # Errors
    /// If the batch does not fit the graph or has no such sample.
    pub fn gradient(&self, batch: &Batch<'_>, sample: usize) -> Result<(f64, Vec<f64>), EngineError> {
        let samples = batch.check(self.graph)?;
        if sample >= samples {
            return Err(EngineError::Length { what: "samples".into(), expected: sample + 1, found: samples });
        }
        let (loss, mut gradient) = self.clippable(batch, sample);
        self.project(&mut gradient);
        Ok((loss, gradient))
    }

    /// Takes the part along each standardised filter off a gradient or a sum of gradients.
    fn project(&self, gradient: &mut [f64]) {
        for node in self.graph.nodes() {
            if let Op::Conv(Conv { weight, standardise: Some(eps), .. }) = &node.op
                && let Some(position) = self.layout.position(*weight)
            {
                let range = self.layout.entries()[position].range.clone();
                let weight = &self.parameters[weight.index()];
                op::conv::project(weight, node.shape[0], *eps, &mut gradient[range]);
            }
        }
    }

    /// Like [`Self::gradient`], but before the projection of standardised filters. This is what gets clipped.
    fn clippable(&self, batch: &Batch<'_>, sample: usize) -> (f64, Vec<f64>) {
        let len: usize = self.graph.input_shape().iter().product();
        let mut loss = 0.0;
        let mut gradient = vec![0.0; self.layout.len()];
        for view in sample * batch.views..(sample + 1) * batch.views {
            let values = self.run(&batch.inputs[view * len..][..len], Some((batch, view)));
            let share = 1.0 / batch.views as f64;
            loss += share * self.backward(&values, batch, view, share, &mut gradient);
        }
        (loss, gradient)
    }

    /// The clipped sum of all samples' gradients.
    ///
    /// # Errors
    /// If the batch does not fit the graph.
    ///
    /// # Guarantee
    /// Each sample adds a vector that depends on no other sample and whose norm is at most [`ClippingRule::sensitivity`].
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
            stats.unclipped += usize::from(rule.leaves(&factors));
            stats.losses.push(loss as f32);
            stats.norms.push(rule.norm(&squared) as f32);
        }
        self.project(&mut sum);
        Ok((sum, stats))
    }

    /// The values of all nodes for one view, which drops values if it is given as one of a batch.
    fn run(&self, input: &[f32], view: Option<(&Batch<'_>, usize)>) -> Vec<Tensor> {
        let mut values: Vec<Tensor> = Vec::with_capacity(self.graph.nodes().len());
        for (index, node) in self.graph.nodes().iter().enumerate() {
            let inputs: Vec<&Tensor> = node.inputs.iter().map(|id| &values[id.index()]).collect();
            let mut output = Tensor::zeros(&node.shape);
            op::reference(&node.op).forward(&inputs, &self.context(input, view, index), &mut output);
            values.push(output);
        }
        values
    }

    /// What the operation of a node reads besides its inputs.
    fn context<'a>(
        &'a self,
        sample: &'a [f32],
        view: Option<(&Batch<'a>, usize)>,
        node: usize,
    ) -> ReferenceContext<'a> {
        let dropout = view.map_or(NodeDropout::Off, |(batch, view)| batch.node_dropout(view, node));
        ReferenceContext { parameters: &self.parameters, sample, dropout }
    }

    /// Adds `share` times the gradient of one view, and returns the view's loss.
    fn backward(
        &self,
        values: &[Tensor],
        batch: &Batch<'_>,
        view: usize,
        share: f64,
        gradient: &mut [f64],
    ) -> f64 {
        let needs = self.graph.needs_gradient();
        let mut pending: Vec<Tensor> =
            self.graph.nodes().iter().map(|node| Tensor::zeros(&node.shape)).collect();
        let shape = self.graph.output_shape();
        let positions: usize = shape[1..].iter().product();
        let strides =
            LossStrides { classes: shape[0], positions, class_stride: positions, position_stride: 1 };
        let len: usize = self.graph.input_shape().iter().product();
        let sample = &batch.inputs[view * len..][..len];
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
            let context = self.context(sample, Some((batch, view)), index);
            let gradients = op::reference(&node.op).backward(&inputs, &values[index], &context, &upstream);
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
