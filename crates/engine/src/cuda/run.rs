//! Runs a planned graph over one microbatch: the forward pass, and what both passes share.

use cudarc::driver::CudaEvent;
use cudarc::driver::sys::CUevent_flags;
use dapple_graph::ParameterId;

use super::convolution::{self, Card, Choices};
use super::cudnn::{Direction, Tensors};
use super::device::{Device, Grid, Pointer, Side, arguments};
use super::error::{CudaError, call};
use super::kind::{Conv, Kind, Move};
use super::memory::{Model, Work};
use super::norm::Group;
use super::program::Program;
use super::sharing::Contribution;

/// Events between operations, where the executor is asked to measure itself.
pub(crate) type Marks = Option<Vec<(&'static str, CudaEvent)>>;

/// One microbatch on the card.
pub(crate) struct Run<'r> {
    pub(crate) device: &'r Device,
    pub(crate) program: &'r Program,
    pub(crate) model: &'r Model,
    pub(crate) work: &'r Work,
    pub(crate) choices: &'r mut Choices,
    pub(crate) marks: &'r mut Marks,
    /// The samples' inputs.
    pub(crate) inputs: Pointer,
    pub(crate) samples: usize,
    /// Whether dropout is on; its keys are on the card then.
    pub(crate) dropout: bool,
    /// Whether norms are wanted.
    pub(crate) norms: bool,
}

impl<'r> Run<'r> {
    pub(crate) fn items(&self) -> usize {
        self.samples * self.program.views
    }

    /// The value of a node.
    pub(crate) fn value(&self, node: usize) -> Pointer {
        match self.program.steps.kinds[node] {
            Some(Kind::Input) => self.inputs,
            _ => self.work.buffer(self.program.buffers[node].value),
        }
    }

    pub(crate) fn gradient(&self, node: usize) -> Pointer {
        self.work.buffer(self.program.buffers[node].gradient)
    }

    pub(crate) fn kept(&self, node: usize) -> Pointer {
        self.work.buffer(self.program.buffers[node].kept)
    }

    pub(crate) fn parameter(&self, id: ParameterId) -> Pointer {
        self.model.parameters.at(self.program.steps.parameters[id.index()])
    }

    pub(crate) fn optional(&self, id: Option<ParameterId>) -> Pointer {
        id.map_or(Pointer::NULL, |id| self.parameter(id))
    }

    pub(crate) fn table(&self, start: usize) -> Pointer {
        self.model.tables.at(start)
    }

    pub(crate) fn len(&self, node: usize) -> usize {
        self.program.steps.lens[node]
    }

    pub(crate) fn input(&self, node: usize, slot: usize) -> usize {
        self.program.steps.inputs[node][slot]
    }

    /// Where the gradient of an input goes, and whether it is added; `None` where none is wanted or it is there already.
    pub(crate) fn target(&self, node: usize, slot: usize) -> Option<(Pointer, bool)> {
        let input = self.input(node, slot);
        match self.program.contributions[node][slot]? {
            Contribution::Write => Some((self.gradient(input), false)),
            Contribution::Add => Some((self.gradient(input), true)),
            Contribution::Same => None,
        }
    }

    /// Ends the operation before, for the executor's account of itself.
    pub(crate) fn mark(&mut self, operation: &'static str) -> Result<(), CudaError> {
        if let Some(marks) = self.marks {
            let event = self.device.stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
            marks.push((operation, call("timing", event)?));
        }
        Ok(())
    }

    /// One of a convolution's directions.
    pub(crate) fn convolve(
        &mut self,
        node: usize,
        conv: &Conv,
        direction: Direction,
        tensors: Tensors,
        accumulate: bool,
    ) -> Result<(), CudaError> {
        let (card, items) = (self.card(), self.items());
        self.choices.run(card, node, conv, direction, tensors, items, accumulate)
    }

    pub(crate) fn card(&self) -> Card<'r> {
        Card { device: self.device, model: self.model, work: self.work }
    }

    pub(crate) fn weight(&self, conv: &Conv) -> Pointer {
        convolution::weight(self.program.steps.parameters[conv.weight.index()], conv, self.model)
    }

    /// Copies a box of values of every item.
    pub(crate) fn move_box(
        &self,
        table: usize,
        moved: &Move,
        (from, from_len, from_start): (Pointer, usize, usize),
        (to, to_len, to_start): (Pointer, usize, usize),
        accumulate: bool,
    ) -> Result<(), CudaError> {
        let (kernel, together) = if moved.fours { ("move_four", 4) } else { ("move", 1) };
        let n = self.items() * moved.len / together;
        self.device.launch(
            kernel,
            Grid::each(n),
            arguments![
                from,
                to,
                self.table(table),
                from_len / together,
                to_len / together,
                from_start / together,
                to_start / together,
                moved.len / together,
                n,
                accumulate
            ],
        )
    }

    /// Values of all nodes.
    pub(crate) fn forward(&mut self) -> Result<(), CudaError> {
        let program = self.program;
        for node in 0..program.steps.kinds.len() {
            if let Some(kind) = program.steps.kinds[node].as_ref().filter(|_| program.runs[node]) {
                self.forward_step(node, kind)?;
                self.mark(name(kind, false))?;
            }
        }
        Ok(())
    }

    fn forward_step(&mut self, node: usize, kind: &Kind) -> Result<(), CudaError> {
        let (device, items) = (self.device, self.items());
        let y = self.value(node);
        let n = items * self.len(node);
        let read: Vec<Pointer> =
            self.program.steps.inputs[node].iter().map(|&input| self.value(input)).collect();
        let x = read.first().copied().unwrap_or_default();
        let each = Grid::each(n);
        match kind {
            Kind::Input => Ok(()),
            Kind::Parameter(id) => {
                device.launch("broadcast", each, arguments![self.parameter(*id), y, self.len(node), n])
            }
            Kind::Conv(conv) => {
                let tensors = Tensors { input: x, weight: self.weight(conv), output: y };
                self.convolve(node, conv, Direction::Forward, tensors, false)?;
                let (out, positions) = (conv.geometry.out, conv.geometry.positions());
                match conv.bias {
                    Some(bias) => device.launch(
                        "add_bias",
                        each,
                        arguments![y, self.parameter(bias), out, positions, n],
                    ),
                    None => Ok(()),
                }
            }
            Kind::Linear { weight, bias, rows, features, out } => {
                let (a, b) = (
                    Side::new(x, *features, 0),
                    Side::new(self.parameter(*weight), *features, 0).transposed(),
                );
                device.product(
                    (items * rows, *features, *out),
                    (a, b),
                    Side::new(y, *out, 0),
                    (1.0, 0.0),
                    1,
                )?;
                match bias {
                    Some(bias) => {
                        device.launch("add_bias", each, arguments![y, self.parameter(*bias), *out, 1, n])
                    }
                    None => Ok(()),
                }
            }
            Kind::Group { groups, size, inner, eps, affine, stored, relu, .. } => {
                let group = Group { size: *size, inner: *inner };
                let (grid, holds) = group.forward(items * groups, stored.is_some(), device.shared);
                device.launch(
                    "group_forward",
                    grid,
                    arguments![
                        x,
                        read.get(1).copied().unwrap_or_default(),
                        y,
                        self.kept(node),
                        self.optional(affine.map(|a| a.weight)),
                        self.optional(affine.map(|a| a.bias)),
                        self.optional(stored.map(|(mean, _)| mean)),
                        self.optional(stored.map(|(_, variance)| variance)),
                        *groups,
                        *size,
                        *inner,
                        *eps,
                        *relu,
                        holds,
                    ],
                )
            }
            Kind::Layer { features, rows, eps, affine } => {
                let rows = items * rows;
                let (weight, bias) = (affine.map(|a| a.weight), affine.map(|a| a.bias));
                let affine = (self.optional(weight), self.optional(bias));
                let kept = self.kept(node);
                device.launch(
                    "layer_forward",
                    Grid::warps(rows),
                    arguments![x, y, kept, affine.0, affine.1, *features, rows, *eps],
                )
            }
            Kind::Unary { code, factor } => {
                device.launch("unary", Grid::fours(n), arguments![*code, x, y, n, *factor])
            }
            Kind::MaxPool(table) => {
                device.launch("max_pool", each, arguments![x, y, self.kept(node), self.table(*table), n])
            }
            Kind::AveragePool(table) => {
                device.launch("average_pool", each, arguments![x, y, self.table(*table), n])
            }
            Kind::AdaptivePool(table) => {
                device.launch("adaptive_pool", Grid::warps(n), arguments![x, y, self.table(*table), n])
            }
            Kind::Upsample(table) => device.launch("upsample", each, arguments![x, y, self.table(*table), n]),
            Kind::Add => device.launch("add", Grid::fours(n), arguments![x, read[1], y, n]),
            Kind::Multiply => device.launch("multiply", each, arguments![x, read[1], y, n, false]),
            Kind::Dropout { rate, together } => self.drop_values(node, (*rate, *together), (x, y), false),
            Kind::Move(moves) => {
                for (slot, moved) in moves.iter().enumerate() {
                    let from = (read[slot], self.len(self.input(node, slot)), moved.from);
                    self.move_box(moved.table, moved, from, (y, self.len(node), moved.to), false)?;
                }
                Ok(())
            }
            Kind::Gather { table, count, size, rows } => device.launch(
                "gather",
                each,
                arguments![x, y, self.table(*table), *count, *size, rows * size, n],
            ),
            Kind::MatMul { batches, m, k, n, transpose } => {
                let (a, b) = (Side::new(x, *k, m * k), right(read[1], *k, *n, *transpose));
                device.product((*m, *k, *n), (a, b), Side::new(y, *n, m * n), (1.0, 0.0), items * batches)
            }
            Kind::Softmax { features, rows } => {
                let rows = items * rows;
                device.launch("softmax", Grid::warps(rows), arguments![x, y, *features, rows, 1.0f32])
            }
            Kind::Attention { heads, width, queries, keys } => {
                let (features, weights) = (heads * width, self.kept(node));
                let scale = 1.0 / (*width as f32).sqrt();
                let one = (1.0, 0.0);
                let stride = heads * queries * keys;
                for head in 0..*heads {
                    let part = |pointer: Pointer, rows: usize| {
                        Side::new(pointer.at(head * width), features, rows * features)
                    };
                    let scores = Side::new(weights.at(head * queries * keys), *keys, stride);
                    let sides = (part(read[0], *queries), part(read[1], *keys).transposed());
                    device.product((*queries, *width, *keys), sides, scores, one, items)?;
                }
                let rows = items * heads * queries;
                device.launch(
                    "softmax",
                    Grid::warps(rows),
                    arguments![weights, weights, *keys, rows, scale],
                )?;
                for head in 0..*heads {
                    let part = |pointer: Pointer, rows: usize| {
                        Side::new(pointer.at(head * width), features, rows * features)
                    };
                    let weights = Side::new(weights.at(head * queries * keys), *keys, stride);
                    let sides = (weights, part(read[2], *keys));
                    device.product((*queries, *keys, *width), sides, part(y, *queries), one, items)?;
                }
                Ok(())
            }
        }
    }

    /// Drops values, forward or backward; with dropout off it copies.
    pub(crate) fn drop_values(
        &self,
        node: usize,
        (rate, together): (f32, usize),
        (from, to): (Pointer, Pointer),
        accumulate: bool,
    ) -> Result<(), CudaError> {
        let len = self.len(node);
        let n = self.items() * len;
        if self.dropout {
            let keys = self.work.keys;
            self.device.launch(
                "dropout",
                Grid::each(n),
                arguments![from, to, keys, node, len, together, rate, n, accumulate],
            )
        } else {
            self.device.launch("copy", Grid::fours(n), arguments![from, to, n, accumulate])
        }
    }
}

/// The right side of a matrix product.
pub(crate) fn right(data: Pointer, k: usize, n: usize, transpose: bool) -> Side {
    if transpose { Side::new(data, k, k * n).transposed() } else { Side::new(data, n, k * n) }
}

/// The name under which an operation's time is reported.
pub(crate) fn name(kind: &Kind, backward: bool) -> &'static str {
    match (kind, backward) {
        (Kind::Conv(_), false) => "convolution forward",
        (Kind::Conv(_), true) => "convolution data gradient",
        (Kind::Linear { .. }, _) => "linear",
        (Kind::Group { .. } | Kind::Layer { .. }, false) => "norm forward",
        (Kind::Group { .. } | Kind::Layer { .. }, true) => "norm backward",
        (Kind::Attention { .. } | Kind::MatMul { .. } | Kind::Softmax { .. }, _) => "attention",
        (Kind::Add, _) => "add",
        _ => "other",
    }
}
