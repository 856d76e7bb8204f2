//! The loader's own thread, which makes microbatches with the help of others.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

use rayon::ThreadPool;
use rayon::prelude::*;

use super::microbatch::{Labels, Microbatch};
use crate::DataError;

/// Nanoseconds of work below which one thread is done before others would have woken up.
const WORTH_THREADS: u64 = 500_000;

/// What the loader's own thread works with.
pub(super) struct LoaderWorker {
    pub(super) pool: ThreadPool,
    pub(super) sender: Sender<Result<Microbatch, DataError>>,
    pub(super) wanted: Receiver<()>,
    pub(super) spares: Receiver<Vec<f32>>,
    pub(super) stop: Arc<AtomicBool>,
    /// Records of a microbatch; 0 for all at once.
    pub(super) microbatch: usize,
    /// Nanoseconds that the quickest sample of the last microbatch took. Other processes disturb this measure less than any other.
    pub(super) quickest: Cell<u64>,
}

/// What is known of a step before its records are read.
pub(super) struct Step {
    pub(super) step: u64,
    pub(super) phase: usize,
    /// Samples of the same kind lie together. There is at least one set, which may be empty.
    pub(super) sets: Vec<SampleSet>,
    /// Records that the step drew.
    pub(super) drawn: usize,
    /// Values of one view.
    pub(super) view_length: usize,
    /// Values of the labels of one view.
    pub(super) label_length: usize,
}

/// Samples with equally many records and views, all of which go through the same submodel.
pub(super) struct SampleSet {
    /// Records of each sample.
    pub(super) together: usize,
    /// The records of one sample after the other.
    pub(super) records: Vec<usize>,
    /// Views of each sample.
    pub(super) views: usize,
    /// The submodel; `None` for the whole model.
    pub(super) submodel: Option<usize>,
    /// The user whose records these are; they are shown at once then.
    pub(super) user: Option<usize>,
}

impl SampleSet {
    /// The records in parts of whole samples and at most `microbatch` records, where a sample has no more; of all records for 0. No
    /// records are one part, because an empty batch is still a step.
    fn parts(&self, microbatch: usize) -> impl Iterator<Item = &[usize]> {
        let size = match microbatch {
            _ if self.user.is_some() => self.records.len().max(1),
            0 => self.records.len().max(1),
            microbatch => (microbatch / self.together).max(1) * self.together,
        };
        let empty: [&[usize]; 1] = [&[]];
        self.records.chunks(size).chain(empty.into_iter().filter(|_| self.records.is_empty()))
    }
}

/// Makes the views of one sample. It gets the sample's records, the place for the views and the place for their labels.
pub(super) trait Show<L>: Fn(&[usize], &mut [f32], &mut [L]) -> Result<(), DataError> + Sync {}

impl<L, F> Show<L> for F where F: Fn(&[usize], &mut [f32], &mut [L]) -> Result<(), DataError> + Sync {}

impl LoaderWorker {
    /// Makes and sends the microbatches of one step. Returns `false` once nobody wants them any more.
    pub(super) fn step<L: Clone + Default + Send>(
        &self,
        step: &Step,
        show: impl Show<L>,
    ) -> Result<bool, DataError>
    where
        Labels: From<Vec<L>>,
    {
        let total = step.sets.iter().map(|set| set.records.len()).sum();
        let mut first = 0;
        for set in &step.sets {
            for records in set.parts(self.microbatch) {
                if self.wanted.recv().is_err() {
                    return Ok(false);
                }
                let views = records.len() / set.together * set.views;
                let mut inputs = self.spares.try_recv().unwrap_or_default();
                inputs.resize(views * step.view_length, 0.0);
                let mut labels = vec![L::default(); views * step.label_length];
                self.fill(records, set.together, &mut inputs, &mut labels, &show)?;
                let microbatch = Microbatch {
                    step: step.step,
                    phase: step.phase,
                    records: records.to_vec(),
                    together: set.together,
                    labels: labels.into(),
                    inputs,
                    views: set.views,
                    submodel: set.submodel,
                    user: set.user,
                    first,
                    total,
                    drawn: step.drawn,
                };
                first += records.len();
                if self.stop.load(Ordering::Relaxed) || self.sender.send(Ok(microbatch)).is_err() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Shows each sample. Of several errors it returns the one of the first sample, whichever happened first.
    fn fill<L: Send>(
        &self,
        records: &[usize],
        together: usize,
        inputs: &mut [f32],
        labels: &mut [L],
        show: &impl Show<L>,
    ) -> Result<(), DataError> {
        let stop = &*self.stop;
        let quickest = AtomicU64::new(u64::MAX);
        let one = |((records, output), labels): ((&[usize], &mut [f32]), &mut [L])| {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let began = Instant::now();
            show(records, output, labels)?;
            let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            quickest.fetch_min(took, Ordering::Relaxed);
            Ok(())
        };
        let count = (records.len() / together).max(1);
        let (inputs_each, labels_each) = ((inputs.len() / count).max(1), (labels.len() / count).max(1));
        if self.quickest.get().saturating_mul(count as u64) < WORTH_THREADS {
            let inputs = inputs.chunks_exact_mut(inputs_each);
            let labels = labels.chunks_exact_mut(labels_each);
            records.chunks_exact(together).zip(inputs).zip(labels).try_for_each(one)?;
        } else {
            let outcomes: Vec<Result<(), DataError>> = self.pool.install(|| {
                let inputs = inputs.par_chunks_exact_mut(inputs_each);
                let labels = labels.par_chunks_exact_mut(labels_each);
                records.par_chunks_exact(together).zip(inputs).zip(labels).map(one).collect()
            });
            outcomes.into_iter().collect::<Result<(), DataError>>()?;
        }
        if !records.is_empty() {
            self.quickest.set(quickest.into_inner());
        }
        Ok(())
    }
}
