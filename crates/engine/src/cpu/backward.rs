//! The backward pass of one action.

use std::ops::Range;

use dapple_graph::{Affine, ParameterId};

use super::values::{ItemValues, StepValues};

/// Some items of one action, and what the action writes.
pub(crate) struct BackwardPass<'a> {
    pub(crate) values: StepValues<'a>,
    pub(crate) items: Range<usize>,
    /// The buffer of the gradients of the step's values. A kernel may overwrite them.
    pub(crate) gradient: &'a mut [f32],
    /// The buffers of the inputs' gradients; a buffer is empty if that gradient is not wanted.
    pub(crate) input_gradients: &'a mut [Vec<f32>],
    /// The written gradients of parameters, sample after sample.
    pub(crate) materialised: &'a mut [f32],
    pub(crate) norms: GradientNorms<'a>,
    pub(crate) scratch: &'a mut [f32],
}

/// Where the norms of gradients go, and the means and scratch that are needed for them.
pub(crate) struct GradientNorms<'a> {
    pub(crate) wide: &'a mut [f64],
    pub(crate) squared: &'a mut [f64],
    pub(crate) means: &'a mut [f32],
}

/// One item of one action, and what the action writes.
pub(crate) struct BackwardItem<'a> {
    pub(crate) values: ItemValues<'a>,
    /// The gradient of the step's value. A kernel may overwrite it.
    pub(crate) g: &'a mut [f32],
    pub(crate) input_gradients: InputGradients<'a>,
    pub(crate) parameter_gradients: ParameterGradients<'a>,
    pub(crate) scratch: &'a mut [f32],
}

impl BackwardPass<'_> {
    /// Runs one item after the other, for kernels that gain nothing by taking them together.
    pub(crate) fn for_items(mut self, mut run: impl FnMut(BackwardItem<'_>)) {
        for item in self.items.clone() {
            run(self.item(item));
        }
    }

    /// One of the items.
    pub(crate) fn item(&mut self, item: usize) -> BackwardItem<'_> {
        let values = self.values;
        let stride = values.action.gradient.map_or(0, |slot| values.stride(slot));
        BackwardItem {
            values: values.item(item),
            g: &mut self.gradient[item * stride..][..values.step().form.len()],
            input_gradients: InputGradients { step: values, item, buffers: self.input_gradients },
            parameter_gradients: ParameterGradients { step: values, item, materialised: self.materialised },
            scratch: self.scratch,
        }
    }
}

/// The gradients of an item's inputs.
pub(crate) struct InputGradients<'a> {
    step: StepValues<'a>,
    item: usize,
    buffers: &'a mut [Vec<f32>],
}

impl InputGradients<'_> {
    /// The gradient of an input, if it is wanted, and whether to add to what is there rather than overwrite it.
    pub(crate) fn part(&mut self, index: usize) -> Option<(&mut [f32], bool)> {
        part(self.step, self.item, index, &mut self.buffers[index])
    }

    /// Like [`Self::part`], but filled with zeros if nothing is there yet, so that the caller always adds.
    pub(crate) fn sum(&mut self, index: usize) -> Option<&mut [f32]> {
        self.part(index).map(started)
    }

    /// Like [`Self::sum`], for all `N` inputs.
    pub(crate) fn sums<const N: usize>(&mut self) -> [Option<&mut [f32]>; N] {
        let (step, item) = (self.step, self.item);
        let mut buffers = self.buffers.iter_mut().enumerate();
        std::array::from_fn(|_| {
            let (index, buffer) = buffers.next().expect("a kernel asks for as many sums as it has inputs");
            part(step, item, index, buffer).map(started)
        })
    }
}

fn part<'a>(
    step: StepValues<'_>,
    item: usize,
    index: usize,
    buffer: &'a mut [f32],
) -> Option<(&'a mut [f32], bool)> {
    let (slot, accumulate) = step.action.input_gradients[index]?;
    Some((&mut buffer[item * step.stride(slot)..][..step.input_len(index)], accumulate))
}

fn started((part, accumulate): (&mut [f32], bool)) -> &mut [f32] {
    if !accumulate {
        part.fill(0.0);
    }
    part
}

/// The written gradients of parameters for an item's sample.
pub(crate) struct ParameterGradients<'a> {
    step: StepValues<'a>,
    item: usize,
    materialised: &'a mut [f32],
}

/// The gradients of scale and shift, each if it is wanted.
pub(crate) type AffineGradients<'a> = (Option<&'a mut [f32]>, Option<&'a mut [f32]>);

impl ParameterGradients<'_> {
    /// The gradient of a parameter, to add to; `None` if it is frozen or deferred.
    pub(crate) fn of(&mut self, id: ParameterId) -> Option<&mut [f32]> {
        let place = self.place(id)?;
        Some(&mut self.materialised[place])
    }

    /// The gradients of scale and shift.
    pub(crate) fn affine(&mut self, affine: Option<Affine>) -> AffineGradients<'_> {
        let Some(affine) = affine else { return (None, None) };
        match (self.place(affine.weight), affine.bias.and_then(|bias| self.place(bias))) {
            (Some(weight), Some(bias)) => {
                let both = self.materialised.get_disjoint_mut([weight, bias]);
                let [weight, bias] = both.expect("every parameter has a place of its own");
                (Some(weight), Some(bias))
            }
            (Some(weight), None) => (Some(&mut self.materialised[weight]), None),
            (None, Some(bias)) => (None, Some(&mut self.materialised[bias])),
            (None, None) => (None, None),
        }
    }

    fn place(&self, id: ParameterId) -> Option<Range<usize>> {
        let shared = self.step.shared;
        let range = shared.places[id.index()].clone()?;
        let start = self.item / self.step.work.views * shared.materialised;
        Some(start + range.start..start + range.end)
    }
}
