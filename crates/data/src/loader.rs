//! Reads, decodes and crops ahead of the trainer, on threads of its own.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::keys::PurposeKey;
use crate::sampler::Sampler;
use crate::views::MAX_PIXELS;
use crate::{DataError, Dataset, Image, LabelMap, Target, TargetKind, Views};

/// The most values of a microbatch for evaluation whose size is not given: 64 MiB of them.
const EVALUATION_VALUES: usize = 1 << 24;

/// The most microbatches that may be made ahead.
const MOST_AHEAD: usize = 1024;

/// Nanoseconds of work below which one thread is done before others would have woken up.
const WORTH_THREADS: u64 = 500_000;

/// Options that change speed and memory, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoaderOptions {
    /// Threads that decode and crop; 0 for as many as there are cores.
    pub threads: usize,
    /// Microbatches made ahead, from 1 to 1024. Other numbers are brought to the nearer end.
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
    /// The step, counted from 0; always 0 in evaluation.
    pub step: u64,
    /// The phase of the plan that the step belongs to.
    pub phase: usize,
    /// Which records these are.
    pub records: Vec<usize>,
    /// What the model is to say: `[records, views]` classes, or for label maps `[records, views, height, width]`, where
    /// [`IGNORED`](crate::IGNORED) marks a position without a class.
    pub labels: Vec<u32>,
    /// `[records, views, channels, height, width]`.
    pub inputs: Vec<f32>,
    /// Views of each record.
    pub views: usize,
    /// How many records of the step came in earlier microbatches.
    pub first: usize,
    /// Records of the whole step; 0 for an empty Poisson batch, which comes as one microbatch without records.
    pub total: usize,
}

impl Microbatch {
    /// Whether this is the last microbatch of its step.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.first + self.records.len() == self.total
    }
}

/// An iterator over the microbatches of a run, in order, or over all records of a data set.
///
/// # Guarantee
/// What it yields is a function of the data set, the sampler, the views and the key: neither the number of threads nor the prefetch nor
/// the size of microbatches changes a value. Every view is drawn anew in every step, from a stream of its own for each (step, record),
/// and no view is kept. Memory holds `prefetch` microbatches beside the one in use. The next one is begun only when that one is given
/// back, so the loader's threads work while the trainer does and not while the engine needs the cores. The iterator ends after an error.
/// Dropping it stops its threads and waits for them.
pub struct Loader {
    microbatches: Option<Receiver<Result<Microbatch, DataError>>>,
    /// Each message lets the worker make one more microbatch.
    more: Option<Sender<()>>,
    spare: Sender<Vec<f32>>,
    /// Whether the last microbatch handed out is still in use.
    in_use: bool,
    /// The first microbatch, if [`Loader::prepare`] has waited for it.
    first: Option<Microbatch>,
    stop: Arc<AtomicBool>,
    worker: Option<JoinHandle<()>>,
}

impl Loader {
    /// Loads the given steps of a plan. `views` holds the views of each phase in order.
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
                return Err(DataError::setting("phases", problem));
            }
        }
        Self::start(options, move |worker| {
            for step in steps {
                let draw = sampler.draw(step)?;
                let views = &views[draw.phase];
                let key = key.step(step);
                let step = Step::new(step, draw.phase, views, views.count());
                let made =
                    worker.step(&*dataset, step, &draw.indices, |record, image, map, output, labels| {
                        let random = &mut key.stream(record as u64);
                        match map {
                            None => views.draw(image, random, output),
                            Some(map) => views.draw_labelled(image, map, random, output, labels),
                        }
                    })?;
                if !made {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Loads all records once, in order, as [`Views::evaluate`] shows them. A microbatch size of 0 means 256 records here, or fewer where
    /// 64 MiB hold no more.
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
            return Err(DataError::setting("train.evaluation_grid", problem));
        }
        let microbatch = match options.microbatch {
            0 => (EVALUATION_VALUES / record.max(1)).clamp(1, 256),
            given => given,
        };
        Self::start(LoaderOptions { microbatch, ..options }, move |worker| {
            let records: Vec<usize> = (0..dataset.len()).collect();
            let step = Step::new(0, 0, &views, views.evaluation_views(grid));
            worker.step(&*dataset, step, &records, |_, image, map, output, labels| match map {
                None => views.evaluate(image, grid, output),
                Some(map) => views.evaluate_labelled(image, map, grid, output, labels),
            })?;
            Ok(())
        })
    }

    /// Waits for the first microbatch, so that a fault in its records is known before anything else is done.
    ///
    /// # Errors
    /// A record that cannot be read or shown.
    pub fn prepare(&mut self) -> Result<(), DataError> {
        if self.first.is_none() {
            self.first = self.next().transpose()?;
        }
        Ok(())
    }

    /// Takes back a microbatch whose values are no longer needed, to use its memory again.
    pub fn recycle(&mut self, microbatch: Microbatch) {
        // If the worker is gone, nobody needs the memory.
        let _ = self.spare.send(microbatch.inputs);
        self.let_go();
    }

    /// Notes that the last microbatch is no longer in use, which lets the worker make another one.
    fn let_go(&mut self) {
        if let Some(more) = self.more.as_ref().filter(|_| self.in_use) {
            // If the worker is gone, it makes no more.
            let _ = more.send(());
        }
        self.in_use = false;
    }

    fn start(
        options: LoaderOptions,
        work: impl FnOnce(&LoaderWorker) -> Result<(), DataError> + Send + 'static,
    ) -> Result<Self, DataError> {
        let failed = |problem: String| DataError::Threads { problem };
        let pool = ThreadPoolBuilder::new()
            .num_threads(options.threads)
            .thread_name(|number| format!("dapple-data-{number}"))
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let (sender, microbatches) = channel();
        let (spare, spares) = channel();
        let (more, wanted) = channel();
        for _ in 0..=options.prefetch.clamp(1, MOST_AHEAD) {
            // Sending cannot fail, because the receiver is still in this function.
            let _ = more.send(());
        }
        let stop = Arc::new(AtomicBool::new(false));
        let worker = LoaderWorker {
            pool,
            sender,
            wanted,
            spares,
            stop: Arc::clone(&stop),
            microbatch: options.microbatch,
            quickest: Cell::new(u64::MAX),
        };
        let thread = std::thread::Builder::new().name("dapple-data".to_owned()).spawn(move || {
            if let Err(error) = work(&worker) {
                // If the loader was dropped, nobody listens any more.
                let _ = worker.sender.send(Err(error));
            }
        });
        let worker = Some(thread.map_err(|error| failed(error.to_string()))?);
        Ok(Self {
            microbatches: Some(microbatches),
            more: Some(more),
            spare,
            in_use: false,
            first: None,
            stop,
            worker,
        })
    }

    /// Waits for the worker to end; `false` if it was lost in a panic.
    fn join(&mut self) -> bool {
        (self.microbatches, self.more) = (None, None);
        self.worker.take().is_none_or(|worker| worker.join().is_ok())
    }
}

impl Iterator for Loader {
    type Item = Result<Microbatch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        // A microbatch that was not given back by now never will be: it was dropped, or its holder keeps it.
        self.let_go();
        match self.microbatches.as_ref()?.recv() {
            Ok(Ok(microbatch)) => {
                self.in_use = true;
                Some(Ok(microbatch))
            }
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

/// What the loader's own thread works with.
struct LoaderWorker {
    pool: ThreadPool,
    sender: Sender<Result<Microbatch, DataError>>,
    wanted: Receiver<()>,
    spares: Receiver<Vec<f32>>,
    stop: Arc<AtomicBool>,
    microbatch: usize,
    /// Nanoseconds that the quickest record of the last microbatch took. Other processes disturb this measure less than any other.
    quickest: Cell<u64>,
}

/// What is known of a step apart from its records.
#[derive(Clone, Copy)]
struct Step {
    step: u64,
    phase: usize,
    views: usize,
    view_length: usize,
    positions: usize,
}

impl Step {
    fn new(step: u64, phase: usize, of: &Views, views: usize) -> Self {
        Self { step, phase, views, view_length: of.view_length(), positions: of.positions() }
    }
}

/// Makes the views of a record. It gets the record's number, image and label map (where there is one), the place for the views and the
/// place for their labels.
trait Show: Fn(usize, &Image, Option<&LabelMap>, &mut [f32], &mut [u32]) -> Result<(), DataError> + Sync {}

impl<F> Show for F where
    F: Fn(usize, &Image, Option<&LabelMap>, &mut [f32], &mut [u32]) -> Result<(), DataError> + Sync
{
}

impl LoaderWorker {
    /// Makes and sends the microbatches of one step. Returns `false` once nobody wants them any more.
    fn step(
        &self,
        dataset: &dyn Dataset,
        step: Step,
        records: &[usize],
        show: impl Show,
    ) -> Result<bool, DataError> {
        let size = if self.microbatch == 0 { records.len().max(1) } else { self.microbatch };
        // An empty batch is still a step.
        let empty: [&[usize]; 1] = [&[]];
        let pieces = records.chunks(size).chain(empty.into_iter().filter(|_| records.is_empty()));
        let labels_length = step.views
            * match dataset.target_kind() {
                TargetKind::Class => 1,
                TargetKind::LabelMap => step.positions,
            };
        for (number, piece) in pieces.enumerate() {
            if self.wanted.recv().is_err() {
                return Ok(false);
            }
            let mut inputs = self.spares.try_recv().unwrap_or_default();
            inputs.resize(piece.len() * step.views * step.view_length, 0.0);
            let mut labels = vec![0; piece.len() * labels_length];
            self.fill(dataset, piece, &mut inputs, &mut labels, &show)?;
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

    /// Reads and shows each record. Of several errors it returns the one of the first record, whichever happened first.
    fn fill(
        &self,
        dataset: &dyn Dataset,
        records: &[usize],
        inputs: &mut [f32],
        labels: &mut [u32],
        show: &impl Show,
    ) -> Result<(), DataError> {
        let stop = &*self.stop;
        let quickest = AtomicU64::new(u64::MAX);
        let one = |((&record, output), labels): ((&usize, &mut [f32]), &mut [u32])| {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let began = Instant::now();
            let target = dataset.target(record)?;
            let image = dataset.read(record)?;
            let map = match &target {
                Target::Map(map) => Some(map),
                Target::Class(class) => {
                    labels.fill(*class);
                    None
                }
            };
            show(record, &image, map, output, labels).map_err(|error| error.at(|| dataset.place(record)))?;
            let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            quickest.fetch_min(took, Ordering::Relaxed);
            Ok(())
        };
        let count = records.len().max(1);
        let (inputs_each, labels_each) = ((inputs.len() / count).max(1), (labels.len() / count).max(1));
        if self.quickest.get().saturating_mul(count as u64) < WORTH_THREADS {
            let inputs = inputs.chunks_exact_mut(inputs_each);
            records.iter().zip(inputs).zip(labels.chunks_exact_mut(labels_each)).try_for_each(one)?;
        } else {
            let outcomes: Vec<Result<(), DataError>> = self.pool.install(|| {
                let inputs = inputs.par_chunks_exact_mut(inputs_each);
                let labels = labels.par_chunks_exact_mut(labels_each);
                records.par_iter().zip(inputs).zip(labels).map(one).collect()
            });
            outcomes.into_iter().collect::<Result<(), DataError>>()?;
        }
        if !records.is_empty() {
            self.quickest.set(quickest.into_inner());
        }
        Ok(())
    }
}
