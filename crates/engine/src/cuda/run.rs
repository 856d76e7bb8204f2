//! Runs a planned graph over one microbatch. This has the forward pass, and what both passes share.

use cudarc::driver::CudaEvent;
use cudarc::driver::sys::CUevent_flags;
use dapple_graph::ParameterId;

use super::convolution::{self, ConvolutionChoices, OpenCard};
use super::cudnn::{ConvolutionDirection, Tensors};
use super::device::Device;
use super::error::{CudaError, call};
use super::kernels::AddBias;
use super::memory::{CardModel, CardWork};
use super::program::CardProgram;
use super::sharing::Contribution;
use super::slice::DeviceSlice;
use crate::op::conv::CudaConvKernel;

/// Events between operations, if the executor is asked to measure itself.
pub(crate) type Marks = Option<Vec<(&'static str, CudaEvent)>>;

/// One microbatch on the card.
pub(crate) struct CardRun<'r> {
    pub(crate) device: &'r Device,
    pub(crate) program: &'r CardProgram,
    pub(crate) model: &'r CardModel,
    pub(crate) work: &'r CardWork,
    pub(crate) choices: &'r mut ConvolutionChoices,
    pub(crate) marks: &'r mut Marks,
    /// The samples' inputs.
    pub(crate) inputs: DeviceSlice<'r, f32>,
    pub(crate) samples: usize,
    /// Whether dropout is on, in which case its keys are on the card.
    pub(crate) dropout: bool,
    /// Whether samples have masks for dropout layers at one half, in which case these are on the card.
    pub(crate) masks: bool,
    /// Whether the norms of gradients are wanted.
    pub(crate) norms: bool,
}

/// Where a gradient goes, and whether it is added to what is there.
#[derive(Clone, Copy)]
pub(crate) struct GradientPlace<'r> {
    pub(crate) values: DeviceSlice<'r, f32>,
    pub(crate) accumulate: bool,
}

impl GradientPlace<'_> {
    /// The factor by which a product multiplies what is already there.
    pub(crate) fn keep(&self) -> f32 {
        if self.accumulate { 1.0 } else { 0.0 }
    }
}

impl<'r> CardRun<'r> {
    pub(crate) fn items(&self) -> usize {
        self.samples * self.program.views
    }

    /// The value of a node that runs.
    pub(crate) fn value(&self, node: usize) -> DeviceSlice<'r, f32> {
        let is_input = self.program.steps.operations[node].as_ref().is_some_and(|own| own.is_input());
        let planned = || self.work.buffer(self.program.buffers[node].value);
        if is_input { self.inputs } else { planned().expect("a node that runs has its value in memory") }
    }

    /// The value of an input of a node.
    pub(crate) fn read(&self, node: usize, slot: usize) -> DeviceSlice<'r, f32> {
        self.value(self.input(node, slot))
    }

    /// The gradient of a node that a backward pass reaches.
    pub(crate) fn gradient(&self, node: usize) -> DeviceSlice<'r, f32> {
        let planned = self.work.buffer(self.program.buffers[node].gradient);
        planned.expect("a node that is reached has its gradient in memory")
    }

    /// What the forward pass keeps for a node; `None` if nothing is kept.
    pub(crate) fn kept(&self, node: usize) -> Option<DeviceSlice<'r, f32>> {
        self.work.buffer(self.program.buffers[node].kept)
    }

    /// The scratch memory of a node's backward pass.
    pub(crate) fn scratch(&self, node: usize) -> Option<DeviceSlice<'r, f32>> {
        self.work.buffer(self.program.buffers[node].scratch)
    }

    /// A parameter, and those after it.
    pub(crate) fn parameter(&self, id: ParameterId) -> DeviceSlice<'r, f32> {
        self.model.parameters().after(self.program.steps.parameters[id.index()])
    }

    /// A table, and those after it.
    pub(crate) fn table(&self, start: usize) -> DeviceSlice<'r, i32> {
        self.model.tables().after(start)
    }

    /// The number of values of an item of a node.
    pub(crate) fn len(&self, node: usize) -> usize {
        self.program.steps.lens[node]
    }

    /// The number of values of an item of a node's input.
    pub(crate) fn input_len(&self, node: usize, slot: usize) -> usize {
        self.len(self.input(node, slot))
    }

    fn input(&self, node: usize, slot: usize) -> usize {
        self.program.steps.inputs[node][slot]
    }

    /// Where the gradient of an input goes; `None` if it is not wanted, or is there already.
    pub(crate) fn target(&self, node: usize, slot: usize) -> Option<GradientPlace<'r>> {
        let values = || self.gradient(self.input(node, slot));
        match self.program.contributions[node][slot]? {
            Contribution::Write => Some(GradientPlace { values: values(), accumulate: false }),
            Contribution::Add => Some(GradientPlace { values: values(), accumulate: true }),
            Contribution::Same => None,
        }
    }

    /// Marks the end of an operation, if the executor measures itself.
    pub(crate) fn mark(&mut self, operation: &'static str) -> Result<(), CudaError> {
        if let Some(marks) = self.marks {
            let event = self.device.stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
            marks.push((operation, call("timing", event)?));
        }
        Ok(())
    }

    /// Runs one direction of a convolution.
    pub(crate) fn convolve(
        &mut self,
        node: usize,
        conv: &CudaConvKernel,
        direction: ConvolutionDirection,
        tensors: Tensors<'_>,
        accumulate: bool,
    ) -> Result<(), CudaError> {
        let (card, items) = (self.card(), self.items());
        self.choices.run(card, node, conv, direction, tensors, items, accumulate)
    }

    /// Adds a bias, if there is one, to each of an output's channels of so many positions.
    pub(crate) fn add_bias(
        &self,
        node: usize,
        bias: Option<ParameterId>,
        (channels, positions): (usize, usize),
    ) -> Result<(), CudaError> {
        let Some(bias) = bias else { return Ok(()) };
        let (y, bias, n) = (self.value(node), self.parameter(bias), self.items() * self.len(node));
        AddBias { y, bias, channels, positions, n }.launch(self.device)
    }

    /// Writes down every sample's weight gradient of a convolution, from its input and the gradient of its output.
    pub(crate) fn weight_gradient(
        &mut self,
        node: usize,
        conv: &CudaConvKernel,
        sides: (DeviceSlice<'_, f32>, DeviceSlice<'_, f32>),
        target: DeviceSlice<'_, f32>,
    ) -> Result<(), CudaError> {
        let (card, sizes) = (self.card(), (self.samples, self.program.views));
        self.choices.weight_gradient(card, (node, conv), sides, (target, self.program.written), sizes)
    }

    pub(crate) fn card(&self) -> OpenCard<'r> {
        OpenCard { device: self.device, model: self.model, work: self.work }
    }

    /// The weights that a convolution multiplies by.
    pub(crate) fn weight(&self, conv: &CudaConvKernel) -> DeviceSlice<'r, f32> {
        convolution::weight(self.program.steps.parameters[conv.weight.index()], conv, self.model)
    }

    /// Computes the values of all nodes.
    pub(crate) fn forward(&mut self) -> Result<(), CudaError> {
        let program = self.program;
        for node in (0..program.steps.operations.len()).filter(|&node| program.runs[node]) {
            if let Some(operation) = &program.steps.operations[node] {
                operation.forward(self, node)?;
                self.mark(operation.name(false))?;
            }
        }
        Ok(())
    }
}
