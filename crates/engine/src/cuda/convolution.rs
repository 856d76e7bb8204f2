//! How each convolution runs: by cuDNN or by a kernel of our own, whichever was measured to be faster.

use std::collections::BTreeMap;

use cudarc::driver::sys::CUevent_flags;

use super::Convolutions;
use super::cudnn::{Algorithm, Descriptors, Direction, Tensors};
use super::device::{Device, Grid, Pointer, Side, arguments};
use super::error::{CudaError, call};
use super::lower::{Conv, Kind, Tiled};
use super::memory::{Model, Work};
use super::program::Program;
use super::tile::FILTERS;

/// Weights that one block of the weight gradient without a tiling computes for 64 filters.
const TILE_COLUMNS: usize = 128;
/// Bytes of its shared memory: two stages of tiles, padded as in the kernel.
const WEIGHT_SHARED: u32 = 2 * 4 * (64 + 128) * 36;
/// Blocks of threads that keep a large card busy, and the fewest steps worth a block.
const BUSY: usize = 800;
const STEPS: usize = 8;
/// Positions of one step.
const STEP: usize = 32;
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
    /// A matrix product, of a window of one position.
    Product,
    /// A matrix product with the unfolded image.
    Unfolded,
}

/// What stands for each sample's weight gradient among the directions.
const SAMPLES: u8 = 3;

/// All choices of a program, and descriptors of the batch sizes seen.
#[derive(Debug, Default)]
pub(crate) struct Choices {
    /// By node and direction, with milliseconds of the microbatch it was measured with.
    chosen: BTreeMap<(usize, u8), (Choice, f32)>,
    /// By node, items, and whether factors may be rounded.
    descriptors: BTreeMap<(usize, usize, bool), Descriptors>,
    /// Whether the forward pass and the data gradient may round factors.
    pub(crate) rounds: bool,
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

    /// Whether a matrix product may stand for a convolution.
    fn allows_product(&self, conv: &Conv) -> bool {
        conv.geometry.is_pointwise() && self.who == Convolutions::Fastest
    }

    /// What was chosen, for reports: node, direction, choice and milliseconds.
    pub(crate) fn list(&self) -> impl Iterator<Item = (usize, u8, Choice, f32)> + '_ {
        self.chosen.iter().map(|(&(node, direction), &(choice, time))| (node, direction, choice, time))
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
            } else if self.who == Convolutions::Fastest && program.written >= conv.geometry.weight_len() {
                let sides = (value(input), output);
                let target = (work.written, program.written);
                let sizes = (work.samples, program.views);
                let mut best = (Choice::Own, f32::INFINITY);
                for choice in [Choice::Own, Choice::Product, Choice::Unfolded] {
                    let possible = match choice {
                        Choice::Product => conv.geometry.is_pointwise(),
                        Choice::Unfolded => unfolds(card, conv),
                        _ => true,
                    };
                    if possible {
                        let run = || sample_gradients(choice, card, conv, sides, target, sizes);
                        let taken = time(device, run)?;
                        best = if taken < best.1 { (choice, taken) } else { best };
                    }
                }
                self.chosen.insert((node, SAMPLES), best);
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
        let (rounds, who) = (self.may_round(direction), self.who);
        let workspace = (work.workspace, work.workspace_bytes);
        let descriptors = self.descriptors(node, conv, direction, items)?;
        // Where nobody's time decides, every process chooses alike.
        let measured = match who {
            Convolutions::Own => None,
            _ => device.cudnn.measure(direction, descriptors, tensors, workspace, rounds),
        };
        let theirs = measured
            .map_or((Algorithm::plain(direction), f32::INFINITY), |(algorithm, time, _)| (algorithm, time));
        let (mut choice, mut best) = (Choice::Cudnn(theirs.0), theirs.1);
        if self.allows_own(conv, direction) {
            let ours = time(device, || run_own(card, conv, direction, tensors, items, false))?;
            if ours < best || who == Convolutions::Own {
                (choice, best) = (Choice::Own, ours);
            }
        }
        if self.allows_product(conv) && direction != Direction::Filter {
            let product = time(device, || run_product(card, conv, direction, tensors, items, false))?;
            if product < best {
                (choice, best) = (Choice::Product, product);
            }
        }
        self.chosen.insert((node, direction as u8), (choice, best));
        Ok(())
    }

    /// Writes down every sample's weight gradient.
    pub(crate) fn weight_gradient(
        &self,
        card: Card<'_>,
        (node, conv): (usize, &Conv),
        sides: (Pointer, Pointer),
        target: (Pointer, usize),
        sizes: (usize, usize),
    ) -> Result<(), CudaError> {
        let choice = self.chosen.get(&(node, SAMPLES)).map_or(Choice::Own, |(choice, _)| *choice);
        sample_gradients(choice, card, conv, sides, target, sizes)
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
        let algorithm = match self.chosen.get(&(node, direction as u8)).map(|(choice, _)| choice) {
            Some(Choice::Own | Choice::Unfolded) => return ours(),
            Some(Choice::Product) => return run_product(card, conv, direction, tensors, items, accumulate),
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

/// Milliseconds of a run, after one to warm up.
fn time(device: &Device, run: impl Fn() -> Result<(), CudaError>) -> Result<f32, CudaError> {
    run()?;
    let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
    let start = call("timing", device.stream.record_event(flags))?;
    (0..RUNS).try_for_each(|_| run())?;
    let end = call("timing", device.stream.record_event(flags))?;
    Ok(call("timing", start.elapsed_ms(&end))? / RUNS as f32)
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

/// A direction as one matrix product for each item: `y = w x`, or `dx = w^T g`.
fn run_product(
    card: Card<'_>,
    conv: &Conv,
    direction: Direction,
    tensors: Tensors,
    items: usize,
    accumulate: bool,
) -> Result<(), CudaError> {
    let (out, channels, positions) = (conv.geometry.out, conv.geometry.channels, conv.geometry.positions());
    let weight = Side::new(tensors.weight, channels, 0);
    let input = Side::new(tensors.input, positions, channels * positions);
    let output = Side::new(tensors.output, positions, out * positions);
    let factors = (1.0, if accumulate { 1.0 } else { 0.0 });
    match direction {
        Direction::Data => {
            let sides = (weight.transposed(), output);
            card.device.product((channels, out, positions), sides, input, factors, items)
        }
        _ => card.device.product((out, channels, positions), (weight, input), output, factors, items),
    }
}

/// Every sample's weight gradient as one matrix product for each view: `dw = g x^T`.
fn weight_product(
    card: Card<'_>,
    conv: &Conv,
    (input, gradient): (Pointer, Pointer),
    (target, stride): (Pointer, usize),
    (samples, views): (usize, usize),
) -> Result<(), CudaError> {
    let (out, channels, positions) = (conv.geometry.out, conv.geometry.channels, conv.geometry.positions());
    for view in 0..views {
        let side = |start: Pointer, rows: usize| {
            let len = rows * positions;
            Side::new(start.at(view * len), positions, views * len)
        };
        let sides = (side(gradient, out), side(input, channels).transposed());
        let factors = (1.0, if view > 0 { 1.0 } else { 0.0 });
        let target = Side::new(target, channels, stride);
        card.device.product((out, positions, channels), sides, target, factors, samples)?;
    }
    Ok(())
}

/// Every sample's weight gradient in one of the ways there are.
fn sample_gradients(
    choice: Choice,
    card: Card<'_>,
    conv: &Conv,
    sides: (Pointer, Pointer),
    target: (Pointer, usize),
    sizes: (usize, usize),
) -> Result<(), CudaError> {
    match choice {
        Choice::Product => weight_product(card, conv, sides, target, sizes),
        Choice::Unfolded => weight_unfolded(card, conv, sides, target, sizes),
        _ => weight_gradient(card, conv, sides, target, sizes),
    }
}

/// Rows that a block of threads unfolds, as its kernel has it.
const UNFOLDED_ROWS: usize = 16;
/// Rows of a grid.
const MOST_ROWS: usize = 65_535;

/// Whether an image can be unfolded in the workspace.
fn unfolds(card: Card<'_>, conv: &Conv) -> bool {
    let geometry = &conv.geometry;
    let rows = geometry.inner().max(geometry.out);
    geometry.groups == 1 && rows <= MOST_ROWS && 4 * geometry.unfolded_len() <= card.work.workspace_bytes
}

/// Every sample's weight gradient as one matrix product of the output's gradient with the unfolded image, as many samples at a time as
/// the workspace has room for.
fn weight_unfolded(
    card: Card<'_>,
    conv: &Conv,
    (input, gradient): (Pointer, Pointer),
    (target, stride): (Pointer, usize),
    (samples, views): (usize, usize),
) -> Result<(), CudaError> {
    let Card { device, model, work } = card;
    let geometry = &conv.geometry;
    let (inner, out, positions, pitch) =
        (geometry.inner(), geometry.out, geometry.positions(), geometry.unfolded_pitch());
    let together = (work.workspace_bytes / (4 * geometry.unfolded_len())).clamp(1, MOST_ROWS);
    let (image, plane) = (geometry.channels * geometry.positions_in(), out * positions);
    let unfold = |from: Pointer, to: Pointer, window: usize, rows: usize, taps: usize, len: usize, count| {
        let blocks = (pitch.div_ceil(256) as u32, rows.div_ceil(UNFOLDED_ROWS) as u32, count as u32);
        let list = arguments![from, to, model.tables.at(window), views * len, taps, rows, positions, pitch];
        device.launch("unfold", Grid { blocks, threads: 256, shared: 0 }, list)
    };
    for first in (0..samples).step_by(together) {
        let count = together.min(samples - first);
        let columns = work.workspace;
        let padded = columns.at(count * inner * pitch);
        for view in 0..views {
            let item = first * views + view;
            unfold(input.at(item * image), columns, conv.windows.0, inner, geometry.taps(), image, count)?;
            let mut left = Side::new(gradient.at(item * plane), positions, views * plane);
            // Rows that four does not divide are multiplied slowly.
            if pitch != positions {
                unfold(left.data, padded, conv.windows.1, out, 1, plane, count)?;
                left = Side::new(padded, pitch, out * pitch);
            }
            let sides = (left, Side::new(columns, pitch, inner * pitch).transposed());
            let to = Side::new(target.at(first * stride), inner, stride);
            let factors = (1.0, if view > 0 { 1.0 } else { 0.0 });
            device.product((out, pitch, inner), sides, to, factors, count)?;
        }
    }
    Ok(())
}

/// Every sample's weight gradient by our own kernels.
fn weight_gradient(
    card: Card<'_>,
    conv: &Conv,
    (input, gradient): (Pointer, Pointer),
    (target, stride): (Pointer, usize),
    (samples, views): (usize, usize),
) -> Result<(), CudaError> {
    let Card { device, model, work } = card;
    let geometry = &conv.geometry;
    let (out, channels) = (geometry.out / geometry.groups, geometry.channels / geometry.groups);
    let filters = geometry.groups * out.div_ceil(FILTERS);
    let columns = match &conv.gradient_tile {
        Some(tiled) => tiled.tile.blocks,
        None => geometry.inner().div_ceil(TILE_COLUMNS),
    };
    let len = geometry.weight_len();
    let steps = views * geometry.positions().div_ceil(STEP);
    let room = work.workspace_bytes / (4 * len * samples).max(1);
    let parts = parts(columns * filters * samples, steps).min(room.max(1));
    let (to, to_stride) = if parts == 1 { (target, stride) } else { (work.workspace, len) };
    let blocks = (columns as u32, filters as u32, (samples * parts) as u32);
    match &conv.gradient_tile {
        Some(tiled) => {
            let kernel = match tiled.tile.fragments {
                1 => "image_weight_gradient_1",
                5 => "image_weight_gradient_5",
                _ => "image_weight_gradient_9",
            };
            let grid = Grid { blocks, threads: 256, shared: tiled.tile.shared as u32 };
            let (table, offsets) = (&tiled.tile.table, model.tables.at(tiled.offsets));
            let list = arguments![gradient, input, to, table, offsets, to_stride, views, parts];
            device.launch(kernel, grid, list)?;
        }
        None => device.launch(
            "weight_gradient",
            Grid { blocks, threads: 128, shared: WEIGHT_SHARED },
            arguments![
                gradient,
                input,
                to,
                model.tables.at(conv.tables.0),
                model.tables.at(conv.tables.1),
                to_stride,
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
                parts,
            ],
        )?,
    }
    if parts == 1 {
        return Ok(());
    }
    let n = samples * len;
    device.launch("sum_parts", Grid::each(n), arguments![to, target, stride, len, parts, n])
}

/// Into how many parts a sample's positions are cut, so that the card has work everywhere.
fn parts(blocks: usize, steps: usize) -> usize {
    (BUSY / blocks.max(1)).min(steps / STEPS).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_blocks_with_many_steps_are_cut() {
        assert_eq!(parts(2048, 32), 1);
        assert_eq!(parts(4, 2001), 200);
        assert_eq!(parts(4, 40), 5);
        assert_eq!(parts(0, 0), 1);
    }
}
