//! Reads, decodes and crops ahead of the trainer, on threads of its own.

mod microbatch;
mod training;
mod worker;

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rayon::ThreadPoolBuilder;

use crate::keys::{MasterKey, Purpose, PurposeKey};
use crate::sampler::Sampler;
use crate::views::MAX_PIXELS;
use crate::{DataError, Dataset, Target, TargetKind, Views};
use worker::{LoaderWorker, SampleSet, Step};

pub use microbatch::{Labels, Microbatch};

/// The most values of a microbatch for evaluation whose size is not given: 64 MiB of them.
const EVALUATION_VALUES: usize = 1 << 24;

/// The most microbatches that may be made ahead.
const MOST_AHEAD: usize = 1024;

/// Which samples of every step one of several processes shows. Of all samples in the order in which one process would show them, every
/// `processes`-th is its own, so that no process has more than one sample more than another. Where not every process has all records, each
/// shows those of its own.
///
/// # Guarantee
/// Every sample that a step draws is shown by exactly one of the processes `0..processes`, in the same views as if there were one process, as
/// long as all have the same `owners`, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleShare {
    /// The number of the process, from 0.
    pub process: usize,
    /// How many processes there are, at least 1.
    pub processes: usize,
    /// The process that shows each record. Records that are clipped together are shown by the process of the first.
    pub owners: Option<Arc<[usize]>>,
}

impl Default for SampleShare {
    /// All samples are shown by one process.
    fn default() -> Self {
        Self { process: 0, processes: 1, owners: None }
    }
}

/// Options that change speed and memory, and which part of each step is shown here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoaderOptions {
    /// Threads that decode and crop; 0 for as many as there are cores.
    pub threads: usize,
    /// Microbatches made ahead, from 1 to 1024. Other numbers are brought to the nearer end.
    pub prefetch: usize,
    /// Records of a microbatch; 0 for the whole batch at once.
    pub microbatch: usize,
    /// Which samples of a step are shown, if several processes share it.
    pub share: SampleShare,
}

impl Default for LoaderOptions {
    fn default() -> Self {
        Self { threads: 0, prefetch: 2, microbatch: 0, share: SampleShare::default() }
    }
}

/// The keys of what a loader draws in each step.
#[derive(Debug, Clone)]
pub struct LoaderKeys {
    /// Views of records, and what is shown beside them.
    pub views: PurposeKey,
    /// Which records are clipped together.
    pub clip_groups: PurposeKey,
    /// Which submodel each record updates.
    pub submodels: PurposeKey,
    /// Which of a user's records are shown.
    pub user_records: PurposeKey,
}

impl LoaderKeys {
    /// The keys that follow from a master key.
    #[must_use]
    pub fn of(master: &MasterKey) -> Self {
        Self {
            views: master.purpose(Purpose::Views),
            clip_groups: master.purpose(Purpose::ClipGroups),
            submodels: master.purpose(Purpose::Submodels),
            user_records: master.purpose(Purpose::UserRecords),
        }
    }
}

/// An iterator over the microbatches of a run, in order, or over all records of a data set.
///
/// # Guarantee
/// What it yields is a function of the data set, the sampler, the views, the key and the share: neither the number of threads nor the prefetch nor
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
    /// Loads the given steps of a plan. `views` holds the views of each phase in order. If the data set tells users, the sampler draws these,
    /// and each comes as one microbatch, whatever the options say.
    ///
    /// # Errors
    /// Steps beyond the plan's end, a phase without views, threads that cannot be started.
    pub fn train(
        dataset: Arc<dyn Dataset>,
        mut sampler: Sampler,
        views: Vec<Views>,
        keys: LoaderKeys,
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
        let share = options.share.clone();
        Self::start(options, move |worker| {
            for step in steps {
                let draw = sampler.draw(step)?;
                let made = training::train(worker, &*dataset, &views[draw.phase], &keys, (draw, &share))?;
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
            let (together, records, count) = (1, (0..dataset.len()).collect(), views.evaluation_views(grid));
            let label_length = match dataset.target_kind() {
                TargetKind::Class => 1,
                TargetKind::LabelMap => views.positions(),
            };
            let sets = vec![SampleSet { together, records, views: count, submodel: None, user: None }];
            let (drawn, view_length) = (dataset.len(), views.view_length());
            let step = Step { step: 0, phase: 0, sets, drawn, view_length, label_length };
            worker.step(&step, |records, output, labels: &mut [u32]| {
                records.iter().try_for_each(|&record| {
                    evaluate(&*dataset, record, &views, grid, output, labels)
                        .map_err(|error| error.at(|| dataset.place(record)))
                })
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

/// Shows a record as it is evaluated.
fn evaluate(
    dataset: &dyn Dataset,
    record: usize,
    views: &Views,
    grid: u32,
    output: &mut [f32],
    labels: &mut [u32],
) -> Result<(), DataError> {
    let target = dataset.target(record)?;
    let image = dataset.read(record)?;
    match target {
        Target::Class(class) => {
            labels.fill(class);
            views.evaluate(&image, grid, output)
        }
        Target::Map(map) => views.evaluate_labelled(&image, &map, grid, output, labels),
    }
}
