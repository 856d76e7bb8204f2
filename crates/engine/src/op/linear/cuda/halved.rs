//! A linear layer whose products are of halves.

use super::{CudaLinearKernel, HalvedWeight};
use crate::cuda::backward::CardParameterGradients;
use crate::cuda::device::Device;
use crate::cuda::error::CudaError;
use crate::cuda::halved::HalvedNumbers;
use crate::cuda::kernels::{NarrowUnary, SCALE, TakePowersOff};
use crate::cuda::memory::CardModel;
use crate::cuda::product::MatrixSide;
use crate::cuda::run::{CardRun, GradientPlace};
use crate::cuda::slice::{DeviceSlice, Half};

/// What reports of times call the rounding to halves and the way back.
const ROUNDING: &str = "linear, to halves and back";

/// Where a product goes: its memory, whether it is narrow, how many numbers a row has, and the factor of what is already there.
#[derive(Clone, Copy)]
struct ProductPlace<'r> {
    values: DeviceSlice<'r, f32>,
    narrow: bool,
    columns: usize,
    keep: f32,
}

impl HalvedWeight {
    /// The halves of this weight, which has `len` numbers.
    pub(super) fn halves<'m>(self, device: &Device, model: &'m CardModel, len: usize) -> HalvedNumbers<'m> {
        let pairs = model.halves().after(self.start).first(len / 2);
        HalvedNumbers { pairs, ..HalvedNumbers::of(device, model.largest().after(self.number).cast(), 1, 0) }
    }
}

impl CudaLinearKernel {
    /// The inputs of all items in halves: the input itself if it is narrow, or else what the forward pass rounds and keeps.
    fn inputs<'r>(&self, run: &CardRun<'r>, node: usize) -> HalvedNumbers<'r> {
        if self.narrow_input {
            return HalvedNumbers::narrow(run.read(node, 0));
        }
        let kept = run.kept(node).expect("the plan gives a product of halves the memory that it works in");
        HalvedNumbers::of(run.device, kept, run.items(), self.rows * self.features)
    }

    /// Runs the forward pass in halves.
    pub(super) fn forward_halved(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        weight: HalvedNumbers<'_>,
    ) -> Result<(), CudaError> {
        let Self { rows, features, out, .. } = *self;
        let (device, of_sample) = (run.device, rows * run.program.views);
        let x = self.inputs(run, node);
        if !self.narrow_input {
            x.round(device, run.read(node, 0), (run.samples, of_sample, features), (None, 0))?;
            run.mark(ROUNDING)?;
        }
        let sides = (x.side(features, 0), weight.side(features, 0).transposed());
        let to =
            ProductPlace { values: run.value(node), narrow: self.narrow_output, columns: out, keep: 0.0 };
        self.multiply(run, features, sides, to)?;
        let left = run.program.steps.owed[node].is_some();
        let bias = self.bias.filter(|_| !left).map(|bias| run.parameter(bias));
        match x.largest {
            Some(_) => self.take_powers_off(run, to.values, (x, weight), (bias, out)),
            None => self.add_bias(run, to, bias),
        }
    }

    /// Multiplies all rows, which have `inner` numbers.
    fn multiply(
        &self,
        run: &mut CardRun<'_>,
        inner: usize,
        sides: (MatrixSide<'_, Half>, MatrixSide<'_, Half>),
        to: ProductPlace<'_>,
    ) -> Result<(), CudaError> {
        let (sizes, factors) = ((run.items() * self.rows, inner, to.columns), (1.0, to.keep));
        match to.narrow {
            true => {
                let values = to.values.cast::<Half>();
                run.device.product(sizes, sides, MatrixSide::new(values, to.columns, 0), factors, 1)?;
            }
            false => {
                run.device.product(sizes, sides, MatrixSide::new(to.values, to.columns, 0), factors, 1)?;
            }
        }
        run.mark("linear")
    }

    /// Adds the bias, if there is one and it is not left to the reader.
    fn add_bias(
        &self,
        run: &mut CardRun<'_>,
        to: ProductPlace<'_>,
        bias: Option<DeviceSlice<'_, f32>>,
    ) -> Result<(), CudaError> {
        let Some(bias) = bias else { return Ok(()) };
        NarrowUnary {
            op: SCALE,
            x: to.values.cast(),
            bias: Some(bias.cast()),
            y: to.values.cast(),
            channels: to.columns,
            n: run.items() * self.rows * to.columns,
            factor: 1.0,
            x_narrow: to.narrow,
            y_narrow: to.narrow,
        }
        .launch(run.device)
    }

    /// Takes the powers of both factors, the rows and the weight, off a product, and adds the bias if there is one.
    fn take_powers_off(
        &self,
        run: &mut CardRun<'_>,
        y: DeviceSlice<'_, f32>,
        (factor, weight): (HalvedNumbers<'_>, HalvedNumbers<'_>),
        (bias, channels): (Option<DeviceSlice<'_, f32>>, usize),
    ) -> Result<(), CudaError> {
        let (Some(largest), Some(weight_largest)) = (factor.largest, weight.largest) else { return Ok(()) };
        let len = self.rows * run.program.views * channels;
        TakePowersOff {
            y: y.cast(),
            largest,
            weight_largest,
            bias: bias.map(DeviceSlice::cast),
            channels,
            len,
            n: run.samples * len,
        }
        .launch(run.device)?;
        run.mark(ROUNDING)
    }

    /// The gradients of all rows in halves, which are rounded if they are not narrow. Then the gradient of the bias is added up on the way.
    fn gradients<'r>(
        &self,
        run: &mut CardRun<'r>,
        node: usize,
        bias: Option<GradientPlace<'_>>,
    ) -> Result<HalvedNumbers<'r>, CudaError> {
        let (device, gradient) = (run.device, run.gradient(node));
        if self.narrow_output {
            return Ok(HalvedNumbers::narrow(gradient));
        }
        let sizes = (run.samples, self.rows * run.program.views, self.out);
        let scratch =
            run.scratch(node).expect("the plan gives a product of halves scratch for the backward pass");
        let g = HalvedNumbers::of(device, scratch, run.items(), self.rows * self.out);
        g.round(device, gradient, sizes, (bias, run.program.written))?;
        run.mark(ROUNDING)?;
        Ok(g)
    }

    /// Runs the backward pass in halves.
    pub(super) fn backward_halved(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        weight: HalvedNumbers<'_>,
        parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let Self { rows, features, out, .. } = *self;
        let (bias, of_sample) = (parameters.written(run, self.bias), rows * run.program.views);
        let g = self.gradients(run, node, bias)?;
        // What is rounded was added up when it was.
        let bias = bias.filter(|_| self.narrow_output);
        if let Some(place) = run.program.halved[node] {
            let (x, partials) = (self.inputs(run, node), run.partials(parameters.layout, self.weight));
            run.halved_gradient(place, of_sample, (x, features), (g, out), (bias, partials))?;
        } else {
            g.bias_gradient(run.device, (run.samples, of_sample, out), (bias, run.program.written))?;
        }
        let Some(target) = run.target(node, 0) else { return Ok(()) };
        if target.accumulate && g.largest.is_some() {
            return self.add_input_gradient(run, node, target);
        }
        let (values, keep) = (target.values, target.keep());
        let to = ProductPlace { values, narrow: self.narrow_input, columns: features, keep };
        self.multiply(run, out, (g.side(out, 0), weight.side(features, 0)), to)?;
        self.take_powers_off(run, values, (g, weight), (None, features))
    }
}
