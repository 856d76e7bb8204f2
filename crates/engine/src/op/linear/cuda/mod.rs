//! How the card runs a linear layer.

mod halved;

use dapple_graph::ParameterId;
use dapple_graph::op::Linear;

use crate::cuda::Precision;
use crate::cuda::backward::CardParameterGradients;
use crate::cuda::clip::WeightSum;
use crate::cuda::device::Device;
use crate::cuda::error::CudaError;
use crate::cuda::halved::HalvedNumbers;
use crate::cuda::kernels::gradient_tiles;
use crate::cuda::lower::CardSteps;
use crate::cuda::memory::CardModel;
use crate::cuda::operation::last;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::product::MatrixSide;
use crate::cuda::program::{LIBRARY_PRODUCTS, OUTER_PRODUCTS, PRODUCTS, written};
use crate::cuda::run::{CardRun, GradientPlace};

/// The fewest rows of an item, and the fewest features on either side, for which products of halves pay.
const LEAST_ROWS: usize = 16;
const LEAST_FEATURES: usize = 64;

#[derive(Debug)]
struct CudaLinearKernel {
    weight: ParameterId,
    bias: Option<ParameterId>,
    rows: usize,
    features: usize,
    out: usize,
    /// Where the weight lies in halves; `None` if the layer does not multiply halves.
    halved: Option<HalvedWeight>,
    /// Whether products are of bf16, and whether the input and the values are narrow.
    bf16: bool,
    narrow_input: bool,
    narrow_output: bool,
}

/// Where a weight lies among the model's weights in halves: how many pairs come before it, and how many weights.
#[derive(Debug, Clone, Copy)]
struct HalvedWeight {
    start: usize,
    number: usize,
}

impl CudaOperation for Linear {
    fn kernel(&self, node: &ShapedNode<'_>, steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        let Self { weight, bias } = *self;
        let (rows, features, out) = (node.rows(), node.features(), last(node.shape));
        // Our kernels and the library read four numbers or eight halves at a time.
        let eights = features.is_multiple_of(8) && out.is_multiple_of(8);
        let mut read = std::iter::once(weight).chain(bias);
        let fours = read.all(|id| steps.parameters[id.index()].is_multiple_of(4));
        let large = rows >= LEAST_ROWS && features.min(out) >= LEAST_FEATURES;
        let halved = (steps.precision != Precision::F32 && eights && fours && large).then(|| {
            let place = HalvedWeight { start: steps.halves_len, number: steps.halved };
            steps.halves_len += features * out / 2;
            steps.halved += 1;
            place
        });
        let bf16 = steps.precision == Precision::Bf16;
        let (narrow_input, narrow_output) = (false, false);
        let kernel =
            CudaLinearKernel { weight, bias, rows, features, out, halved, bf16, narrow_input, narrow_output };
        Box::new(kernel)
    }
}

impl CudaLinearKernel {
    /// Computes the gradient of the input in the precision of the executor.
    fn add_input_gradient(
        &self,
        run: &CardRun<'_>,
        node: usize,
        target: GradientPlace<'_>,
    ) -> Result<(), CudaError> {
        let Self { weight, rows, features, out, .. } = *self;
        let weight = MatrixSide::new(run.parameter(weight), features, 0);
        let sides = (MatrixSide::new(run.gradient(node), out, 0), weight);
        let to = MatrixSide::new(target.values, features, 0);
        run.device.product((run.items() * rows, out, features), sides, to, (1.0, target.keep()), 1)
    }
}

impl CudaKernel for CudaLinearKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let Self { weight, bias, rows, features, out, halved, .. } = *self;
        if let Some(place) = halved {
            return self.forward_halved(run, node, place.halves(run.device, run.model, features * out));
        }
        let (items, y) = (run.items(), run.value(node));
        let left = MatrixSide::new(run.read(node, 0), features, 0);
        let right = MatrixSide::new(run.parameter(weight), features, 0).transposed();
        let sizes = (items * rows, features, out);
        run.device.product(sizes, (left, right), MatrixSide::new(y, out, 0), (1.0, 0.0), 1)?;
        run.add_bias(node, bias, (out, 1))
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let Self { weight, bias, rows, features, out, halved, .. } = *self;
        if let Some(place) = halved {
            let weight = place.halves(run.device, run.model, features * out);
            return self.backward_halved(run, node, weight, parameters);
        }
        let (g, x) = (run.gradient(node), run.read(node, 0));
        let bias = parameters.written(run, bias);
        run.bias_gradient(g, bias, (out, rows), (1, out))?;
        let of_sample = rows * run.program.views;
        if let Some(target) = parameters.written(run, Some(weight)) {
            let left = MatrixSide::new(g, out, of_sample * out);
            let right = MatrixSide::new(x, features, of_sample * features);
            let sizes = (out, of_sample, features);
            let target = MatrixSide::new(target.values, features, run.program.written);
            run.device.product(sizes, (left.transposed(), right), target, (1.0, 0.0), run.samples)?;
        } else if run.norms && run.program.deferred[node] {
            let partials = run.partials(parameters.layout, weight);
            run.linear_norm(of_sample, (x, features), (g, out), partials)?;
        }
        match run.target(node, 0) {
            Some(target) => self.add_input_gradient(run, node, target),
            None => Ok(()),
        }
    }

    fn name(&self, _backward: bool) -> &'static str {
        "linear"
    }

    fn reads_input(&self, _slot: usize, trains: bool) -> bool {
        trains && (self.halved.is_none() || self.narrow_input)
    }

    fn kept(&self, _len: usize) -> usize {
        let rounds = self.halves() && !self.narrow_input;
        if rounds { HalvedNumbers::room(self.rows * self.features) } else { 0 }
    }

    fn works_in_kept(&self) -> bool {
        self.halves() && !self.narrow_input
    }

    fn scratch(&self) -> usize {
        let rounds = self.halves() && !self.narrow_output;
        if rounds { HalvedNumbers::room(self.rows * self.out) } else { 0 }
    }

    fn writes_narrow(&self) -> bool {
        self.halves() && self.bf16
    }

    fn reads_narrow(&self, _slot: usize) -> bool {
        self.halves() && self.bf16
    }

    fn leaves_bias(&self) -> Option<ParameterId> {
        self.bias
    }

    fn settle_narrow(&mut self, input: bool, output: bool) {
        (self.narrow_input, self.narrow_output) = (input, output);
    }

    fn halves(&self) -> bool {
        self.halved.is_some()
    }

    fn norm_parts(&self) -> usize {
        gradient_tiles(self.out, self.features)
    }

    fn arrange(&self, device: &Device, model: &CardModel, parameters: &[usize]) -> Result<(), CudaError> {
        let Some(place) = self.halved else { return Ok(()) };
        let len = self.features * self.out;
        let weight = model.parameters().after(parameters[self.weight.index()]).first(len);
        // The whole weight shares one power, so it may be cut into rows of any length. Long rows occupy many blocks of threads.
        let halves = place.halves(device, model, len);
        halves.round(device, weight, (1, LEAST_ROWS, len / LEAST_ROWS), (None, 0))
    }

    fn weight(&self) -> Option<ParameterId> {
        Some(self.weight)
    }

    fn prefers_ghost(&self, views: usize) -> bool {
        let (rows, weights) = ((self.rows * views) as f64, (self.features * self.out) as f64);
        let products = 2.0 * rows * rows * (self.features + self.out) as f64;
        let longer = 2.0 * rows * weights * (1.0 / OUTER_PRODUCTS - 1.0 / LIBRARY_PRODUCTS);
        rows == 1.0 || products / PRODUCTS + longer < written(weights)
    }

    fn ghost_workspace(&self, views: usize) -> usize {
        4 * (self.rows * views).pow(2)
    }

    fn deferred_sum(&self, run: &mut CardRun<'_>, node: usize, sum: WeightSum<'_>) -> Result<(), CudaError> {
        let sides = (run.gradient(node), run.read(node, 0));
        let sizes = (self.out, self.features, self.rows * run.program.views);
        run.linear_sum(sides, sizes, sum)
    }
}
