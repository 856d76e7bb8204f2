//! One thread's part of a step: its buffers, and the interpreter that runs a schedule in them.

use std::ops::Range;

use dapple_graph::{Graph, ParameterId, Parameters};

use super::gemm::{Prepared, Run, Views};
use super::kernel::Lanes;
use super::pointwise;
use super::schedule::{Action, ActionKind, Schedule};
use super::step::{Kernel, Steps};
use crate::batch::{Batch, keeps};
use crate::layout::Layout;
use crate::loss::{self, Strides};

/// What all threads share.
pub(crate) struct Shared<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) steps: &'a Steps,
    pub(crate) schedule: &'a Schedule,
    pub(crate) lanes: Lanes,
    pub(crate) parameters: &'a Parameters,
    pub(crate) prepared: &'a [Prepared],
    /// Where a parameter's gradient lies in a sample's materialised gradient; `None` if it is frozen or deferred.
    pub(crate) places: &'a [Option<Range<usize>>],
    /// Numbers in a sample's materialised gradient.
    pub(crate) materialised: usize,
    /// Where the trainable parameters lie.
    pub(crate) layout: &'a Layout,
}

/// The buffers of one thread.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    pub(crate) buffers: Vec<Vec<f32>>,
    /// Gradients written down, sample after sample.
    pub(crate) materialised: Vec<f32>,
    /// Loss of each item of the last run.
    pub(crate) losses: Vec<f64>,
    /// Squared norms, `[sample, trainable parameter]`.
    pub(crate) squared: Vec<f64>,
    /// Clipping factors, likewise.
    pub(crate) factors: Vec<f32>,
    pub(crate) scratch: Vec<f32>,
    taken: Vec<Vec<f32>>,
}

/// What a worker is to run: views `first .. first + items` of the inputs.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) inputs: &'a [f32],
    pub(crate) batch: Option<&'a Batch<'a>>,
    pub(crate) views: usize,
    pub(crate) first: usize,
    pub(crate) items: usize,
    pub(crate) parallel: usize,
    /// Whether the norms of gradients are wanted.
    pub(crate) norms: bool,
}

impl Worker {
    /// Makes room for `items` items in `samples` samples; keeps what is there if it suffices.
    pub(crate) fn reserve(
        &mut self,
        shared: &Shared<'_>,
        samples: usize,
        items: usize,
        entries: usize,
        scratch: usize,
    ) {
        let grow = |buffer: &mut Vec<f32>, len: usize| {
            if buffer.len() < len {
                buffer.resize(len, 0.0);
            }
        };
        self.buffers.resize_with(shared.schedule.buffers.len(), Vec::new);
        for (buffer, len) in self.buffers.iter_mut().zip(&shared.schedule.buffers) {
            grow(buffer, len * items);
        }
        grow(&mut self.materialised, samples * shared.materialised);
        grow(&mut self.scratch, scratch);
        grow(&mut self.factors, samples * entries);
        self.losses.resize(items, 0.0);
        self.squared.resize(samples * entries, 0.0);
    }

    /// Runs the schedule for a group of items.
    pub(crate) fn run(&mut self, shared: &Shared<'_>, work: Work<'_>) {
        let samples = work.items / work.views;
        self.materialised[..samples * shared.materialised].fill(0.0);
        self.squared.fill(0.0);
        for stretch in &shared.schedule.stretches {
            let actions = &shared.schedule.actions[stretch.actions.clone()];
            if stretch.lockstep {
                for action in actions {
                    self.action(shared, &work, action, 0..work.items);
                }
            } else {
                for item in 0..work.items {
                    for action in actions {
                        self.action(shared, &work, action, item..item + 1);
                    }
                }
            }
        }
    }

    fn action(&mut self, shared: &Shared<'_>, work: &Work<'_>, action: &Action, items: Range<usize>) {
        match action.kind {
            ActionKind::Forward => self.forward(shared, work, action, items),
            ActionKind::Loss => self.loss(shared, work, action, items),
            ActionKind::Backward => self.backward(shared, work, action, items),
        }
    }

    fn loss(&mut self, shared: &Shared<'_>, work: &Work<'_>, action: &Action, items: Range<usize>) {
        let (Some(batch), Some(slot)) = (work.batch, action.gradient) else { return };
        let form = &shared.steps.steps[action.step].form;
        let classes = form.shape[0];
        let positions = form.len() / classes;
        let (class_stride, position_stride) = if form.channels_last { (1, classes) } else { (positions, 1) };
        let strides = Strides { classes, positions, class_stride, position_stride };
        let mut gradient = std::mem::take(&mut self.buffers[slot]);
        for item in items {
            let output =
                &self.buffers[action.output][item * shared.schedule.buffers[action.output]..][..form.len()];
            let target = batch.target(shared.graph, work.first + item);
            let gradient = &mut gradient[item * shared.schedule.buffers[slot]..][..form.len()];
            let scale = 1.0 / work.views as f64;
            self.losses[item] = loss::evaluate(shared.graph.loss(), strides, output, target, scale, gradient);
        }
        self.buffers[slot] = gradient;
    }

    fn forward(&mut self, shared: &Shared<'_>, work: &Work<'_>, action: &Action, items: Range<usize>) {
        let step = &shared.steps.steps[action.step];
        let stride = |slot: usize| shared.schedule.buffers[slot];
        let mut output = std::mem::take(&mut self.buffers[action.output]);
        let mut saved = action.saved.map(|slot| std::mem::take(&mut self.buffers[slot])).unwrap_or_default();
        let len = step.form.len();
        let out_stride = stride(action.output);
        let parameter = |id: ParameterId| shared.parameters.get(id);
        let buffers = &self.buffers;
        let input = |index: usize, item: usize| {
            let slot = action.inputs[index];
            &buffers[slot][item * stride(slot)..][..shared.steps.steps[step.inputs[index]].form.len()]
        };
        if let Kernel::Gemm(gemm) = &step.kernel {
            let slot = action.inputs[0];
            let mut run = Run { items, scratch: &mut self.scratch, parallel: work.parallel };
            let prepared = &shared.prepared[action.step];
            gemm.forward(
                shared.lanes,
                prepared,
                parameter(gemm.weight),
                &buffers[slot],
                &mut output,
                (stride(slot), out_stride),
                &mut run,
            );
        } else {
            for item in items {
                let y = &mut output[item * out_stride..][..len];
                match &step.kernel {
                    Kernel::Gemm(_) => {}
                    Kernel::Input(transfer) => {
                        transfer.copy(&work.inputs[(work.first + item) * len..][..len], y)
                    }
                    Kernel::Parameter(id, transfer) => transfer.copy(parameter(*id), y),
                    Kernel::Depthwise(depthwise) => {
                        let prepared = &shared.prepared[action.step];
                        depthwise.forward(&prepared.forward, &prepared.bias, input(0, item), y);
                    }
                    Kernel::Norm(norm) => {
                        let saved = &mut saved[item * action.saved.map_or(0, stride)..];
                        norm.forward(&parameter, input(0, item), y, saved, &mut self.scratch);
                    }
                    Kernel::Activation(activation) => activation.forward(input(0, item), y),
                    Kernel::MaxPool(pool) => {
                        let winner = &mut saved[item * action.saved.map_or(0, stride)..][..len];
                        pool.forward(input(0, item), y, winner);
                    }
                    Kernel::Resample(resample) => resample.forward(input(0, item), y),
                    Kernel::Add { relu } => pointwise::add(input(0, item), input(1, item), y, *relu),
                    Kernel::Multiply => pointwise::multiply(input(0, item), input(1, item), y, false),
                    Kernel::Move(transfers) => {
                        for (index, transfers) in transfers.iter().enumerate() {
                            transfers.iter().for_each(|transfer| transfer.copy(input(index, item), y));
                        }
                    }
                    Kernel::MatMul(matmul) => {
                        matmul.forward(shared.lanes, input(0, item), input(1, item), y, &mut self.scratch);
                    }
                    Kernel::Softmax { features } => super::matrix::softmax(input(0, item), y, *features),
                    Kernel::Attention(attention) => {
                        let inputs = [0, 1, 2].map(|index| input(index, item));
                        attention.forward(shared.lanes, inputs, y, &mut self.scratch);
                    }
                    Kernel::Dropout { rate, node } => {
                        let key = work.batch.and_then(|batch| batch.dropout_key(work.first + item));
                        dropout(&step.form, *rate, *node, key, input(0, item), y, false);
                    }
                }
            }
        }
        self.buffers[action.output] = output;
        if let Some(slot) = action.saved {
            self.buffers[slot] = saved;
        }
    }

    fn backward(&mut self, shared: &Shared<'_>, work: &Work<'_>, action: &Action, items: Range<usize>) {
        let step = &shared.steps.steps[action.step];
        let stride = |slot: usize| shared.schedule.buffers[slot];
        let Some(slot) = action.gradient else { return };
        let mut gradient = std::mem::take(&mut self.buffers[slot]);
        let mut taken = std::mem::take(&mut self.taken);
        for wanted in &action.input_gradients {
            taken.push(wanted.map(|(slot, _)| std::mem::take(&mut self.buffers[slot])).unwrap_or_default());
        }
        let mut context =
            Backward { shared, work, action, buffers: &self.buffers, materialised: &mut self.materialised };
        if let Kernel::Gemm(_) = &step.kernel {
            context.gemm(&mut gradient, &mut taken, items, &mut self.scratch, &mut self.squared);
        } else {
            for item in items {
                let g = &mut gradient[item * stride(slot)..][..step.form.len()];
                context.item(g, &mut taken, item, &mut self.scratch);
            }
        }
        for (wanted, buffer) in action.input_gradients.iter().zip(taken.drain(..)) {
            if let Some((slot, _)) = wanted {
                self.buffers[*slot] = buffer;
            }
        }
        self.taken = taken;
        self.buffers[slot] = gradient;
    }
}

/// The backward pass of one action.
struct Backward<'a> {
    shared: &'a Shared<'a>,
    work: &'a Work<'a>,
    action: &'a Action,
    buffers: &'a [Vec<f32>],
    materialised: &'a mut [f32],
}

impl Backward<'_> {
    fn stride(&self, slot: usize) -> usize {
        self.shared.schedule.buffers[slot]
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
            Some(slot) => &self.buffers[slot][item * self.stride(slot)..][..self.stride(slot)],
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

    fn gemm(
        &mut self,
        gradient: &mut [f32],
        taken: &mut [Vec<f32>],
        items: Range<usize>,
        scratch: &mut [f32],
        squared: &mut [f64],
    ) {
        let step = &self.shared.steps.steps[self.action.step];
        let Kernel::Gemm(gemm) = &step.kernel else { return };
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
                let square = &mut squared[item / views * self.shared.layout.entries().len() + entry];
                *square = match self.place(gemm.weight, item) {
                    Some(range) => gemm.stored_norm(prepared, &self.materialised[range], scratch),
                    None => {
                        let first = item + 1 - views;
                        let view = |slot: usize| match self.buffers.get(slot) {
                            Some(buffer) => (&buffer[first * self.stride(slot)..], self.stride(slot)),
                            None => (&[][..], 0),
                        };
                        let inputs = view(self.action.inputs[0]);
                        let outputs = view(self.action.output);
                        let gradients = (&gradient[first * stride..], stride);
                        let views = Views { count: views, inputs, outputs, gradients };
                        gemm.ghost_norm(self.shared.lanes, prepared, &views, scratch)
                    }
                };
            }
        }
        if let Some((slot, accumulate)) = self.action.input_gradients[0] {
            let strides = (stride, self.stride(slot));
            let mut run = Run { items, scratch, parallel: self.work.parallel };
            let weight = self.shared.parameters.get(gemm.weight);
            gemm.backward_data(
                self.shared.lanes,
                prepared,
                weight,
                gradient,
                &mut taken[0],
                strides,
                accumulate,
                &mut run,
            );
        }
    }

    fn item(&mut self, g: &mut [f32], taken: &mut [Vec<f32>], item: usize, scratch: &mut [f32]) {
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
                    super::matrix::softmax_backward(self.output(item), g, dx, *features, accumulate);
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
            Kernel::Dropout { rate, node } => {
                let key = self.work.batch.and_then(|batch| batch.dropout_key(self.work.first + item));
                if let Some((dx, accumulate)) = self.part(taken, 0, item) {
                    dropout(&step.form, *rate, *node, key, g, dx, accumulate);
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

/// Drops or scales up each element; elements are numbered in row-major order whatever the form.
fn dropout(
    form: &super::form::Form,
    rate: f32,
    node: usize,
    key: Option<u64>,
    from: &[f32],
    to: &mut [f32],
    accumulate: bool,
) {
    let Some(key) = key else { return pointwise::scale(from, 1.0, to, accumulate) };
    let channels = if form.channels_last { form.shape[0] } else { 1 };
    let positions = form.len() / channels;
    let scale = 1.0 / (1.0 - rate);
    for (index, (to, from)) in to.iter_mut().zip(from).enumerate() {
        let element = index % channels * positions + index / channels;
        let value = if keeps(key, node, element, rate) { from * scale } else { 0.0 };
        *to = if accumulate { *to + value } else { value };
    }
}
