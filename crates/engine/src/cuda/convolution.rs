//! How each convolution runs: by cuDNN or by a kernel of our own, whichever was measured to be faster.

use std::collections::BTreeMap;

use cudarc::driver::sys::CUevent_flags;

use super::Convolutions;
use super::cudnn::{Algorithm, Descriptors, Direction, Tensors};
use super::device::{Device, Grid, Pointer, arguments};
use super::error::{CudaError, call};
use super::lower::{Conv, Kind, Tiled};
use super::memory::{Model, Work};
use super::program::Program;
use super::tile::FILTERS;

/// Weights that one block of the weight gradient without a tiling computes for 64 filters.
const TILE_COLUMNS: usize = 128;
/// Bytes of its shared memory: two stages of tiles, padded as in the kernel.
const WEIGHT_SHARED: u32 = 2 * 4 * (64 + 128) * 36;
/// Batch sizes whose descriptors are kept.
const KEPT_SIZES: usize = 8;
/// Runs of our kernel that are timed together.
const RUNS: usize = 3;

/// A card with a model and memory to work in.
#[derive(Clone, Copy)]
pub(crate) struct Card<'c> {
    pub(crate) device: &'c Device,
    pub(crate) model: &'c Model,
    pub(crate) work: &'c Work,
}

/// The way one direction of a convolution runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    Own,
    Cudnn(Algorithm),
}

/// All choices of a program, and descriptors of the batch sizes seen.
#[derive(Debug, Default)]
pub(crate) struct Choices {
    chosen: BTreeMap<(usize, u8), Choice>,
    /// By node, items, and whether factors may be rounded.
    descriptors: BTreeMap<(usize, usize, bool), Descriptors>,
    /// Whether the forward pass and the data gradient may round factors.
    rounds: bool,
    who: Convolutions,
    /// Samples with which the choices were measured.
    pub(crate) measured: usize,
}

impl Choices {
    pub(crate) fn new(rounds: bool, who: Convolutions) -> Self {
        Self { rounds, who, ..Self::default() }
    }

    /// Whether our kernels may run a direction.
    fn allows_own(&self, conv: &Conv, direction: Direction) -> bool {
        !tiled(conv, direction).is_empty() && self.who != Convolutions::Cudnn
    }

    /// What was chosen, for reports: node, direction, choice.
    pub(crate) fn list(&self) -> impl Iterator<Item = (usize, u8, Choice)> + '_ {
        self.chosen.iter().map(|(&(node, direction), &choice)| (node, direction, choice))
    }

    /// Whether a direction may round factors. The sum of deferred layers may not: their norms are made apart from it, and both must be
    /// of the same gradient.
    fn may_round(&self, direction: Direction) -> bool {
        self.rounds && direction != Direction::Filter
    }

    fn descriptors(
        &mut self,
        node: usize,
        conv: &Conv,
        direction: Direction,
        items: usize,
    ) -> Result<&Descriptors, CudaError> {
        if self.descriptors.keys().filter(|(other, ..)| *other == node).count() > KEPT_SIZES {
            self.descriptors.retain(|(other, ..), _| *other != node);
        }
        let rounds = self.may_round(direction);
        let made = match self.descriptors.remove(&(node, items, rounds)) {
            Some(made) => made,
            None => Descriptors::new(&conv.geometry, items, rounds)?,
        };
        Ok(self.descriptors.entry((node, items, rounds)).or_insert(made))
    }

    /// Measures both ways of every convolution of a program, in memory that holds nothing yet.
    pub(crate) fn measure(&mut self, card: Card<'_>, program: &Program) -> Result<(), CudaError> {
        let Card { device, model, work } = card;
        self.chosen.clear();
        self.measured = work.samples;
        let items = work.samples * program.views;
        let steps = &program.steps;
        for node in 0..steps.kinds.len() {
            let Some(Kind::Conv(conv)) = &steps.kinds[node] else { continue };
            let input = steps.inputs[node][0];
            let value = |node: usize| match steps.kinds[node] {
                Some(Kind::Input) => work.inputs[0],
                _ => work.buffer(program.buffers[node].value),
            };
            let weight = weight(steps.parameters[conv.weight.index()], conv, model);
            let tensors = Tensors { input: value(input), weight, output: value(node) };
            self.choose(card, node, conv, Direction::Forward, tensors, items)?;
            if !steps.needs_gradient[node] {
                continue;
            }
            let output = work.buffer(program.buffers[node].gradient);
            if steps.needs_gradient[input] {
                let tensors = Tensors { input: work.buffer(program.buffers[input].gradient), weight, output };
                self.choose(card, node, conv, Direction::Data, tensors, items)?;
            }
            if program.deferred[node] {
                let sum = device.allocate(conv.geometry.weight_len())?;
                let weight = super::device::address(&sum, &device.stream);
                let tensors = Tensors { input: value(input), weight, output };
                self.choose(card, node, conv, Direction::Filter, tensors, items)?;
            }
        }
        Ok(())
    }

    fn choose(
        &mut self,
        card: Card<'_>,
        node: usize,
        conv: &Conv,
        direction: Direction,
        tensors: Tensors,
        items: usize,
    ) -> Result<(), CudaError> {
        let Card { device, work, .. } = card;
        let rounds = self.may_round(direction);
        let workspace = (work.workspace, work.workspace_bytes);
        let descriptors = self.descriptors(node, conv, direction, items)?;
        let measured = device.cudnn.measure(direction, descriptors, tensors, workspace, rounds);
        let theirs = measured
            .map_or((Algorithm::plain(direction), f32::INFINITY), |(algorithm, time, _)| (algorithm, time));
        let mut choice = Choice::Cudnn(theirs.0);
        if self.allows_own(conv, direction) {
            let run = || run_own(card, conv, direction, tensors, items, false);
            run()?;
            let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
            let start = call("timing", device.stream.record_event(flags))?;
            (0..RUNS).try_for_each(|_| run())?;
            let end = call("timing", device.stream.record_event(flags))?;
            let ours = call("timing", start.elapsed_ms(&end))? / RUNS as f32;
            if ours < theirs.1 || self.who == Convolutions::Own {
                choice = Choice::Own;
            }
        }
        self.chosen.insert((node, direction as u8), choice);
        Ok(())
    }

    /// Runs one direction of a convolution.
    pub(crate) fn run(
        &mut self,
        card: Card<'_>,
        node: usize,
        conv: &Conv,
        direction: Direction,
        tensors: Tensors,
        items: usize,
        accumulate: bool,
    ) -> Result<(), CudaError> {
        let Card { device, work, .. } = card;
        let ours = || run_own(card, conv, direction, tensors, items, accumulate);
        let allows_own = self.allows_own(conv, direction);
        let algorithm = match self.chosen.get(&(node, direction as u8)) {
            Some(Choice::Own) => return ours(),
            // Never measured: a forward pass before any training.
            None if allows_own => return ours(),
            None => Algorithm::plain(direction),
            Some(Choice::Cudnn(algorithm)) => *algorithm,
        };
        let descriptors = self.descriptors(node, conv, direction, items)?;
        // Measured for a step's microbatch: another size, or a forward pass alone, may have too little workspace.
        let fits = |algorithm| {
            device.cudnn.workspace(algorithm, descriptors).filter(|&bytes| bytes <= work.workspace_bytes)
        };
        let (algorithm, bytes) = match fits(algorithm) {
            Some(bytes) => (algorithm, bytes),
            None if allows_own => return ours(),
            None => {
                let plain = Algorithm::plain(direction);
                (plain, fits(plain).unwrap_or(0))
            }
        };
        device.cudnn.run(algorithm, descriptors, tensors, (work.workspace, bytes), accumulate)
    }
}

/// The weights that a convolution multiplies by.
pub(crate) fn weight(start: usize, conv: &Conv, model: &Model) -> Pointer {
    match conv.used {
        Some((used, _)) => model.used.at(used),
        None => model.parameters.at(start),
    }
}

/// The tilings of a direction; none where our kernels have no way.
fn tiled(conv: &Conv, direction: Direction) -> &[Tiled] {
    match direction {
        Direction::Forward => conv.forward_tile.as_slice(),
        Direction::Data => conv.backward_tiles.as_deref().unwrap_or(&[]),
        Direction::Filter => &[],
    }
}

fn run_own(
    card: Card<'_>,
    conv: &Conv,
    direction: Direction,
    tensors: Tensors,
    items: usize,
    accumulate: bool,
) -> Result<(), CudaError> {
    let Card { device, model, .. } = card;
    let geometry = &conv.geometry;
    let (rows, source, target) = match direction {
        Direction::Data => (geometry.channels, tensors.output, tensors.input),
        _ => (geometry.out, tensors.input, tensors.output),
    };
    let tiles = tiled(conv, direction);
    // A stride larger than the window passes some inputs by.
    if direction == Direction::Data && !accumulate && tiles.len() < geometry.stride.iter().product() {
        device.clear(target, items * rows * geometry.positions_in())?;
    }
    let filters = (rows / geometry.groups).div_ceil(FILTERS);
    for tiled in tiles {
        let blocks = (tiled.tile.tiles(items) as u32, filters as u32, geometry.groups as u32);
        device.launch(
            "image_convolve",
            Grid { blocks, threads: 256, shared: tiled.tile.shared as u32 },
            arguments![
                model.arranged.at(tiled.arranged),
                source,
                target,
                &tiled.tile.table,
                items,
                accumulate,
            ],
        )?;
    }
    Ok(())
}

/// Writes down every sample's weight gradient.
pub(crate) fn weight_gradient(
    card: Card<'_>,
    conv: &Conv,
    (input, gradient): (Pointer, Pointer),
    (target, stride): (Pointer, usize),
    (samples, views): (usize, usize),
) -> Result<(), CudaError> {
    let Card { device, model, .. } = card;
    let geometry = &conv.geometry;
    let (out, channels) = (geometry.out / geometry.groups, geometry.channels / geometry.groups);
    let filters = geometry.groups * out.div_ceil(FILTERS);
    if let Some(tiled) = &conv.gradient_tile {
        let kernel = match tiled.tile.fragments {
            1 => "image_weight_gradient_1",
            5 => "image_weight_gradient_5",
            _ => "image_weight_gradient_9",
        };
        let blocks = (tiled.tile.blocks as u32, filters as u32, samples as u32);
        let grid = Grid { blocks, threads: 256, shared: tiled.tile.shared as u32 };
        let (table, offsets) = (&tiled.tile.table, model.tables.at(tiled.offsets));
        return device.launch(
            kernel,
            grid,
            arguments![gradient, input, target, table, offsets, stride, views],
        );
    }
    let blocks = (geometry.inner().div_ceil(TILE_COLUMNS) as u32, filters as u32, samples as u32);
    device.launch(
        "weight_gradient",
        Grid { blocks, threads: 128, shared: WEIGHT_SHARED },
        arguments![
            gradient,
            input,
            target,
            model.tables.at(conv.tables.0),
            model.tables.at(conv.tables.1),
            stride,
            out,
            geometry.inner(),
            geometry.positions(),
            geometry.positions_in(),
            geometry.input[0],
            geometry.input[1],
            geometry.input[2],
            geometry.groups,
            channels,
            views,
        ],
    )
}
