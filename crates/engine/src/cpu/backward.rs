//! The backward pass of one action.

use std::ops::Range;

use dapple_graph::{Affine, ParameterId};

use super::values::{ItemValues, StepValues};

/// Some items of one action, and what it writes.
pub(crate) struct BackwardPass<'a> {
    pub(crate) values: StepValues<'a>,
    pub(crate) items: Range<usize>,
    /// The buffer of the gradients of the step's values. A kernel may change them.
    pub(crate) gradient: &'a mut [f32],
    /// The buffers of the inputs' gradients, empty where none is wanted.
    pub(crate) input_gradients: &'a mut [Vec<f32>],
    /// Gradients of parameters that are written down, sample after sample.
    pub(crate) materialised: &'a mut [f32],
    pub(crate) norms: GradientNorms<'a>,
    pub(crate) scratch: &'a mut [f32],
}

/// Where norms of gradients go, and what is made on the way.
pub(crate) struct GradientNorms<'a> {
    pub(crate) wide: &'a mut [f64],
    pub(crate) squared: &'a mut [f64],
    pub(crate) means: &'a mut [f32],
}

/// One item, likewise.
pub(crate) struct BackwardItem<'a> {
    pub(crate) values: ItemValues<'a>,
    /// The gradient of the step's value. A kernel may change it.
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
    /// The gradient of an input, if it is wanted, and whether to add to what it holds.
    pub(crate) fn part(&mut self, index: usize) -> Option<(&mut [f32], bool)> {
        part(self.step, self.item, index, &mut self.buffers[index])
    }

    /// As [`Self::part`], with zeros where it holds nothing yet: what there is to do is to add.
    pub(crate) fn sum(&mut self, index: usize) -> Option<&mut [f32]> {
        self.part(index).map(started)
    }

    /// As [`Self::sum`], for all inputs, of which there are so many.
    pub(crate) fn sums<const N: usize>(&mut self) -> [Option<&mut [f32]>; N] {
        let (step, item) = (self.step, self.item);
        let mut buffers = self.buffers.iter_mut().enumerate();
        std::array::from_fn(|_| {
            let (index, buffer) = buffers.next().expect("every input has a buffer");
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

/// The gradients of parameters that are written down for an item's sample.
pub(crate) struct ParameterGradients<'a> {
    step: StepValues<'a>,
    item: usize,
    materialised: &'a mut [f32],
}

/// Gradients of scale and shift, where they are wanted.
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
