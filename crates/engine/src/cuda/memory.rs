//! Memory on the card: one allocation for the model, and one for everything that a microbatch works on.

use dapple_graph::DropoutUnits;

use super::device::Device;
use super::error::CudaError;
use super::kernels::{GradientBlock, GradientPart, HalvedBlock, PartialRange};
use super::lower::CardSteps;
use super::program::CardProgram;
use super::slice::{Carve, DeviceMemory, DeviceSlice, MemoryRegion};
use super::sources::CardGradientSource;

/// How many bytes cuDNN's algorithms may work in.
pub(crate) const WORKSPACE: usize = 512 << 20;

/// The parameters as given and as used, and the kernels' tables.
#[derive(Debug)]
pub(crate) struct CardModel {
    memory: DeviceMemory,
    parameters: MemoryRegion<f32>,
    used: MemoryRegion<f32>,
    inverses: MemoryRegion<f32>,
    arranged: MemoryRegion<f32>,
    halves: MemoryRegion<u32>,
    largest: MemoryRegion<u32>,
    tables: MemoryRegion<i32>,
    /// How many bytes it takes on the card.
    pub(crate) bytes: usize,
}

impl CardModel {
    pub(crate) fn new(device: &Device, steps: &CardSteps) -> Result<Self, CudaError> {
        let mut carve = Carve::default();
        let parameters = carve.take(steps.parameters_len);
        let used = carve.take(steps.used_len);
        let inverses = carve.take(steps.inverses_len);
        let arranged = carve.take(steps.arranged_len);
        let halves = carve.take(steps.halves_len);
        let largest = carve.take(steps.halved);
        let tables = carve.take(steps.tables.len());
        let memory = device.allocate(carve.len())?;
        device.upload(&steps.tables, memory.region(tables))?;
        Ok(Self {
            memory,
            parameters,
            used,
            inverses,
            arranged,
            halves,
            largest,
            tables,
            bytes: 4 * carve.len(),
        })
    }

    pub(crate) fn parameters(&self) -> DeviceSlice<'_, f32> {
        self.memory.region(self.parameters)
    }

    /// The standardised weights.
    pub(crate) fn used(&self) -> DeviceSlice<'_, f32> {
        self.memory.region(self.used)
    }

    /// One over the deviations of the filters of standardised weights.
    pub(crate) fn inverses(&self) -> DeviceSlice<'_, f32> {
        self.memory.region(self.inverses)
    }

    /// The weights in the order in which tilings read them.
    pub(crate) fn arranged(&self) -> DeviceSlice<'_, f32> {
        self.memory.region(self.arranged)
    }

    /// The weights that are multiplied in halves, as pairs of halves.
    pub(crate) fn halves(&self) -> DeviceSlice<'_, u32> {
        self.memory.region(self.halves)
    }

    /// The size of the largest number of each of those weights.
    pub(crate) fn largest(&self) -> DeviceSlice<'_, u32> {
        self.memory.region(self.largest)
    }

    pub(crate) fn tables(&self) -> DeviceSlice<'_, i32> {
        self.memory.region(self.tables)
    }
}

/// How many words a sample's mask takes.
pub(crate) fn mask_words(units: &DropoutUnits) -> usize {
    units.len().div_ceil(u32::BITS as usize)
}

/// Where everything that a microbatch works on lies, before anything is allocated.
#[derive(Debug)]
struct Sketch {
    pool: MemoryRegion<f32>,
    inputs: [MemoryRegion<f32>; 2],
    targets: MemoryRegion<u32>,
    keys: MemoryRegion<u64>,
    masks: MemoryRegion<u32>,
    losses: MemoryRegion<f64>,
    written: MemoryRegion<f32>,
    halved: MemoryRegion<u32>,
    scales: MemoryRegion<f32>,
    partials: MemoryRegion<f64>,
    squared: MemoryRegion<f64>,
    factors: MemoryRegion<f32>,
    parts: MemoryRegion<GradientPart>,
    blocks: MemoryRegion<GradientBlock>,
    halved_blocks: MemoryRegion<HalvedBlock>,
    ranges: MemoryRegion<PartialRange>,
    means: MemoryRegion<f32>,
    workspace: MemoryRegion<f32>,
    /// How many numbers of four bytes all of it takes.
    len: usize,
}

impl Sketch {
    fn new(program: &CardProgram, samples: usize, workspace_bytes: usize) -> Self {
        let mut carve = Carve::default();
        let items = samples * program.views;
        let input = program.steps.lens[0] * items;
        let output = program.steps.lens[program.steps.output] * items;
        let entries = program.sources.len();
        let workspace_bytes = workspace_bytes.max(4 * program.workspace * samples).max(program.unfolding);
        Self {
            pool: carve.take(program.item_len * items),
            inputs: [carve.take(input), carve.take(input)],
            targets: carve.take(output),
            keys: carve.take(items),
            masks: carve.take(mask_words(&program.steps.units) * samples),
            losses: carve.take(items),
            written: carve.take(program.written * samples),
            halved: carve.take(program.halved_len * samples),
            scales: carve.take(program.halved_count() * samples),
            partials: carve.take(program.partials * samples),
            squared: carve.take(entries * samples),
            factors: carve.take(entries * samples),
            parts: carve.take(program.parts.len()),
            blocks: carve.take(program.blocks.len()),
            halved_blocks: carve.take(program.halved_blocks.len()),
            ranges: carve.take(entries),
            means: carve.take(program.means * samples),
            workspace: carve.take(workspace_bytes / 4),
            len: carve.len(),
        }
    }
}

/// The memory that a microbatch works in.
#[derive(Debug)]
pub(crate) struct CardWork {
    memory: DeviceMemory,
    sketch: Sketch,
    /// How many samples it has room for.
    pub(crate) samples: usize,
    /// Where its buffers lie in the pool: the start and the length of each.
    buffers: Vec<(usize, usize)>,
    /// How many bytes it takes on the card.
    pub(crate) bytes: usize,
}

impl CardWork {
    /// How many bytes this many samples need.
    pub(crate) fn bytes(program: &CardProgram, samples: usize, workspace: usize) -> usize {
        4 * Sketch::new(program, samples, workspace).len
    }

    pub(crate) fn new(
        device: &Device,
        program: &CardProgram,
        samples: usize,
        workspace: usize,
    ) -> Result<Self, CudaError> {
        Self::instead_of(None, device, program, samples, workspace)
    }

    /// Makes memory for a program in the place of another's, which is used again if it is large enough. The card has done what it was told
    /// before with the old memory when it does the first thing with the new one.
    pub(crate) fn instead_of(
        old: Option<Self>,
        device: &Device,
        program: &CardProgram,
        samples: usize,
        workspace: usize,
    ) -> Result<Self, CudaError> {
        let sketch = Sketch::new(program, samples, workspace);
        // Memory that is too small is freed before more is allocated.
        let memory = match old.map(|old| old.memory).filter(|memory| memory.len() >= sketch.len) {
            Some(memory) => memory,
            None => device.allocate(sketch.len)?,
        };
        let bytes = 4 * memory.len();
        let items = samples * program.views;
        let place = |(start, len): (&usize, &usize)| (start * items, len * items);
        let buffers = program.offsets.iter().zip(&program.sizes).map(place).collect();
        let work = Self { samples, buffers, bytes, sketch, memory };
        // A microbatch is filled up with whatever lies here, which is zeros at first and samples of an earlier one later.
        device.clear(work.inputs(0))?;
        device.clear(work.inputs(1))?;
        device.clear(work.targets())?;
        device.clear(work.keys())?;
        device.clear(work.masks())?;
        device.upload(&program.parts, work.parts())?;
        device.upload(&program.blocks, work.blocks())?;
        device.upload(&program.halved_blocks, work.halved_blocks())?;
        let range = |source: &CardGradientSource| PartialRange {
            start: source.partials.start as i32,
            end: source.partials.end as i32,
        };
        let bounds: Vec<PartialRange> = program.sources.iter().map(range).collect();
        device.upload(&bounds, work.ranges())?;
        Ok(work)
    }

    /// A planned buffer; `None` if none was planned.
    pub(crate) fn buffer(&self, slot: Option<usize>) -> Option<DeviceSlice<'_, f32>> {
        let (start, len) = self.buffers[slot?];
        Some(self.memory.region(self.sketch.pool).after(start).first(len))
    }

    /// The inputs of a microbatch. Two regions take turns, so that the next inputs can arrive while these are read.
    pub(crate) fn inputs(&self, microbatch: usize) -> DeviceSlice<'_, f32> {
        self.memory.region(self.sketch.inputs[microbatch % 2])
    }

    /// The targets: labels, or the bits of numbers.
    pub(crate) fn targets(&self) -> DeviceSlice<'_, u32> {
        self.memory.region(self.sketch.targets)
    }

    /// The dropout keys of the items.
    pub(crate) fn keys(&self) -> DeviceSlice<'_, u64> {
        self.memory.region(self.sketch.keys)
    }

    /// The masks of the samples: one bit for each unit, from the lowest of the first word on.
    pub(crate) fn masks(&self) -> DeviceSlice<'_, u32> {
        self.memory.region(self.sketch.masks)
    }

    /// The losses of the items.
    pub(crate) fn losses(&self) -> DeviceSlice<'_, f64> {
        self.memory.region(self.sketch.losses)
    }

    /// Every sample's written gradient.
    pub(crate) fn written(&self) -> DeviceSlice<'_, f32> {
        self.memory.region(self.sketch.written)
    }

    /// Every sample's weight gradients that are written in half precision, as pairs of halves.
    pub(crate) fn halved(&self) -> DeviceSlice<'_, u32> {
        self.memory.region(self.sketch.halved)
    }

    /// The factors by which the numbers of those gradients are multiplied.
    pub(crate) fn scales(&self) -> DeviceSlice<'_, f32> {
        self.memory.region(self.sketch.scales)
    }

    /// The partial sums of squared norms.
    pub(crate) fn partials(&self) -> DeviceSlice<'_, f64> {
        self.memory.region(self.sketch.partials)
    }

    /// The squared norms of every sample, parameter by parameter.
    pub(crate) fn squared(&self) -> DeviceSlice<'_, f64> {
        self.memory.region(self.sketch.squared)
    }

    /// The clipping factors of every sample, parameter by parameter.
    pub(crate) fn factors(&self) -> DeviceSlice<'_, f32> {
        self.memory.region(self.sketch.factors)
    }

    /// The parts of the written gradient that are squared together.
    pub(crate) fn parts(&self) -> DeviceSlice<'_, GradientPart> {
        self.memory.region(self.sketch.parts)
    }

    /// The blocks of the written gradient that are added together.
    pub(crate) fn blocks(&self) -> DeviceSlice<'_, GradientBlock> {
        self.memory.region(self.sketch.blocks)
    }

    /// The blocks of the gradients in halves that are added together.
    pub(crate) fn halved_blocks(&self) -> DeviceSlice<'_, HalvedBlock> {
        self.memory.region(self.sketch.halved_blocks)
    }

    /// Where each parameter's partial sums begin and end.
    pub(crate) fn ranges(&self) -> DeviceSlice<'_, PartialRange> {
        self.memory.region(self.sketch.ranges)
    }

    /// The means that are taken off every sample's standardised filters.
    pub(crate) fn means(&self) -> DeviceSlice<'_, f32> {
        self.memory.region(self.sketch.means)
    }

    pub(crate) fn workspace(&self) -> DeviceSlice<'_, f32> {
        self.memory.region(self.sketch.workspace)
    }

    /// How many bytes the workspace has.
    pub(crate) fn workspace_bytes(&self) -> usize {
        4 * self.workspace().len()
    }
}
