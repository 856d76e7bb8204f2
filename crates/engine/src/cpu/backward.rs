//! The backward pass of one action.

use std::ops::Range;

use dapple_graph::ParameterId;

use super::gemm::{Run, Views};
use super::matrix;
use super::pointwise;
use super::schedule::Action;
use super::step::Kernel;
use super::worker::{Shared, Work};

/// One action, and what it reads and writes.
pub(crate) struct Backward<'a> {
    pub(crate) shared: &'a Shared<'a>,
    pub(crate) work: &'a Work<'a>,
    pub(crate) action: &'a Action,
    pub(crate) buffers: &'a [Vec<f32>],
    pub(crate) materialised: &'a mut [f32],
}

/// Where norms of gradients go, and what is made on the way.
pub(crate) struct Norms<'a> {
    pub(crate) wide: &'a mut [f64],
    pub(crate) squared: &'a mut [f64],
    pub(crate) means: &'a mut [f32],
}

impl Backward<'_> {
    fn stride(&self, slot: usize) -> usize {
        self.shared.schedule.stride(slot)
    }

    fn input(&self, index: usize, item: usize) -> &[f32] {
        let slot = self.action.inputs[index];
        let input = self.shared.steps.steps[self.action.step].inputs[index];
        &self.buffers[slot][item * self.stride(slot)..][..self.shared.steps.steps[input].form.len()]
    }

    fn output(&self, item: usize) -> &[f32] {
        let slot = self.action.output;
        if slot == usize::MAX {
            return &[];
        }
        &self.buffers[slot][item * self.stride(slot)..]
            [..self.shared.steps.steps[self.action.step].form.len()]
    }

    fn saved(&self, item: usize) -> &[f32] {
        match self.action.saved {
            Some(slot) => {
                &self.buffers[slot][item * self.stride(slot)..][..self.shared.schedule.buffers[slot].len]
            }
            None => &[],
        }
    }

    /// Where an item's gradient of a parameter is written down.
    fn place(&self, id: ParameterId, item: usize) -> Option<Range<usize>> {
        let range = self.shared.places[id.index()].clone()?;
        let start = item / self.work.views * self.shared.materialised;
        Some(start + range.start..start + range.end)
    }

    /// The part of an input's gradient that belongs to an item, and whether to add to it.
    fn part<'t>(
        &self,
        taken: &'t mut [Vec<f32>],
        index: usize,
        item: usize,
    ) -> Option<(&'t mut [f32], bool)> {
        let (slot, accumulate) = self.action.input_gradients[index]?;
        let input = self.shared.steps.steps[self.action.step].inputs[index];
        let len = self.shared.steps.steps[input].form.len();
        Some((&mut taken[index][item * self.stride(slot)..][..len], accumulate))
    }

    /// As [`Self::part`], zeroed where nothing is there yet.
    fn sum<'t>(&self, taken: &'t mut [Vec<f32>], index: usize, item: usize) -> Option<&'t mut [f32]> {
        let (part, accumulate) = self.part(taken, index, item)?;
        if !accumulate {
            part.fill(0.0);
        }
        Some(part)
    }

    /// A convolution or linear layer of some items; takes the norms of their samples too.
    pub(crate) fn gemm(
        &mut self,
        gradient: &mut [f32],
        taken: &mut [Vec<f32>],
        items: Range<usize>,
        scratch: &mut [f32],
        norms: Norms<'_>,
    ) {
        let step = &self.shared.steps.steps[self.action.step];
        let Kernel::Gemm(gemm) = &step.kernel else { unreachable!("asked for of products alone") };
        let len = step.form.len();
        let views = self.work.views;
        let entry = self.shared.layout.position(gemm.weight).filter(|_| self.work.norms);
        let prepared = &self.shared.prepared[self.action.step];
        let stride = self.action.gradient.map_or(0, |slot| self.stride(slot));
        for item in items.clone() {
            let g = &mut gradient[item * stride..][..len];
            if gemm.relu {
                pointwise::mask(self.output(item), g);
            }
            if let Some(range) = gemm.bias.and_then(|id| self.place(id, item)) {
                pointwise::add_rows(g, &mut self.materialised[range]);
            }
            if let Some(range) = self.place(gemm.weight, item) {
                let (buffers, slot) = (self.buffers, self.action.inputs[0]);
                let x = &buffers[slot][item * self.stride(slot)..];
                let sum = &mut self.materialised[range];
                gemm.item_weight_gradient(x, g, sum, scratch, self.work.parallel);
            }
            // Norms are taken while what they read is still in the cache.
            if let (Some(entry), true) = (entry, (item + 1) % views == 0) {
                let sample = item / views;
                let means = self.shared.sources[entry].means.clone().unwrap_or(0..0);
                let means = &mut norms.means[sample * self.shared.means..][means];
                let square = &mut norms.squared[sample * self.shared.layout.entries().len() + entry];
                *square = match self.place(gemm.weight, item) {
                    Some(range) => gemm.stored_norm(prepared, &self.materialised[range], means, norms.wide),
                    None => {
                        let first = item + 1 - views;
                        let view = |slot: usize| match self.buffers.get(slot) {
                            Some(buffer) => (&buffer[first * self.stride(slot)..], self.stride(slot)),
                            None => (&[][..], 0),
                        };
                        let inputs = view(self.action.inputs[0]);
                        let gradients = (&gradient[first * stride..], stride);
                        let views = Views { count: views, inputs, gradients };
                        gemm.ghost_norm(prepared, &views, means, norms.wide)
                    }
                };
            }
        }
        if let Some(&Some((slot, accumulate))) = self.action.input_gradients.first() {
            let strides = (stride, self.stride(slot));
            let mut run = Run { items, scratch, parallel: self.work.parallel };
            gemm.backward_data(
                self.shared.lanes,
                prepared,
                gradient,
                &mut taken[0],
                strides,
                accumulate,
                &mut run,
            );
        }
    }

    /// Any other operation of one item.
    pub(crate) fn item(&mut self, g: &mut [f32], taken: &mut [Vec<f32>], item: usize, scratch: &mut [f32]) {
        let step = &self.shared.steps.steps[self.action.step];
        match &step.kernel {
            Kernel::Gemm(_) | Kernel::Input(_) => {}
            Kernel::Parameter(id, transfer) => {
                if let Some(range) = self.place(*id, item) {
                    transfer.add_back(g, &mut self.materialised[range]);
                }
            }
            Kernel::Depthwise(depthwise) => {
                if let Some(range) = depthwise.bias.and_then(|id| self.place(id, item)) {
                    pointwise::add_rows(g, &mut self.materialised[range]);
                }
                if let Some(range) = self.place(depthwise.weight, item) {
                    let materialised = std::mem::take(&mut self.materialised);
                    depthwise.backward_weight(self.input(0, item), g, &mut materialised[range]);
                    self.materialised = materialised;
                }
                if let Some((dx, accumulate)) = self.part(taken, 0, item) {
                    let weight = &self.shared.prepared[self.action.step].forward;
                    depthwise.backward_data(weight, g, dx, accumulate);
                }
            }
            Kernel::Norm(norm) => {
                let weight = norm.affine.and_then(|a| self.place(a.weight, item));
                let bias = norm.affine.and_then(|a| self.place(a.bias, item));
                let materialised = std::mem::take(&mut self.materialised);
                let affine = match (weight, bias) {
                    (Some(weight), Some(bias)) => match materialised.get_disjoint_mut([weight, bias]) {
                        Ok([weight, bias]) => (Some(weight), Some(bias)),
                        Err(_) => (None, None),
                    },
                    (Some(weight), None) => (Some(&mut materialised[weight]), None),
                    (None, Some(bias)) => (None, Some(&mut materialised[bias])),
                    (None, None) => (None, None),
                };
                let parameter = |id: ParameterId| self.shared.parameters.get(id);
                let dx = self.part(taken, 0, item);
                norm.backward(
                    &parameter,
                    self.input(0, item),
                    self.output(item),
                    self.saved(item),
                    g,
                    affine,
                    dx,
                    scratch,
                );
                self.materialised = materialised;
            }
            Kernel::Activation(activation) => {
                if let Some((dx, accumulate)) = self.part(taken, 0, item) {
                    activation.backward(self.input(0, item), g, dx, accumulate);
                }
            }
            Kernel::MaxPool(pool) => {
                if pool.relu {
                    pointwise::mask(self.output(item), g);
                }
                if let Some((dx, accumulate)) = self.part(taken, 0, item) {
                    pool.backward(g, self.saved(item), dx, accumulate);
                }
            }
            Kernel::Resample(resample) => {
                if let Some((dx, accumulate)) = self.part(taken, 0, item) {
                    resample.backward(g, dx, accumulate);
                }
            }
            Kernel::Add { relu } => {
                if *relu {
                    pointwise::mask(self.output(item), g);
                }
                for index in 0..2 {
                    if let Some((dx, accumulate)) = self.part(taken, index, item) {
                        pointwise::scale(g, 1.0, dx, accumulate);
                    }
                }
            }
            Kernel::Multiply => {
                for index in 0..2 {
                    if let Some((dx, accumulate)) = self.part(taken, index, item) {
                        pointwise::multiply(g, self.input(1 - index, item), dx, accumulate);
                    }
                }
            }
            Kernel::Move(transfers) => {
                for (index, transfers) in transfers.iter().enumerate() {
                    if let Some(dx) = self.sum(taken, index, item) {
                        transfers.iter().for_each(|transfer| transfer.add_back(g, dx));
                    }
                }
            }
            Kernel::MatMul(matmul) => {
                let (left, right) = taken.split_at_mut(1);
                let da = self.sum_of(left, 0, item);
                let db = self.sum_of(right, 1, item);
                let (a, b) = (self.input(0, item), self.input(1, item));
                matmul.backward(self.shared.lanes, a, b, g, da, db, scratch);
            }
            Kernel::Softmax { features } => {
                if let Some((dx, accumulate)) = self.part(taken, 0, item) {
                    matrix::softmax_backward(self.output(item), g, dx, *features, accumulate);
                }
            }
            Kernel::Attention(attention) => {
                let (first, rest) = taken.split_at_mut(1);
                let (second, third) = rest.split_at_mut(1);
                let gradients =
                    [self.sum_of(first, 0, item), self.sum_of(second, 1, item), self.sum_of(third, 2, item)];
                let inputs = [0, 1, 2].map(|index| self.input(index, item));
                attention.backward(self.shared.lanes, inputs, g, gradients, scratch);
            }
            Kernel::Dropout(dropout) => {
                let key = self.work.batch.and_then(|batch| batch.dropout_key(self.work.first + item));
                if let Some((dx, accumulate)) = self.part(taken, 0, item) {
                    dropout.run(&step.form, key, g, dx, accumulate);
                }
            }
        }
    }

    /// As [`Self::sum`], for a slice that holds only this input's buffer.
    fn sum_of<'t>(&self, taken: &'t mut [Vec<f32>], index: usize, item: usize) -> Option<&'t mut [f32]> {
        let (slot, accumulate) = self.action.input_gradients[index]?;
        let input = self.shared.steps.steps[self.action.step].inputs[index];
        let len = self.shared.steps.steps[input].form.len();
        let part = &mut taken[0][item * self.stride(slot)..][..len];
        if !accumulate {
            part.fill(0.0);
        }
        Some(part)
    }
}
