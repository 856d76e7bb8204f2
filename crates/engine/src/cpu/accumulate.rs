//! Adding clipped gradients to the sum.

use rayon::prelude::*;

use super::gemm::Gemm;
use super::pointwise;
use super::program::{Deferred, Program};
use super::step::Kernel;
use super::sum::{BLOCK, GradientSum};
use super::worker::{Worker, grow};
use crate::layout::Layout;

/// Items whose deferred gradients are summed in one product.
const TOGETHER: usize = 64;

/// What the gradients of vast layers are made of, kept for some items so that their sums are read and written once for all of them.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// For every item, the input and the clipped output gradient of each such layer.
    rows: Vec<f32>,
    items: usize,
}

impl Pending {
    /// Forgets what a call left behind that failed.
    pub(crate) fn clear(&mut self) {
        self.items = 0;
    }
}

impl Program {
    /// Adds the clipped gradients of all workers' samples to the sum, sample after sample. Those of vast layers may stay pending.
    pub(crate) fn accumulate(
        &self,
        workers: &[Worker],
        layout: &Layout,
        views: usize,
        sum: &mut GradientSum,
        pending: &mut Pending,
    ) {
        let entries = layout.entries().len();
        for (index, (source, entry)) in self.sources.iter().zip(layout.entries()).enumerate() {
            let part = &mut sum.values[entry.range.clone()];
            if let Some(place) = &source.place {
                part.par_chunks_mut(BLOCK).enumerate().for_each(|(block, part)| {
                    let start = place.start + block * BLOCK;
                    for worker in workers {
                        for sample in 0..worker.losses.len() / views {
                            let factor = worker.factors[sample * entries + index];
                            let gradient =
                                &worker.materialised[sample * self.materialised + start..][..part.len()];
                            pointwise::scale(gradient, factor, part, true);
                        }
                    }
                });
            }
            match self.deferred(index) {
                Some((gemm, deferred)) if !gemm.vast() => {
                    sum_items(gemm, items(workers).map(|item| self.kept(gemm, deferred, item)), part);
                }
                _ => {}
            }
        }
        if self.vast().next().is_some() {
            for item in items(workers) {
                if pending.items == TOGETHER {
                    self.settle(layout, sum, pending);
                }
                self.postpone(item, pending);
            }
        }
    }

    /// Adds what is pending to the sum.
    pub(crate) fn settle(&self, layout: &Layout, sum: &mut GradientSum, pending: &mut Pending) {
        let width = self.pending_width();
        let mut start = 0;
        for (index, gemm, _) in self.vast() {
            let rows = pending.rows.chunks_exact(width.max(1)).take(pending.items);
            let items = rows.map(|row| row[start..][..gemm.channels + gemm.out].split_at(gemm.channels));
            sum_items(gemm, items, &mut sum.values[layout.entries()[index].range.clone()]);
            start += gemm.channels + gemm.out;
        }
        pending.clear();
    }

    fn postpone(&self, item: (&Worker, usize), pending: &mut Pending) {
        let width = self.pending_width();
        grow(&mut pending.rows, (pending.items + 1) * width);
        let mut row = &mut pending.rows[pending.items * width..][..width];
        for (_, gemm, deferred) in self.vast() {
            let (x, g) = self.kept(gemm, deferred, item);
            for values in [x, g] {
                let (to, rest) = row.split_at_mut(values.len());
                to.copy_from_slice(values);
                row = rest;
            }
        }
        pending.items += 1;
    }

    /// Vast layers whose gradients are deferred, with their places among the trainable parameters.
    fn vast(&self) -> impl Iterator<Item = (usize, &Gemm, Deferred)> {
        let layer = |index: usize| self.deferred(index).map(|(gemm, deferred)| (index, gemm, deferred));
        (0..self.sources.len()).filter_map(layer).filter(|(_, gemm, _)| gemm.vast())
    }

    fn pending_width(&self) -> usize {
        self.vast().map(|(_, gemm, _)| gemm.channels + gemm.out).sum()
    }

    /// The layer of a trainable parameter whose gradient is deferred.
    fn deferred(&self, index: usize) -> Option<(&Gemm, Deferred)> {
        let source = &self.sources[index];
        match &self.steps.steps[source.step?].kernel {
            Kernel::Gemm(gemm) => Some((gemm, source.deferred?)),
            _ => None,
        }
    }

    /// The inputs and the output gradients that a deferred layer has kept of an item.
    fn kept<'w>(
        &self,
        gemm: &Gemm,
        deferred: Deferred,
        (worker, item): (&'w Worker, usize),
    ) -> (&'w [f32], &'w [f32]) {
        let value =
            |slot: usize, len: usize| &worker.buffers[slot][item * self.schedule.stride(slot)..][..len];
        let x = value(deferred.input, gemm.rows_in * gemm.channels);
        (x, value(deferred.gradient, gemm.rows_out * gemm.out))
    }
}

/// All items of all workers.
fn items(workers: &[Worker]) -> impl Iterator<Item = (&Worker, usize)> {
    workers.iter().flat_map(|worker| (0..worker.losses.len()).map(move |item| (worker, item)))
}

/// Adds the weight gradients of some items to a sum.
fn sum_items<'i>(gemm: &Gemm, mut items: impl Iterator<Item = (&'i [f32], &'i [f32])>, sum: &mut [f32]) {
    let mut together: [(&[f32], &[f32]); TOGETHER] = [(&[], &[]); TOGETHER];
    loop {
        let count = together.iter_mut().zip(&mut items).map(|(place, item)| *place = item).count();
        if count == 0 {
            break;
        }
        gemm.backward_weight(&together[..count], sum, &mut [], rayon::current_num_threads());
    }
}
