//! How the card runs a linear layer.

use dapple_graph::ParameterId;
use dapple_graph::op::Linear;

use crate::cuda::Precision;
use crate::cuda::backward::CardParameterGradients;
use crate::cuda::clip::WeightSum;
use crate::cuda::device::Device;
use crate::cuda::error::CudaError;
use crate::cuda::halved::HalvedNumbers;
use crate::cuda::kernels::TakePowersOff;
use crate::cuda::lower::CardSteps;
use crate::cuda::memory::CardModel;
use crate::cuda::operation::last;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::product::MatrixSide;
use crate::cuda::program::{LIBRARY_PRODUCTS, OUTER_PRODUCTS, PRODUCTS, written};
use crate::cuda::run::{CardRun, GradientPlace};
use crate::cuda::slice::DeviceSlice;

/// The fewest rows of an item, and the fewest features on either side, for which products of halves pay.
const LEAST_ROWS: usize = 16;
const LEAST_FEATURES: usize = 64;
/// What reports of times call the rounding to halves and the way back.
const ROUNDING: &str = "linear, to halves and back";

#[derive(Debug)]
struct CudaLinearKernel {
    weight: ParameterId,
    bias: Option<ParameterId>,
    rows: usize,
    features: usize,
    out: usize,
    /// Where the weight lies in halves; `None` if the layer does not multiply halves.
    halved: Option<HalvedWeight>,
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
        Box::new(CudaLinearKernel { weight, bias, rows, features, out, halved })
    }
}

impl HalvedWeight {
    /// The halves of this weight, which has `len` numbers.
    fn halves(self, model: &CardModel, len: usize) -> HalvedNumbers<'_> {
        let largest = model.largest().after(self.number).first(1);
        HalvedNumbers { pairs: model.halves().after(self.start).first(len / 2), largest }
    }
}

impl CudaLinearKernel {
    /// The inputs of all items in halves, which the forward pass keeps.
    fn kept_inputs<'r>(&self, run: &CardRun<'r>, node: usize) -> HalvedNumbers<'r> {
        let kept = run.kept(node).expect("the plan gives a product of halves the memory that it works in");
        HalvedNumbers::of(kept, run.items(), self.rows * self.features)
    }

    /// Runs the forward pass in halves.
    fn forward_halved(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        weight: HalvedNumbers<'_>,
    ) -> Result<(), CudaError> {
        let Self { rows, features, out, .. } = *self;
        let (device, items, of_sample) = (run.device, run.items(), rows * run.program.views);
        let (x, y) = (self.kept_inputs(run, node), run.value(node));
        x.round(device, run.read(node, 0), (run.samples, of_sample, features), (None, 0))?;
        run.mark(ROUNDING)?;
        let sides = (x.side(features, 0), weight.side(features, 0).transposed());
        let sizes = (items * rows, features, out);
        device.product(sizes, sides, MatrixSide::new(y, out, 0), (1.0, 0.0), 1)?;
        run.mark("linear")?;
        let bias = self.bias.map(|bias| run.parameter(bias));
        self.take_powers_off(run, y, (x, weight), (bias, out))
    }

    /// Takes the powers of both factors, the rows and the weight, off a product, and adds the bias if there is one.
    fn take_powers_off(
        &self,
        run: &mut CardRun<'_>,
        y: DeviceSlice<'_, f32>,
        (factor, weight): (HalvedNumbers<'_>, HalvedNumbers<'_>),
        (bias, channels): (Option<DeviceSlice<'_, f32>>, usize),
    ) -> Result<(), CudaError> {
        let len = self.rows * run.program.views * channels;
        TakePowersOff {
            y: y.cast(),
            largest: factor.largest,
            weight_largest: weight.largest,
            bias: bias.map(DeviceSlice::cast),
            channels,
            len,
            n: run.samples * len,
        }
        .launch(run.device)?;
        run.mark(ROUNDING)
    }

    /// Runs the backward pass in halves.
    fn backward_halved(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        weight: HalvedNumbers<'_>,
        parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let Self { rows, features, out, .. } = *self;
        let (device, of_sample) = (run.device, rows * run.program.views);
        let scratch =
            run.scratch(node).expect("the plan gives a product of halves scratch for the backward pass");
        let g = HalvedNumbers::of(scratch, run.items(), rows * out);
        let bias = (parameters.written(run, self.bias), run.program.written);
        g.round(device, run.gradient(node), (run.samples, of_sample, out), bias)?;
        run.mark(ROUNDING)?;
        if let Some(place) = run.program.halved[node] {
            let partials = run.partials(parameters.layout, self.weight);
            let x = self.kept_inputs(run, node);
            run.halved_gradient(place, of_sample, (x, features), (g, out), partials)?;
        }
        let Some(target) = run.target(node, 0) else { return Ok(()) };
        if target.accumulate {
            return self.add_input_gradient(run, node, target);
        }
        let sides = (g.side(out, 0), weight.side(features, 0));
        let to = MatrixSide::new(target.values, features, 0);
        device.product((run.items() * rows, out, features), sides, to, (1.0, 0.0), 1)?;
        run.mark("linear")?;
        self.take_powers_off(run, target.values, (g, weight), (None, features))
    }

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
        let Self { weight, bias, rows, features, out, halved } = *self;
        if let Some(place) = halved {
            return self.forward_halved(run, node, place.halves(run.model, features * out));
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
        let Self { weight, bias, rows, features, out, halved } = *self;
        if let Some(place) = halved {
            return self.backward_halved(run, node, place.halves(run.model, features * out), parameters);
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
        trains && self.halved.is_none()
    }

    fn kept(&self, _len: usize) -> usize {
        if self.halves() { HalvedNumbers::room(self.rows * self.features) } else { 0 }
    }

    fn works_in_kept(&self) -> bool {
        self.halves()
    }

    fn scratch(&self) -> usize {
        if self.halves() { HalvedNumbers::room(self.rows * self.out) } else { 0 }
    }

    fn halves(&self) -> bool {
        self.halved.is_some()
    }

    fn arrange(&self, device: &Device, model: &CardModel, parameters: &[usize]) -> Result<(), CudaError> {
        let Some(place) = self.halved else { return Ok(()) };
        let len = self.features * self.out;
        let weight = model.parameters().after(parameters[self.weight.index()]).first(len);
        // The whole weight shares one power, so it may be cut into rows of any length. Long rows occupy many blocks of threads.
        place.halves(model, len).round(device, weight, (1, LEAST_ROWS, len / LEAST_ROWS), (None, 0))
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
