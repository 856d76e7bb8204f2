//! The forward pass of one action.

use std::ops::Range;

use super::values::{ItemValues, StepValues};

/// Some items of one action, and what the action writes.
pub(crate) struct ForwardPass<'a> {
    pub(crate) values: StepValues<'a>,
    pub(crate) items: Range<usize>,
    /// The buffer for the values of the step.
    pub(crate) output: &'a mut [f32],
    /// The buffer for what is kept for the backward pass.
    pub(crate) saved: &'a mut [f32],
    pub(crate) scratch: &'a mut [f32],
}

/// One item of one action, and what the action writes.
pub(crate) struct ForwardItem<'a> {
    pub(crate) values: ItemValues<'a>,
    /// The value of the step.
    pub(crate) y: &'a mut [f32],
    /// What is kept for the backward pass.
    pub(crate) saved: &'a mut [f32],
    pub(crate) scratch: &'a mut [f32],
}

impl ForwardPass<'_> {
    /// Runs one item after the other, for kernels that gain nothing by taking them together.
    pub(crate) fn for_items(mut self, mut run: impl FnMut(ForwardItem<'_>)) {
        for item in self.items.clone() {
            run(self.item(item));
        }
    }

    /// One of the items.
    fn item(&mut self, item: usize) -> ForwardItem<'_> {
        let values = self.values;
        let step = values.step();
        let saved = match values.action.saved {
            Some(slot) => &mut self.saved[item * values.stride(slot)..][..step.kernel.saved()],
            None => &mut [],
        };
        let stride = values.stride(values.action.output);
        ForwardItem {
            values: values.item(item),
            y: &mut self.output[item * stride..][..step.form.len()],
            saved,
            scratch: self.scratch,
        }
    }
}
