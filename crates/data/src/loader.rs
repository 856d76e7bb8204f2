//! Reads, decodes and crops ahead of the trainer, on threads of its own.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::keys::PurposeKey;
use crate::sampler::Sampler;
use crate::views::MAX_PIXELS;
use crate::{DataError, Dataset, Views};

/// Values of a microbatch for evaluation, unless its size is given.
const EVALUATION_VALUES: usize = 1 << 24;

/// What changes speed and memory, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoaderOptions {
    /// Threads that decode and crop; 0 for as many as there are cores.
    pub threads: usize,
    /// Microbatches made ahead, at least 1.
    pub prefetch: usize,
    /// Records of a microbatch; 0 for the whole batch at once.
    pub microbatch: usize,
}

impl Default for LoaderOptions {
    fn default() -> Self {
        Self { threads: 0, prefetch: 2, microbatch: 0 }
    }
}

/// Records of a step, ready for the model: all of them, or one microbatch.
#[derive(Debug, Clone, PartialEq)]
pub struct Microbatch {
    /// The step, from 0; for evaluation 0.
    pub step: u64,
    /// The part of the plan that the step belongs to.
    pub phase: usize,
    /// Which records these are.
    pub records: Vec<usize>,
    /// Their classes, one a record.
    pub labels: Vec<u32>,
    /// `[records, views, channels, height, width]`.
    pub inputs: Vec<f32>,
    /// Views of each record.
    pub views: usize,
    /// Records of the step that came before these.
    pub first: usize,
    /// Records of the whole step; 0 for an empty Poisson batch, which comes as one microbatch without records.
    pub total: usize,
}

impl Microbatch {
    /// Whether it is the last of its step.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.first + self.records.len() == self.total
    }
}

/// An iterator over the microbatches of a run, in order, or over all records of a data set.
///
/// # Guarantee
/// What it yields is a function of the data set, the sampler, the views and the key: neither the number of threads nor the prefetch
/// nor the size of microbatches changes a value. Every view is drawn anew in every step, from a stream of its own for each (step,
/// record); no view is kept. Memory is that of `prefetch` microbatches beside the one in use. After an error it ends; dropped, it
/// stops its threads and waits for them.
pub struct Loader {
    microbatches: Option<Receiver<Result<Microbatch, DataError>>>,
    spare: Sender<Vec<f32>>,
    stop: Arc<AtomicBool>,
    worker: Option<JoinHandle<()>>,
}

impl Loader {
    /// Loads the given steps of a plan; `views` are those of each phase in order.
    ///
    /// # Errors
    /// Steps beyond the plan's end, a phase without views, threads that cannot be started.
    pub fn train(
        dataset: Arc<dyn Dataset>,
        mut sampler: Sampler,
        views: Vec<Views>,
        key: PurposeKey,
        steps: Range<u64>,
        options: LoaderOptions,
    ) -> Result<Self, DataError> {
        if !steps.is_empty() {
            let last = sampler.phase(steps.end - 1)?;
            if last >= views.len() {
                let problem = format!("phase {} has no views", last + 1);
                return Err(DataError::Setting { key: "phases", problem });
            }
        }
        Self::start(options, move |worker| {
            for step in steps {
                let draw = sampler.draw(step)?;
                let views = &views[draw.phase];
                let key = key.step(step);
                let step =
                    Step { step, phase: draw.phase, views: views.count(), view_length: views.view_length() };
                let made = worker.step(&*dataset, step, &draw.indices, |record, image, output| {
                    views.draw(image, &mut key.stream(record as u64), output)
                })?;
                if !made {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Loads all records once, in order, as [`Views::evaluate`] shows them. A microbatch size of 0 means
    /// 256 records here, or as many as 64 MiB hold.
    ///
    /// # Errors
    /// A grid of more crops than memory can hold, threads that cannot be started.
    pub fn evaluate(
        dataset: Arc<dyn Dataset>,
        views: Views,
        grid: u32,
        options: LoaderOptions,
    ) -> Result<Self, DataError> {
        let record = views.evaluation_views(grid).saturating_mul(views.view_length());
        if record as u64 > MAX_PIXELS {
            let problem = format!("a grid of {grid} by {grid} crops");
            return Err(DataError::Setting { key: "train.evaluation_grid", problem });
        }
        let microbatch = match options.microbatch {
            0 => (EVALUATION_VALUES / record.max(1)).clamp(1, 256),
            given => given,
        };
        Self::start(LoaderOptions { microbatch, ..options }, move |worker| {
            let records: Vec<usize> = (0..dataset.len()).collect();
            let step = Step {
                step: 0,
                phase: 0,
                views: views.evaluation_views(grid),
                view_length: views.view_length(),
            };
            worker.step(&*dataset, step, &records, |_, image, output| views.evaluate(image, grid, output))?;
            Ok(())
        })
    }

    /// Takes back a microbatch whose values are no longer needed, to use its memory again.
    pub fn recycle(&self, microbatch: Microbatch) {
        // A worker that is gone needs no memory.
        let _ = self.spare.send(microbatch.inputs);
    }

    fn start(
        options: LoaderOptions,
        work: impl FnOnce(&Worker) -> Result<(), DataError> + Send + 'static,
    ) -> Result<Self, DataError> {
        let failed = |problem: String| DataError::Threads { problem };
        let pool = ThreadPoolBuilder::new()
            .num_threads(options.threads)
            .thread_name(|number| format!("dapple-data-{number}"))
            .build()
            .map_err(|error| failed(error.to_string()))?;
        // One microbatch waits in the hands of the worker.
        let (sender, microbatches) = sync_channel(options.prefetch.max(1) - 1);
        let (spare, spares) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let worker = Worker { pool, sender, spares, stop: Arc::clone(&stop), microbatch: options.microbatch };
        let thread = std::thread::Builder::new().name("dapple-data".to_owned()).spawn(move || {
            if let Err(error) = work(&worker) {
                // Nobody listens any more where the loader was dropped.
                let _ = worker.sender.send(Err(error));
            }
        });
        let worker = Some(thread.map_err(|error| failed(error.to_string()))?);
        Ok(Self { microbatches: Some(microbatches), spare, stop, worker })
    }

    /// Waits for the worker to end; `false` if it was lost in a panic.
    fn join(&mut self) -> bool {
        self.microbatches = None;
        self.worker.take().is_none_or(|worker| worker.join().is_ok())
    }
}

impl Iterator for Loader {
    type Item = Result<Microbatch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.microbatches.as_ref()?.recv() {
            Ok(Ok(microbatch)) => Some(Ok(microbatch)),
            Ok(Err(error)) => {
                self.join();
                Some(Err(error))
            }
            Err(_) if self.join() => None,
            Err(_) => Some(Err(DataError::Threads { problem: "a decoder panicked".to_owned() })),
        }
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.join();
    }
}

/// What is made on the loader's threads.
struct Worker {
    pool: ThreadPool,
    sender: SyncSender<Result<Microbatch, DataError>>,
    spares: Receiver<Vec<f32>>,
    stop: Arc<AtomicBool>,
    microbatch: usize,
}

/// A step without its records.
#[derive(Clone, Copy)]
struct Step {
    step: u64,
    phase: usize,
    views: usize,
    view_length: usize,
}

impl Worker {
    /// Makes and sends the microbatches of one step; `false` once nobody wants them any more.
    fn step(
        &self,
        dataset: &dyn Dataset,
        step: Step,
        records: &[usize],
        show: impl Fn(usize, &crate::Image, &mut [f32]) -> Result<(), DataError> + Sync,
    ) -> Result<bool, DataError> {
        let size = if self.microbatch == 0 { records.len().max(1) } else { self.microbatch };
        // An empty batch is still a step.
        let empty: [&[usize]; 1] = [&[]];
        let pieces = records.chunks(size).chain(empty.into_iter().filter(|_| records.is_empty()));
        for (number, piece) in pieces.enumerate() {
            let mut inputs = self.spares.try_recv().unwrap_or_default();
            let length = step.views * step.view_length;
            inputs.resize(piece.len() * length, 0.0);
            let labels = self.fill(dataset, piece, &mut inputs, length, &show)?;
            let microbatch = Microbatch {
                step: step.step,
                phase: step.phase,
                records: piece.to_vec(),
                labels,
                inputs,
                views: step.views,
                first: number * size,
                total: records.len(),
            };
            if self.stop.load(Ordering::Relaxed) || self.sender.send(Ok(microbatch)).is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads and shows each record; of several errors the one of the first record counts, whichever came first.
    fn fill(
        &self,
        dataset: &dyn Dataset,
        records: &[usize],
        inputs: &mut [f32],
        length: usize,
        show: &(impl Fn(usize, &crate::Image, &mut [f32]) -> Result<(), DataError> + Sync),
    ) -> Result<Vec<u32>, DataError> {
        let stop = &*self.stop;
        let one = |(&record, output): (&usize, &mut [f32])| {
            if stop.load(Ordering::Relaxed) {
                return Ok(0);
            }
            let label = dataset.label(record)?;
            let shown = dataset.read(record).and_then(|image| show(record, &image, output));
            shown.map_err(|error| error.at(|| dataset.place(record)))?;
            Ok(label)
        };
        let labels: Vec<Result<u32, DataError>> = self.pool.install(|| {
            records.par_iter().zip(inputs.par_chunks_exact_mut(length.max(1))).map(one).collect()
        });
        labels.into_iter().collect()
    }
}
