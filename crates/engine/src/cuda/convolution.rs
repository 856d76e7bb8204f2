//! How each convolution runs: by cuDNN or by a kernel of our own, whichever was measured to be faster.

use std::collections::BTreeMap;

use cudarc::driver::sys::CUevent_flags;

use super::Convolutions;
use super::cudnn::{Algorithm, Descriptors, Direction, Tensors};
use super::device::{Device, Grid, Pointer, arguments};
use super::error::{CudaError, call};
use super::lower::{Conv, Kind};
use super::memory::{Model, Work};
use super::program::Program;

/// Rows and columns of the tile that one block of our kernels computes.
const TILE_ROWS: usize = 64;
const TILE_COLUMNS: usize = 128;
/// Bytes of shared memory of the two kernels: two stages of tiles, padded as in the kernels.
const CONVOLVE_SHARED: u32 = 2 * 4 * (64 * 36 + 32 * 136);
const WEIGHT_SHARED: u32 = 2 * 4 * (64 + 128) * 36;
/// Batch sizes whose descriptors are kept.
const KEPT_SIZES: usize = 8;
/// Runs of our kernel that are timed together.
const RUNS: usize = 3;

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
    descriptors: BTreeMap<(usize, usize), Descriptors>,
    pub(crate) tf32: bool,
    who: Convolutions,
    /// Samples with which the choices were measured.
    pub(crate) measured: usize,
}

impl Choices {
    pub(crate) fn new(tf32: bool, who: Convolutions) -> Self {
        Self { tf32, who, ..Self::default() }
    }

    /// Whether our kernels may run a direction.
    fn allows_own(&self, conv: &Conv, direction: Direction) -> bool {
        own(conv, direction) && self.who != Convolutions::Cudnn
    }

    /// What was chosen, for reports: node, direction, choice.
    pub(crate) fn list(&self) -> impl Iterator<Item = (usize, u8, Choice)> + '_ {
        self.chosen.iter().map(|(&(node, direction), &choice)| (node, direction, choice))
    }

    fn descriptors(&mut self, node: usize, conv: &Conv, items: usize) -> Result<&Descriptors, CudaError> {
        if self.descriptors.keys().filter(|(other, _)| *other == node).count() > KEPT_SIZES {
            self.descriptors.retain(|(other, _), _| *other != node);
        }
        let made = match self.descriptors.remove(&(node, items)) {
            Some(made) => made,
            None => Descriptors::new(&conv.geometry, items, self.tf32)?,
        };
        Ok(self.descriptors.entry((node, items)).or_insert(made))
    }

    /// Measures both ways of every convolution of a program, in memory that holds nothing yet.
    pub(crate) fn measure(
        &mut self,
        device: &Device,
        program: &Program,
        model: &Model,
        work: &Work,
    ) -> Result<(), CudaError> {
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
            self.choose(device, node, conv, Direction::Forward, tensors, items, (model, work))?;
            if !steps.needs_gradient[node] {
                continue;
            }
            let output = work.buffer(program.buffers[node].gradient);
            if steps.needs_gradient[input] {
                let tensors = Tensors { input: work.buffer(program.buffers[input].gradient), weight, output };
                self.choose(device, node, conv, Direction::Data, tensors, items, (model, work))?;
            }
            if program.deferred[node] {
                let sum = device.allocate(conv.geometry.weight_len())?;
                let weight = super::device::address(&sum, &device.stream);
                let tensors = Tensors { input: value(input), weight, output };
                self.choose(device, node, conv, Direction::Filter, tensors, items, (model, work))?;
            }
        }
        Ok(())
    }

    fn choose(
        &mut self,
        device: &Device,
        node: usize,
        conv: &Conv,
        direction: Direction,
        tensors: Tensors,
        items: usize,
        (model, work): (&Model, &Work),
    ) -> Result<(), CudaError> {
        let tf32 = self.tf32;
        let workspace = (work.workspace, work.workspace_bytes);
        let descriptors = self.descriptors(node, conv, items)?;
        let measured = device.cudnn.measure(direction, descriptors, tensors, workspace, tf32);
        let theirs = measured
            .map_or((Algorithm::plain(direction), f32::INFINITY), |(algorithm, time, _)| (algorithm, time));
        let mut choice = Choice::Cudnn(theirs.0);
        if self.allows_own(conv, direction) {
            let run = || run_own(device, conv, direction, tensors, items, model, false, tf32);
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
        device: &Device,
        node: usize,
        conv: &Conv,
        direction: Direction,
        tensors: Tensors,
        items: usize,
        (model, work): (&Model, &Work),
        accumulate: bool,
    ) -> Result<(), CudaError> {
        let choice = self.chosen.get(&(node, direction as u8)).copied();
        let tf32 = self.tf32;
        let algorithm = match choice {
            Some(Choice::Own) => {
                return run_own(device, conv, direction, tensors, items, model, accumulate, tf32);
            }
            // Never measured: a forward pass before any training.
            None if self.allows_own(conv, direction) => {
                return run_own(device, conv, direction, tensors, items, model, accumulate, tf32);
            }
            None => Algorithm::plain(direction),
            Some(Choice::Cudnn(algorithm)) => algorithm,
        };
        let descriptors = self.descriptors(node, conv, items)?;
        // Measured for a full microbatch: another size may want more workspace than there is.
        let fits = |algorithm| {
            device.cudnn.workspace(algorithm, descriptors).filter(|&bytes| bytes <= work.workspace_bytes)
        };
        let (algorithm, bytes) = match fits(algorithm) {
            Some(bytes) => (algorithm, bytes),
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

/// Whether our kernels have a way.
fn own(conv: &Conv, direction: Direction) -> bool {
    match direction {
        Direction::Forward => true,
        Direction::Data => conv.backward_tables.is_some(),
        Direction::Filter => false,
    }
}

fn run_own(
    device: &Device,
    conv: &Conv,
    direction: Direction,
    tensors: Tensors,
    items: usize,
    model: &Model,
    accumulate: bool,
    tf32: bool,
) -> Result<(), CudaError> {
    let geometry = &conv.geometry;
    let per_group = |channels: usize| channels / geometry.groups;
    let forward = direction == Direction::Forward;
    let (tables, weight, source, target) = match (direction, conv.backward_tables, conv.turned) {
        (Direction::Data, Some(tables), Some(turned)) => {
            (tables, model.turned.at(turned), tensors.output, tensors.input)
        }
        _ => (conv.tables, tensors.weight, tensors.input, tensors.output),
    };
    let (from, to) = (per_group(geometry.channels), per_group(geometry.out));
    let (channels, out) = if forward { (from, to) } else { (to, from) };
    let (size, positions) = if forward {
        (geometry.input, geometry.positions())
    } else {
        (geometry.output, geometry.positions_in())
    };
    let columns = items * positions;
    let blocks =
        (columns.div_ceil(TILE_COLUMNS) as u32, out.div_ceil(TILE_ROWS) as u32, geometry.groups as u32);
    let grid = Grid { blocks, threads: 128, shared: CONVOLVE_SHARED };
    device.launch(
        if tf32 { "convolve_tf32" } else { "convolve" },
        grid,
        arguments![
            weight,
            source,
            target,
            Pointer::NULL,
            model.tables.at(tables.0),
            model.tables.at(tables.1),
            out,
            channels * geometry.taps(),
            positions,
            columns,
            size.iter().product::<usize>(),
            size[0],
            size[1],
            size[2],
            geometry.groups,
            channels,
            accumulate,
        ],
    )
}

/// Writes down every sample's weight gradient.
pub(crate) fn weight_gradient(
    device: &Device,
    conv: &Conv,
    (input, gradient): (Pointer, Pointer),
    (target, stride): (Pointer, usize),
    (samples, views): (usize, usize),
    model: &Model,
    tf32: bool,
) -> Result<(), CudaError> {
    let geometry = &conv.geometry;
    let (out, channels) = (geometry.out / geometry.groups, geometry.channels / geometry.groups);
    let tiles = (geometry.inner().div_ceil(TILE_COLUMNS), geometry.groups * out.div_ceil(TILE_ROWS));
    let grid = Grid {
        blocks: (tiles.0 as u32, tiles.1 as u32, samples as u32),
        threads: 128,
        shared: WEIGHT_SHARED,
    };
    device.launch(
        if tf32 { "weight_gradient_tf32" } else { "weight_gradient" },
        grid,
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
