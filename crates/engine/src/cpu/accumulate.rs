//! Adding clipped gradients to the sum.

use rayon::prelude::*;

use super::gemm::Gemm;
use super::kernel::{Filters, Sample};
use super::pointwise;
use super::program::{CpuProgram, Deferred, GradientSource};
use super::sum::{BLOCK, GradientSum, Numbers};
use super::worker::{CpuWorker, grow};
use crate::layout::Layout;

/// How many samples' deferred gradients are summed in one product.
const TOGETHER: usize = 64;

/// What the gradients of vast layers are made of, collected for some samples, so that the sum of such a layer is read and written once for
/// all of them.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// For every item, the input and the output gradient of each such layer.
    rows: Vec<f32>,
    /// Clipping factors, `[sample, trainable parameter]`.
    factors: Vec<f32>,
    samples: usize,
}

impl Pending {
    /// Forgets all samples, such as those that a failed call left behind.
    pub(crate) fn clear(&mut self) {
        self.samples = 0;
    }
}

/// A worker's sample, with its clipping factors.
#[derive(Clone, Copy)]
struct Clipped<'w> {
    worker: &'w CpuWorker,
    sample: usize,
    factors: &'w [f32],
}

impl CpuProgram {
    /// Adds the clipped gradients of all workers' samples to the sum, sample after sample. Those of vast layers may stay pending.
    ///
    /// # Guarantee
    /// To a sum of whole numbers each sample adds `round(factor v)`, coordinate by coordinate. `v` is made from that sample alone, and its
    /// norm is at most the one from which the clipping factor was made. A sample whose factors are all zero adds nothing.
    pub(crate) fn accumulate(
        &self,
        workers: &[CpuWorker],
        layout: &Layout,
        views: usize,
        sum: &mut GradientSum,
        pending: &mut Pending,
    ) {
        for (index, entry) in layout.entries().iter().enumerate() {
            match sum.numbers() {
                Numbers::Whole(values) => {
                    let part = &mut values[entry.range.clone()];
                    self.count_written(index, workers, views, part);
                    if let Some((gemm, deferred)) = self.deferred(index).filter(|(gemm, _)| !gemm.vast()) {
                        let samples = self
                            .samples(workers, views)
                            .map(|sample| self.deferred_sample(index, gemm, deferred, sample, views));
                        count_samples(gemm, samples, part);
                    }
                }
                Numbers::Plain(values) => {
                    let part = &mut values[entry.range.clone()];
                    self.add_written(index, workers, views, part);
                    if let Some((gemm, deferred)) = self.deferred(index) {
                        let items = self.samples(workers, views).flat_map(|sample| {
                            self.deferred_sample(index, gemm, deferred, sample, views).items()
                        });
                        sum_items(gemm, items, part);
                    }
                }
            }
        }
        if let (Numbers::Whole(_), Some(_)) = (sum.numbers(), self.vast().next()) {
            for sample in self.samples(workers, views) {
                if pending.samples == TOGETHER {
                    self.settle(layout, views, sum, pending);
                }
                self.postpone(sample, views, pending);
            }
        }
    }

    /// Clips a parameter's written gradients and adds them in whole numbers.
    fn count_written(&self, index: usize, workers: &[CpuWorker], views: usize, part: &mut [u32]) {
        let source = &self.sources[index];
        // What is deferred is added elsewhere.
        let Some(place) = &source.place else { return };
        let (groups, row) = match self.gemm(source) {
            Some(gemm) if source.means.is_some() => (gemm.groups, gemm.out / gemm.groups),
            _ => (1, 1),
        };
        let group_len = part.len() / groups;
        for (group, part) in part.chunks_exact_mut(group_len).enumerate() {
            let block = (BLOCK / row).max(1) * row;
            part.par_chunks_mut(block).enumerate().for_each(|(number, part)| {
                let start = place.start + group * group_len + number * block;
                for Clipped { worker, sample, factors } in self.samples(workers, views) {
                    let gradient = &worker.materialised[sample * self.materialised + start..][..part.len()];
                    match &source.means {
                        Some(means) => {
                            let first = sample * self.means + means.start + group * row;
                            let factors = &worker.filter_factors[first..][..row];
                            pointwise::count_rows(gradient, factors, &worker.means[first..][..row], part);
                        }
                        None => pointwise::count(gradient, factors[index], part),
                    }
                }
            });
        }
    }

    /// Adds a parameter's written gradients as they are.
    fn add_written(&self, index: usize, workers: &[CpuWorker], views: usize, part: &mut [f32]) {
        // What is deferred is added elsewhere.
        let Some(place) = &self.sources[index].place else { return };
        part.par_chunks_mut(BLOCK).enumerate().for_each(|(block, part)| {
            let start = place.start + block * BLOCK;
            for Clipped { worker, sample, .. } in self.samples(workers, views) {
                let gradient = &worker.materialised[sample * self.materialised + start..][..part.len()];
                pointwise::scale(gradient, 1.0, part, true);
            }
        });
    }

    /// All samples of all workers that are to be added.
    fn samples<'w>(&self, workers: &'w [CpuWorker], views: usize) -> impl Iterator<Item = Clipped<'w>> {
        let entries = self.sources.len();
        let of = move |worker: &'w CpuWorker| {
            (0..worker.losses.len() / views).map(move |sample| {
                let factors = &worker.factors[sample * entries..][..entries];
                Clipped { worker, sample, factors }
            })
        };
        workers.iter().flat_map(of).filter(|sample| sample.factors.iter().any(|&factor| factor != 0.0))
    }

    /// Adds what is pending to the sum.
    pub(crate) fn settle(&self, layout: &Layout, views: usize, sum: &mut GradientSum, pending: &mut Pending) {
        let (width, entries) = (self.pending_width(), self.sources.len());
        let mut start = 0;
        if let Numbers::Whole(values) = sum.numbers() {
            for (index, gemm, _) in self.vast() {
                let samples = (0..pending.samples).map(|sample| {
                    let row = &pending.rows[sample * views * width + start..];
                    Sample {
                        sources: (row, width),
                        targets: (&row[gemm.channels..], width),
                        items: views,
                        factor: pending.factors[sample * entries + index],
                        filters: None,
                    }
                });
                count_samples(gemm, samples, &mut values[layout.entries()[index].range.clone()]);
                start += gemm.channels + gemm.out;
            }
        }
        pending.clear();
    }

    fn postpone(&self, sample: Clipped<'_>, views: usize, pending: &mut Pending) {
        let (width, entries) = (self.pending_width(), self.sources.len());
        let first = pending.samples * views;
        grow(&mut pending.rows, (first + views) * width);
        grow(&mut pending.factors, (pending.samples + 1) * entries);
        pending.factors[pending.samples * entries..][..entries].copy_from_slice(sample.factors);
        for view in 0..views {
            let mut row = &mut pending.rows[(first + view) * width..][..width];
            for (index, gemm, deferred) in self.vast() {
                let kept = self.deferred_sample(index, gemm, deferred, sample, views);
                for (values, len) in [(kept.sources, gemm.channels), (kept.targets, gemm.out)] {
                    let (to, rest) = row.split_at_mut(len);
                    to.copy_from_slice(&values.0[view * values.1..][..len]);
                    row = rest;
                }
            }
        }
        pending.samples += 1;
    }

    /// The vast layers whose gradients are deferred, with their places among the trainable parameters.
    fn vast(&self) -> impl Iterator<Item = (usize, &Gemm, Deferred)> {
        let layer = |index: usize| self.deferred(index).map(|(gemm, deferred)| (index, gemm, deferred));
        (0..self.sources.len()).filter_map(layer).filter(|(_, gemm, _)| gemm.vast())
    }

    fn pending_width(&self) -> usize {
        self.vast().map(|(_, gemm, _)| gemm.channels + gemm.out).sum()
    }

    /// The layer of a trainable parameter, if its gradient is deferred.
    fn deferred(&self, index: usize) -> Option<(&Gemm, Deferred)> {
        let source = &self.sources[index];
        Some((self.gemm(source)?, source.deferred?))
    }

    /// The matrix product whose weight a trainable parameter is.
    fn gemm(&self, source: &GradientSource) -> Option<&Gemm> {
        self.steps.steps[source.step?].kernel.product()
    }

    /// What a deferred layer has kept of a sample, and how the sample is clipped.
    fn deferred_sample<'w>(
        &self,
        index: usize,
        gemm: &Gemm,
        deferred: Deferred,
        clipped: Clipped<'w>,
        views: usize,
    ) -> Sample<'w> {
        let Clipped { worker, sample, factors } = clipped;
        let value = |slot: usize, len: usize| {
            let stride = self.schedule.stride(slot);
            let first = sample * views * stride;
            (&worker.buffers[slot][first..first + (views - 1) * stride + len], stride)
        };
        let filters = self.sources[index].means.as_ref().map(|means| {
            let own = sample * self.means + means.start..sample * self.means + means.end;
            Filters { factors: &worker.filter_factors[own.clone()], means: &worker.means[own] }
        });
        Sample {
            sources: value(deferred.input, gemm.rows_in * gemm.channels),
            targets: value(deferred.gradient, gemm.rows_out * gemm.out),
            items: views,
            factor: factors[index],
            filters,
        }
    }
}

/// Adds the clipped weight gradients of some samples to a sum.
fn count_samples<'i>(gemm: &Gemm, mut samples: impl Iterator<Item = Sample<'i>>, sum: &mut [u32]) {
    let mut together = [Sample::default(); TOGETHER];
    loop {
        let count = together.iter_mut().zip(&mut samples).map(|(place, sample)| *place = sample).count();
        if count == 0 {
            break;
        }
        gemm.count_weight(&together[..count], sum, rayon::current_num_threads());
    }
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
