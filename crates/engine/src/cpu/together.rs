//! Products with the weights of vast layers, which all threads compute together for the items of all workers, so that every weight is read
//! once.

use std::ops::Range;

use rayon::prelude::*;

use super::schedule::{Action, ActionKind};
use super::worker::{CpuWorker, Shared, grow};

/// Memory for the rows of all workers' items.
#[derive(Debug, Default)]
pub(crate) struct Together {
    /// The rows that are read, one after the other.
    source: Vec<f32>,
    /// The rows that are made, as blocks of columns that have a part of every row.
    target: Vec<f32>,
}

impl Together {
    /// Runs the forward pass of a vast layer, or computes its data gradient.
    pub(crate) fn run(&mut self, shared: &Shared<'_>, action: &Action, workers: &mut [CpuWorker]) {
        let gemm = shared.steps.steps[action.step].kernel.product().expect("only products are vast");
        let weight = shared.parameters.get(gemm.weight);
        if action.kind == ActionKind::Forward {
            let bias = &shared.weights.get(gemm.weight.index()).bias;
            let sides = ((action.inputs[0], gemm.channels), (action.output, gemm.out));
            self.product(shared, sides, workers, false, |source, columns, target| {
                gemm.vast_forward(weight, bias, source, columns, target);
            });
        } else if let (Some(gradient), Some(&Some((input, accumulate)))) =
            (action.gradient, action.input_gradients.first())
        {
            let sides = ((gradient, gemm.out), (input, gemm.channels));
            self.product(shared, sides, workers, accumulate, |source, columns, target| {
                gemm.vast_backward(weight, source, columns, accumulate, target);
            });
        }
    }

    /// Makes the rows of one buffer from the rows of another; each buffer is given with the length of its rows. `columns` reads all rows and
    /// makes some columns.
    fn product(
        &mut self,
        shared: &Shared<'_>,
        ((from, inner), (to, width)): ((usize, usize), (usize, usize)),
        workers: &mut [CpuWorker],
        accumulate: bool,
        columns: impl Fn(&[f32], Range<usize>, &mut [f32]) + Sync,
    ) {
        let items: usize = workers.iter().map(|worker| worker.losses.len()).sum();
        if items == 0 {
            return;
        }
        grow(&mut self.source, items * inner);
        grow(&mut self.target, items * width);
        let (source, target) = (&mut self.source[..items * inner], &mut self.target[..items * width]);
        let mut rows = source.chunks_exact_mut(inner);
        for_rows(workers, from, shared.schedule.stride(from), |row| {
            if let Some(to) = rows.next() {
                to.copy_from_slice(&row[..inner]);
            }
        });
        // Blocks are whole vectors, and there are several for each thread, so that none waits long for another.
        let block = width.div_ceil(4 * rayon::current_num_threads()).next_multiple_of(VECTORS);
        let stride = shared.schedule.stride(to);
        if accumulate {
            exchange(workers, (to, stride), (block, width), target, |row, part| part.copy_from_slice(row));
        }
        let source = &*source;
        target.par_chunks_mut(items * block).enumerate().for_each(|(index, target)| {
            let first = index * block;
            columns(source, first..width.min(first + block), target);
        });
        exchange(workers, (to, stride), (block, width), target, |row, part| row.copy_from_slice(part));
    }
}

/// The width of a block is a multiple of this many columns.
const VECTORS: usize = 64;

/// Calls a function with the row of every item in a buffer.
fn for_rows(workers: &mut [CpuWorker], slot: usize, stride: usize, mut each: impl FnMut(&mut [f32])) {
    for worker in workers {
        let items = worker.losses.len();
        worker.buffers[slot].chunks_exact_mut(stride).take(items).for_each(&mut each);
    }
}

/// Calls a function with every part of a row in a buffer, and the place of that part in the blocks of columns.
fn exchange(
    workers: &mut [CpuWorker],
    (slot, stride): (usize, usize),
    (block, width): (usize, usize),
    blocks: &mut [f32],
    copy: impl Fn(&mut [f32], &mut [f32]),
) {
    let items = blocks.len() / width;
    for (index, blocks) in blocks.chunks_mut(items * block).enumerate() {
        let columns = index * block..width.min((index + 1) * block);
        let mut parts = blocks.chunks_exact_mut(columns.len());
        for_rows(workers, slot, stride, |row| {
            if let Some(part) = parts.next() {
                copy(&mut row[columns.clone()], part);
            }
        });
    }
}
