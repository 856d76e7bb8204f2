//! What a kernel may read while it runs.

use dapple_graph::{Affine, ParameterId};

use super::form::Form;
use super::gemm::PreparedWeights;
use super::kernel::Lanes;
use super::schedule::Action;
use super::step::CpuStep;
use super::worker::{ItemWork, Shared};

/// What the kernel of an action reads, for all items of a worker.
#[derive(Clone, Copy)]
pub(crate) struct StepValues<'a> {
    pub(crate) shared: &'a Shared<'a>,
    pub(crate) work: &'a ItemWork<'a>,
    pub(crate) action: &'a Action,
    pub(crate) buffers: &'a [Vec<f32>],
}

impl<'a> StepValues<'a> {
    /// The step of the action.
    pub(crate) fn step(self) -> &'a CpuStep {
        &self.shared.steps.steps[self.action.step]
    }

    /// How many numbers one item of an input has.
    pub(crate) fn input_len(self, index: usize) -> usize {
        self.shared.steps.steps[self.step().inputs[index]].form.len()
    }

    /// The distance from one item of a buffer to the next.
    pub(crate) fn stride(self, slot: usize) -> usize {
        self.shared.schedule.stride(slot)
    }

    /// The arranged weights of the step.
    pub(crate) fn prepared(self) -> &'a PreparedWeights {
        let kernel =
            self.step().kernel.weighted().expect("only a kernel that multiplies by a weight asks for it");
        self.shared.weights.get(kernel.weight().index())
    }

    /// The same for one item.
    pub(crate) fn item(self, item: usize) -> ItemValues<'a> {
        ItemValues { step: self, item }
    }
}

/// What a kernel reads for one item.
#[derive(Clone, Copy)]
pub(crate) struct ItemValues<'a> {
    step: StepValues<'a>,
    item: usize,
}

impl<'a> ItemValues<'a> {
    /// The value of an input.
    pub(crate) fn input(self, index: usize) -> &'a [f32] {
        self.part(self.step.action.inputs[index], self.step.input_len(index))
    }

    /// The values of all `N` inputs.
    pub(crate) fn inputs<const N: usize>(self) -> [&'a [f32]; N] {
        std::array::from_fn(|index| self.input(index))
    }

    /// The value that the forward pass made, if the backward pass reads it.
    pub(crate) fn output(self) -> &'a [f32] {
        self.part(self.step.action.output, self.form().len())
    }

    /// What the forward pass kept for the backward pass.
    pub(crate) fn saved(self) -> &'a [f32] {
        match self.step.action.saved {
            Some(slot) => self.part(slot, self.step.step().kernel.saved()),
            None => &[],
        }
    }

    fn part(self, slot: usize, len: usize) -> &'a [f32] {
        &self.step.buffers[slot][self.item * self.step.stride(slot)..][..len]
    }

    /// The values of a parameter.
    pub(crate) fn parameter(self, id: ParameterId) -> &'a [f32] {
        self.step.shared.parameters.get(id)
    }

    /// The values of scale and shift.
    pub(crate) fn affine(self, affine: Option<Affine>) -> Option<(&'a [f32], Option<&'a [f32]>)> {
        affine.map(|affine| (self.parameter(affine.weight), affine.bias.map(|bias| self.parameter(bias))))
    }

    /// The arranged weights of the step.
    pub(crate) fn prepared(self) -> &'a PreparedWeights {
        self.step.prepared()
    }

    /// The form of the step's value.
    pub(crate) fn form(self) -> &'a Form {
        &self.step.step().form
    }

    /// The sizes of the machine's vectors.
    pub(crate) fn lanes(self) -> Lanes {
        self.step.shared.lanes
    }

    /// The item's own input from the batch, in row-major order. It has the shape of the step's value.
    pub(crate) fn sample(self) -> &'a [f32] {
        let (work, len) = (self.step.work, self.form().len());
        &work.inputs[(work.first + self.item) * len..][..len]
    }

    /// The key of the item's dropout; `None` if dropout is off.
    pub(crate) fn dropout_key(self) -> Option<u64> {
        let work = self.step.work;
        work.batch.and_then(|batch| batch.dropout_key(work.first + self.item))
    }
}
