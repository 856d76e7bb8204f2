//! Memory on the card: one allocation for the model, one pool for everything a step works on.

use cudarc::driver::CudaSlice;

use super::device::{Device, Pointer, address};
use super::error::CudaError;
use super::lower::Steps;
use super::program::Program;

/// Numbers to which every buffer is aligned: 256 bytes.
const ALIGNMENT: usize = 64;
/// Bytes that cuDNN's algorithms may work in.
pub(crate) const WORKSPACE: usize = 512 << 20;

/// Lays out buffers one after the other.
#[derive(Debug, Default)]
struct Carve {
    len: usize,
}

impl Carve {
    fn take(&mut self, numbers: usize) -> usize {
        let start = self.len;
        self.len += numbers.next_multiple_of(ALIGNMENT);
        start
    }
}

/// The parameters as given and as used, and the kernels' tables.
#[derive(Debug)]
pub(crate) struct Model {
    _memory: CudaSlice<f32>,
    pub(crate) parameters: Pointer,
    pub(crate) used: Pointer,
    pub(crate) inverses: Pointer,
    pub(crate) arranged: Pointer,
    pub(crate) tables: Pointer,
    /// Bytes on the card.
    pub(crate) bytes: usize,
}

impl Model {
    pub(crate) fn new(device: &Device, steps: &Steps) -> Result<Self, CudaError> {
        let mut carve = Carve::default();
        let sizes = [
            steps.parameters_len,
            steps.used_len,
            steps.inverses_len,
            steps.arranged_len,
            steps.tables.len(),
        ];
        let [parameters, used, inverses, arranged, tables] = sizes.map(|numbers| carve.take(numbers));
        let memory = device.allocate(carve.len)?;
        let base = address(&memory, &device.stream);
        device.upload(&steps.tables, base.at(tables))?;
        Ok(Self {
            parameters: base.at(parameters),
            used: base.at(used),
            inverses: base.at(inverses),
            arranged: base.at(arranged),
            tables: base.at(tables),
            bytes: 4 * carve.len,
            _memory: memory,
        })
    }
}

/// What a microbatch works on.
#[derive(Debug)]
pub(crate) struct Work {
    _memory: CudaSlice<f32>,
    /// Samples it has room for.
    pub(crate) samples: usize,
    /// The items' planned memory, where its buffers start in one item's, and items there is room for.
    base: Pointer,
    offsets: Vec<usize>,
    items: usize,
    /// Inputs of this microbatch and of the next.
    pub(crate) inputs: [Pointer; 2],
    pub(crate) targets: Pointer,
    pub(crate) keys: Pointer,
    pub(crate) losses: Pointer,
    pub(crate) written: Pointer,
    pub(crate) partials: Pointer,
    pub(crate) squared: Pointer,
    pub(crate) factors: Pointer,
    pub(crate) parts: Pointer,
    pub(crate) blocks: Pointer,
    pub(crate) ranges: Pointer,
    /// What is taken off every sample's standardised filters.
    pub(crate) means: Pointer,
    pub(crate) workspace: Pointer,
    pub(crate) workspace_bytes: usize,
    /// Bytes on the card.
    pub(crate) bytes: usize,
}

/// Where everything lies, before anything is allocated.
struct Sketch {
    base: usize,
    parts: [usize; 14],
    workspace_bytes: usize,
    len: usize,
}

fn output_len(program: &Program) -> usize {
    program.steps.lens[program.steps.output]
}

fn sketch(program: &Program, samples: usize, workspace: usize) -> Sketch {
    let mut carve = Carve::default();
    let items = samples * program.views;
    let input = program.steps.lens[0] * items;
    let output = output_len(program) * items;
    let entries = program.sources.len();
    let workspace_bytes = workspace.max(4 * program.workspace * samples).max(program.unfolding);
    let base = carve.take(program.item_len * items);
    let parts = [
        input,
        input,
        output,
        2 * items,
        2 * items,
        program.written * samples,
        2 * program.partials * samples,
        2 * entries * samples,
        entries * samples,
        program.parts.len(),
        program.blocks.len(),
        2 * entries,
        program.means * samples,
        workspace_bytes / 4,
    ]
    .map(|numbers| carve.take(numbers));
    Sketch { base, parts, workspace_bytes, len: carve.len }
}

impl Work {
    /// Bytes that this many samples need.
    pub(crate) fn bytes(program: &Program, samples: usize, workspace: usize) -> usize {
        4 * sketch(program, samples, workspace).len
    }

    pub(crate) fn new(
        device: &Device,
        program: &Program,
        samples: usize,
        workspace: usize,
    ) -> Result<Self, CudaError> {
        let Sketch { base: start, parts, workspace_bytes, len } = sketch(program, samples, workspace);
        let memory = device.allocate(len)?;
        let base = address(&memory, &device.stream);
        let [
            first,
            second,
            targets,
            keys,
            losses,
            written,
            partials,
            squared,
            factors,
            parts,
            blocks,
            ranges,
            means,
            workspace,
        ] = parts.map(|start| base.at(start));
        // What fills up a microbatch is zeros, or samples of an earlier one.
        for (start, numbers) in [
            (first, program.steps.lens[0]),
            (second, program.steps.lens[0]),
            (targets, output_len(program)),
            (keys, 2),
        ] {
            device.clear(start, numbers * samples * program.views)?;
        }
        device.upload(&program.parts, parts)?;
        device.upload(&program.blocks, blocks)?;
        let bounds: Vec<i32> = program
            .sources
            .iter()
            .flat_map(|source| [source.partials.start as i32, source.partials.end as i32])
            .collect();
        device.upload(&bounds, ranges)?;
        Ok(Self {
            samples,
            base: base.at(start),
            offsets: program.offsets.clone(),
            items: samples * program.views,
            inputs: [first, second],
            targets,
            keys,
            losses,
            written,
            partials,
            squared,
            factors,
            parts,
            blocks,
            ranges,
            means,
            workspace,
            workspace_bytes,
            bytes: 4 * len,
            _memory: memory,
        })
    }

    /// A planned buffer; nothing where none was planned.
    pub(crate) fn buffer(&self, slot: Option<usize>) -> Pointer {
        slot.map_or(Pointer::NULL, |slot| self.base.at(self.offsets[slot] * self.items))
    }
}
