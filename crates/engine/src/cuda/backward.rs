//! The backward pass: data gradients, each sample's parameter gradients, and the norms of those that are never written down.

use dapple_graph::{Affine, ParameterId};

use super::cudnn::{Direction, Tensors};
use super::device::{Grid, Pointer, Side, arguments};
use super::error::CudaError;
use super::kind::{Kind, RELU};
use super::norm::Group;
use super::run::{Run, name, right};
use crate::layout::Layout;

/// Parameters that already received a gradient in this pass, by their position in the layout.
pub(crate) type Touched = Vec<bool>;

impl Run<'_> {
    /// Gradients of all nodes, from that of the output.
    pub(crate) fn backward(&mut self, layout: &Layout) -> Result<(), CudaError> {
        let program = self.program;
        let mut touched: Touched = vec![false; layout.entries().len()];
        if program.unreached {
            self.device.clear(self.work.written, self.samples * program.written)?;
        }
        for node in (0..program.steps.kinds.len()).rev().filter(|&node| program.steps.needs_gradient[node]) {
            if let Some(kind) = &program.steps.kinds[node] {
                self.backward_step(node, kind, layout, &mut touched)?;
                self.mark(name(kind, true))?;
            }
        }
        Ok(())
    }

    /// Where a parameter's per-sample gradients are written, and whether they are added to.
    fn written(
        &self,
        layout: &Layout,
        id: Option<ParameterId>,
        touched: &mut Touched,
    ) -> Option<(Pointer, bool)> {
        let position = layout.position(id?)?;
        let start = self.program.sources[position].written?;
        Some((self.work.written.at(start), std::mem::replace(&mut touched[position], true)))
    }

    /// Where the partial sums of a parameter's squared norm lie.
    pub(super) fn partials(&self, layout: &Layout, id: ParameterId) -> Pointer {
        let start = layout.position(id).map_or(0, |position| self.program.sources[position].partials.start);
        self.work.partials.at(2 * start)
    }

    /// Gradients of scale and shift: addresses, and whether they are added to.
    fn affine(
        &self,
        layout: &Layout,
        affine: Option<Affine>,
        touched: &mut Touched,
    ) -> (Pointer, Pointer, bool) {
        let weight = self.written(layout, affine.map(|a| a.weight), touched);
        let bias = self.written(layout, affine.map(|a| a.bias), touched);
        let address =
            |written: Option<(Pointer, bool)>| written.map_or(Pointer::NULL, |(pointer, _)| pointer);
        (address(weight), address(bias), weight.or(bias).is_some_and(|(_, accumulate)| accumulate))
    }

    fn bias_gradient(
        &self,
        g: Pointer,
        written: Option<(Pointer, bool)>,
        (channels, positions): (usize, usize),
        (along, across): (usize, usize),
    ) -> Result<(), CudaError> {
        let Some((target, _)) = written else { return Ok(()) };
        let (stride, views, samples) = (self.program.written, self.program.views, self.samples);
        self.device.launch(
            "bias_gradient",
            Grid::warps(samples * channels),
            arguments![g, target, stride, channels, positions, along, across, views, samples],
        )
    }

    fn backward_step(
        &mut self,
        node: usize,
        kind: &Kind,
        layout: &Layout,
        touched: &mut Touched,
    ) -> Result<(), CudaError> {
        let (device, items, samples, views) = (self.device, self.items(), self.samples, self.program.views);
        let stride = self.program.written;
        let g = self.gradient(node);
        let read: Vec<Pointer> =
            self.program.steps.inputs[node].iter().map(|&input| self.value(input)).collect();
        let x = read.first().copied().unwrap_or_default();
        let wanted = if read.is_empty() { None } else { self.target(node, 0) };
        let (dx, add) = wanted.unwrap_or((Pointer::NULL, false));
        // Values of the first input, for kernels that gather one input value a thread.
        let n = self.program.steps.inputs[node].first().map_or(0, |&input| items * self.len(input));
        match kind {
            Kind::Input => Ok(()),
            Kind::Parameter(id) => {
                let Some((target, accumulate)) = self.written(layout, Some(*id), touched) else {
                    return Ok(());
                };
                let (len, n) = (self.len(node), samples * self.len(node));
                let list = arguments![g, target, stride, len, views, n, accumulate];
                device.launch("broadcast_backward", Grid::each(n), list)
            }
            Kind::Conv(conv) => {
                let bias = self.written(layout, conv.bias, touched);
                let positions = conv.geometry.positions();
                self.bias_gradient(g, bias, (conv.geometry.out, positions), (positions, 1))?;
                self.mark("bias gradient")?;
                if let Some((target, _)) = self.written(layout, Some(conv.weight), touched) {
                    let card = self.card();
                    let sizes = (samples, views);
                    self.choices.weight_gradient(card, (node, conv), (x, g), (target, stride), sizes)?;
                    self.mark("convolution weight gradient")?;
                } else if self.norms && self.program.deferred[node] {
                    self.convolution_norm(conv, x, g, layout)?;
                    self.mark("convolution ghost norm")?;
                }
                match wanted {
                    Some((dx, add)) => {
                        let tensors = Tensors { input: dx, weight: self.weight(conv), output: g };
                        self.convolve(node, conv, Direction::Data, tensors, add)
                    }
                    None => Ok(()),
                }
            }
            Kind::Linear { weight, bias, rows, features, out } => {
                let bias = self.written(layout, *bias, touched);
                self.bias_gradient(g, bias, (*out, *rows), (1, *out))?;
                let of_sample = rows * views;
                if let Some((target, _)) = self.written(layout, Some(*weight), touched) {
                    let left = Side::new(g, *out, of_sample * out);
                    let inner = Side::new(x, *features, of_sample * features);
                    let sizes = (*out, of_sample, *features);
                    let target = Side::new(target, *features, stride);
                    device.product(sizes, (left.transposed(), inner), target, (1.0, 0.0), samples)?;
                } else if self.norms && self.program.deferred[node] {
                    self.linear_norm(of_sample, (x, *features), (g, *out), self.partials(layout, *weight))?;
                }
                if wanted.is_some() {
                    let sides = (Side::new(g, *out, 0), Side::new(self.parameter(*weight), *features, 0));
                    let keep = if add { 1.0 } else { 0.0 };
                    let target = Side::new(dx, *features, 0);
                    device.product((items * rows, *out, *features), sides, target, (1.0, keep), 1)?;
                }
                Ok(())
            }
            Kind::Group { groups, size, inner, eps, affine, stored, residual, relu } => {
                let (dw, db, add_affine) = self.affine(layout, *affine, touched);
                let (grid, holds) =
                    Group { size: *size, inner: *inner }.backward(samples * groups, device.shared);
                let y = if kind.masks() { self.value(node) } else { Pointer::NULL };
                device.launch(
                    "group_backward",
                    grid,
                    arguments![
                        x,
                        g,
                        y,
                        self.kept(node),
                        self.optional(affine.map(|a| a.weight)),
                        self.optional(affine.map(|a| a.bias)),
                        self.optional(stored.map(|(mean, _)| mean)),
                        self.optional(stored.map(|(_, variance)| variance)),
                        dx,
                        dw,
                        db,
                        stride,
                        *groups,
                        *size,
                        *inner,
                        *eps,
                        *relu,
                        views,
                        add,
                        add_affine,
                        holds,
                    ],
                )?;
                match residual.then(|| self.target(node, 1)).flatten() {
                    Some((to, add)) => {
                        let n = items * self.len(node);
                        device.launch("copy", Grid::fours(n), arguments![g, to, n, add])
                    }
                    None => Ok(()),
                }
            }
            Kind::Layer { features, rows, affine, .. } => {
                let (dw, db, add_affine) = self.affine(layout, *affine, touched);
                let kept = self.kept(node);
                if dw != Pointer::NULL || db != Pointer::NULL {
                    let list =
                        arguments![x, g, kept, dw, db, stride, *features, rows * views, samples, add_affine];
                    device.launch("layer_affine", Grid::each(samples * features), list)?;
                }
                if wanted.is_none() {
                    return Ok(());
                }
                let (weight, rows) = (self.optional(affine.map(|a| a.weight)), items * rows);
                device.launch(
                    "layer_backward",
                    Grid::warps(rows),
                    arguments![x, g, kept, weight, dx, *features, rows, add],
                )
            }
            // Every other operation has nothing to do but pass its gradient on.
            _ if self.program.contributions[node].iter().all(Option::is_none) => Ok(()),
            Kind::Unary { code, factor } => {
                let kept = if *code == RELU { self.value(node) } else { x };
                device.launch(
                    "unary_backward",
                    Grid::fours(n),
                    arguments![*code, kept, g, dx, n, *factor, add],
                )
            }
            Kind::MaxPool(table) => {
                let list = arguments![g, self.kept(node), dx, self.table(*table), n, add];
                device.launch("max_pool_backward", Grid::each(n), list)
            }
            Kind::AveragePool(table) => device.launch(
                "average_pool_backward",
                Grid::each(n),
                arguments![g, dx, self.table(*table), n, add],
            ),
            Kind::AdaptivePool(table) => device.launch(
                "adaptive_pool_backward",
                Grid::each(n),
                arguments![g, dx, self.table(*table), n, add],
            ),
            Kind::Upsample(table) => device.launch(
                "upsample_backward",
                Grid::each(n),
                arguments![g, dx, self.table(*table), n, add],
            ),
            Kind::Add => {
                for slot in 0..read.len() {
                    if let Some((dx, add)) = self.target(node, slot) {
                        device.launch("copy", Grid::fours(n), arguments![g, dx, n, add])?;
                    }
                }
                Ok(())
            }
            Kind::Multiply => {
                for slot in 0..read.len() {
                    if let Some((dx, add)) = self.target(node, slot) {
                        device.launch(
                            "multiply",
                            Grid::each(n),
                            arguments![g, read[1 - slot], dx, n, add],
                        )?;
                    }
                }
                Ok(())
            }
            Kind::Dropout { rate, together } => self.drop_values(node, (*rate, *together), (g, dx), add),
            Kind::Move(moves) => {
                for (slot, moved) in moves.iter().enumerate() {
                    let Some((dx, add)) = self.target(node, slot) else { continue };
                    let len = self.len(self.input(node, slot));
                    if !add && moved.len < len {
                        device.clear(dx, items * len)?;
                    }
                    self.move_box(
                        moved.back,
                        moved,
                        (g, self.len(node), moved.to),
                        (dx, len, moved.from),
                        add,
                    )?;
                }
                Ok(())
            }
            Kind::Gather { table, count, size, rows } => {
                let list = arguments![g, dx, self.table(*table), *count, *size, *rows, n, add];
                device.launch("gather_backward", Grid::each(n), list)
            }
            Kind::MatMul { batches, m, k, n, transpose } => {
                let count = items * batches;
                let (a, b) = (Side::new(x, *k, m * k), right(read[1], *k, *n, *transpose));
                let upstream = Side::new(g, *n, m * n);
                let keep = |add: bool| if add { 1.0 } else { 0.0 };
                if let Some((dx, add)) = self.target(node, 0) {
                    let turned = Side { transposed: !b.transposed, ..b };
                    device.product(
                        (*m, *n, *k),
                        (upstream, turned),
                        Side::new(dx, *k, m * k),
                        (1.0, keep(add)),
                        count,
                    )?;
                }
                match (self.target(node, 1), transpose) {
                    (Some((dx, add)), true) => {
                        let sides = (upstream.transposed(), a);
                        device.product((*n, *m, *k), sides, Side::new(dx, *k, k * n), (1.0, keep(add)), count)
                    }
                    (Some((dx, add)), false) => {
                        let sides = (a.transposed(), upstream);
                        device.product((*k, *m, *n), sides, Side::new(dx, *n, k * n), (1.0, keep(add)), count)
                    }
                    (None, _) => Ok(()),
                }
            }
            Kind::Softmax { features, rows } => {
                let rows = items * rows;
                let list = arguments![self.value(node), g, dx, *features, rows, 1.0f32, add];
                device.launch("softmax_backward", Grid::warps(rows), list)
            }
            Kind::Attention { heads, width, queries, keys } => {
                self.attention_backward(node, (*heads, *width), (*queries, *keys), &read)
            }
        }
    }

    fn attention_backward(
        &self,
        node: usize,
        (heads, width): (usize, usize),
        (queries, keys): (usize, usize),
        read: &[Pointer],
    ) -> Result<(), CudaError> {
        let (device, items, features) = (self.device, self.items(), heads * width);
        let (g, weights) = (self.gradient(node), self.kept(node));
        let scores = self.work.buffer(self.program.buffers[node].scratch);
        let stride = heads * queries * keys;
        let part = |pointer: Pointer, head: usize, rows: usize| {
            Side::new(pointer.at(head * width), features, rows * features)
        };
        let square =
            |pointer: Pointer, head: usize| Side::new(pointer.at(head * queries * keys), keys, stride);
        for head in 0..heads {
            let sides = (part(g, head, queries), part(read[2], head, keys).transposed());
            device.product((queries, width, keys), sides, square(scores, head), (1.0, 0.0), items)?;
        }
        let (rows, scale) = (items * heads * queries, 1.0 / (width as f32).sqrt());
        let list = arguments![weights, scores, scores, keys, rows, scale, false];
        device.launch("softmax_backward", Grid::warps(rows), list)?;
        for slot in 0..3 {
            let Some((target, add)) = self.target(node, slot) else { continue };
            let keep = if add { 1.0 } else { 0.0 };
            for head in 0..heads {
                let (rows, inner, sides) = match slot {
                    0 => (queries, keys, (square(scores, head), part(read[1], head, keys))),
                    1 => (keys, queries, (square(scores, head).transposed(), part(read[0], head, queries))),
                    _ => (keys, queries, (square(weights, head).transposed(), part(g, head, queries))),
                };
                device.product((rows, inner, width), sides, part(target, head, rows), (1.0, keep), items)?;
            }
        }
        Ok(())
    }
}
