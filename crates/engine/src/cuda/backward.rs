//! The backward pass: data gradients, each sample's parameter gradients, and the norms of those that are never written down.

use dapple_graph::{Affine, ParameterId};

use super::error::CudaError;
use super::kernels::{BiasGradient, RowBiasGradient};
use super::run::{CardRun, GradientPlace};
use super::slice::DeviceSlice;
use crate::layout::Layout;

/// Where the gradients of parameters go in one backward pass.
pub(crate) struct CardParameterGradients<'l> {
    pub(crate) layout: &'l Layout,
    /// For each parameter of the layout, whether it already received a gradient in this pass.
    touched: Vec<bool>,
}

impl<'l> CardParameterGradients<'l> {
    fn new(layout: &'l Layout) -> Self {
        Self { layout, touched: vec![false; layout.entries().len()] }
    }

    /// Where a parameter's per-sample gradients are written, and whether to add to what is there; `None` if they are not written.
    pub(crate) fn written<'r>(
        &mut self,
        run: &CardRun<'r>,
        id: Option<ParameterId>,
    ) -> Option<GradientPlace<'r>> {
        let position = self.layout.position(id?)?;
        let start = run.program.sources[position].written?;
        let accumulate = std::mem::replace(&mut self.touched[position], true);
        Some(GradientPlace { values: run.work.written().after(start), accumulate })
    }

    /// Where the gradients of scale and shift are written, and whether to add to what is there.
    pub(crate) fn affine<'r>(
        &mut self,
        run: &CardRun<'r>,
        affine: Option<Affine>,
    ) -> (Option<DeviceSlice<'r, f32>>, Option<DeviceSlice<'r, f32>>, bool) {
        let weight = self.written(run, affine.map(|affine| affine.weight));
        let bias = self.written(run, affine.and_then(|affine| affine.bias));
        let values = |place: Option<GradientPlace<'r>>| place.map(|place| place.values);
        (values(weight), values(bias), weight.or(bias).is_some_and(|place| place.accumulate))
    }
}

impl<'r> CardRun<'r> {
    /// Computes the gradients of all nodes from those of the outputs.
    pub(crate) fn backward(&mut self, layout: &Layout) -> Result<(), CudaError> {
        let program = self.program;
        let mut parameters = CardParameterGradients::new(layout);
        let steps = &program.steps;
        for node in (0..steps.operations.len()).rev().filter(|&node| steps.needs_gradient[node]) {
            if let Some(operation) = &steps.operations[node] {
                operation.backward(self, node, &mut parameters)?;
                self.mark(operation.name(true))?;
            }
        }
        Ok(())
    }

    /// Where the partial sums of a parameter's squared norm lie.
    pub(crate) fn partials(&self, layout: &Layout, id: ParameterId) -> DeviceSlice<'r, f64> {
        let start = layout.position(id).map_or(0, |position| self.program.sources[position].partials.start);
        self.work.partials().after(start)
    }

    /// Computes the gradient of a bias that is added to whole channels.
    pub(crate) fn channel_bias_gradient(
        &mut self,
        node: usize,
        bias: Option<ParameterId>,
        (channels, positions): (usize, usize),
        parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let target = parameters.written(self, bias);
        self.bias_gradient(self.gradient(node), target, (channels, positions), (positions, 1))?;
        self.mark("bias gradient")
    }

    /// Computes the gradient of a bias. Element `(c, p)` of an item's channels and positions lies at `c along + p across`.
    pub(crate) fn bias_gradient(
        &self,
        g: DeviceSlice<'_, f32>,
        target: Option<GradientPlace<'_>>,
        (channels, positions): (usize, usize),
        (along, across): (usize, usize),
    ) -> Result<(), CudaError> {
        let Some(GradientPlace { values: d, .. }) = target else { return Ok(()) };
        let (stride, views, samples) = (self.program.written, self.program.views, self.samples);
        if (along, across) == (1, channels) {
            let rows = positions * views;
            return RowBiasGradient { g, d, stride, channels, rows, samples }.launch(self.device);
        }
        BiasGradient { g, d, stride, channels, positions, along, across, views, samples }.launch(self.device)
    }
}
