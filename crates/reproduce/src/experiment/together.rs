//! Carries out several runs at once.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use dapple_plan::spec::Performance;
use dapple_train::{Event, FeatureShelf, Observer, Request, Status};

use super::run::{self, FinishedRun, PlannedRun};
use super::{Experiment, memory};
use crate::error::{ReproduceError, Result};
use crate::watch::Watch;

/// Finishes runs in folders of their names: starts them, resumes them, or reads them where they are finished already. All
/// folders are looked at before anything is trained, so that a run of another plan is refused at once.
///
/// As many runs train at once as there are cores, or `jobs`; each takes its share of the threads. Without `jobs`, memory is a limit
/// too: the first run begins alone, and what it takes after a step tells how many fit. An interrupt or a failure ends all runs in
/// order, so that they can be resumed.
pub(super) fn carry_out(experiment: &Experiment<'_>, runs: &[PlannedRun]) -> Result<Vec<FinishedRun>> {
    let &Experiment { place, jobs, watch, .. } = experiment;
    let mut finished: Vec<Option<FinishedRun>> = Vec::new();
    let mut waiting = VecDeque::new();
    for (number, planned) in runs.iter().enumerate() {
        let folder = place.join(&planned.name);
        let begun = run::begun(planned, &folder)?;
        let is_begun = begun.is_some();
        finished.push(match begun.filter(|certificate| certificate.status == Status::Finished) {
            Some(certificate) => Some(FinishedRun::read(certificate, &folder)?),
            None => {
                waiting.push_back((number, is_begun));
                None
            }
        });
    }
    let crew = Crew {
        runs,
        performance: experiment.performance(),
        place,
        watch,
        waiting: Mutex::new(waiting),
        stop: AtomicBool::new(false),
        results: Mutex::new(Vec::new()),
        shelf: FeatureShelf::default(),
    };
    crew.work(jobs);
    let results = crew.results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut interrupted = false;
    for (number, result) in results {
        match result {
            Ok(run) => finished[number] = Some(run),
            // What went wrong comes before what was ended because of it.
            Err(ReproduceError::Interrupted) => interrupted = true,
            Err(error) => return Err(error),
        }
    }
    let all: Option<Vec<FinishedRun>> = finished.into_iter().collect();
    let all = all.filter(|_| !interrupted).ok_or(ReproduceError::Interrupted)?;
    for (planned, run) in runs.iter().zip(&all).filter(|(_, run)| run.lost > 0) {
        let (name, lost, steps) = (&planned.name, run.lost, run.certificate.steps_spent);
        let text = format!(
            "{name}: a crash lost the updates of {lost} of its {steps} steps, so it does not compare with the others; \
             remove its folder to have it trained anew"
        );
        // There is nothing left that could be stopped.
        let _ = watch.run(name).notice(&Event::Warning(&text));
    }
    Ok(all)
}

/// What the threads that carry out runs share.
struct Crew<'a> {
    runs: &'a [PlannedRun],
    /// What replaces the settings of every run.
    performance: Performance,
    place: &'a Path,
    watch: &'a dyn Watch,
    /// Runs to carry out, and whether they were begun before.
    waiting: Mutex<VecDeque<(usize, bool)>>,
    /// Whether all runs are to end in order.
    stop: AtomicBool,
    results: Mutex<Vec<(usize, Result<FinishedRun>)>>,
    shelf: FeatureShelf,
}

impl Crew<'_> {
    fn work(&self, jobs: Option<usize>) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let left = lock(&self.waiting).len();
        let wanted = jobs.unwrap_or_else(|| if self.needs_card() { 1 } else { cores }).clamp(1, left.max(1));
        let before = memory::resident();
        let (stepped, first) = channel();
        std::thread::scope(|scope| {
            scope.spawn(move || self.take_runs(cores.div_ceil(wanted), Some(stepped)));
            let together = match jobs {
                None if wanted > 1 => fitting(&first, wanted, before),
                _ => wanted,
            };
            for _ in 1..together {
                scope.spawn(move || self.take_runs(cores.div_ceil(together), None));
            }
        });
    }

    /// Whether a run is to compute on a card, whatever else there is.
    fn needs_card(&self) -> bool {
        let mut devices =
            self.runs.iter().map(|run| run.request.spec.performance.merge(&self.performance).device);
        devices.any(|device| device.is_some_and(|device| device.needs_gpu()))
    }

    /// Carries out one run after another; tells when the first has taken a step.
    fn take_runs(&self, threads: usize, mut stepped: Option<Sender<FirstStep>>) {
        loop {
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let Some((number, begun)) = lock(&self.waiting).pop_front() else { return };
            let run = &self.runs[number];
            let mut observer = WatchedRun {
                progress: self.watch.run(&run.name),
                stop: &self.stop,
                stepped: stepped.take(),
                on_card: false,
            };
            let own = on_its_share(run, &self.performance, threads);
            let result =
                run::carry_through(&own, begun, &self.place.join(&run.name), &self.shelf, &mut observer)
                    .map_err(|error| naming(error, &run.name));
            if result.is_err() {
                self.stop.store(true, Ordering::SeqCst);
            }
            lock(&self.results).push((number, result));
        }
    }
}

/// The same failure, and which of the runs it stopped.
fn naming(error: ReproduceError, run: &str) -> ReproduceError {
    match error {
        ReproduceError::Train(source) => {
            ReproduceError::Run { run: run.to_owned(), source: Box::new(source) }
        }
        ReproduceError::Failed { message, hint } => {
            ReproduceError::Failed { message: format!("{run}: {message}"), hint }
        }
        other => other,
    }
}

/// What a lock guards; a thread that panicked while it held one has already failed the test or the program.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many runs can train at once, the first included, once that has taken a step. The memory of a card is not known here, so its runs come
/// one after another.
fn fitting(first: &Receiver<FirstStep>, wanted: usize, before: Option<u64>) -> usize {
    match first.recv() {
        Ok(FirstStep { on_card: true }) => 1,
        Ok(FirstStep { on_card: false }) => {
            let each = memory::resident().zip(before).map(|(now, before)| now.saturating_sub(before));
            memory::allows(wanted, each)
        }
        // It ended without a step.
        Err(_) => wanted,
    }
}

/// The message that the first run has taken a step.
struct FirstStep {
    /// Whether it runs on a GPU, even if the plan did not ask for one.
    on_card: bool,
}

/// The same run where all are to compute, with its share of the threads unless the plan says how many.
fn on_its_share(run: &PlannedRun, performance: &Performance, threads: usize) -> PlannedRun {
    let Request { spec, base, masks } = &run.request;
    let mut spec = spec.clone();
    spec.performance = spec.performance.merge(performance);
    spec.performance.threads = spec.performance.threads.or(u32::try_from(threads).ok());
    let request = Request { spec, base: base.clone(), masks: masks.clone() };
    PlannedRun { name: run.name.clone(), request, budget: run.budget.clone() }
}

/// Shows a run, and ends it when another has failed.
struct WatchedRun<'a> {
    progress: Box<dyn Observer + 'a>,
    stop: &'a AtomicBool,
    /// Is told of the first step, then dropped.
    stepped: Option<Sender<FirstStep>>,
    on_card: bool,
}

impl Observer for WatchedRun<'_> {
    fn notice(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        match event {
            Event::Begins { machine, .. } => self.on_card = machine.starts_with("cuda"),
            Event::Step(_) => {
                if let Some(stepped) = self.stepped.take() {
                    // Whoever waited may have gone.
                    let _ = stepped.send(FirstStep { on_card: self.on_card });
                }
            }
            _ => {}
        }
        let flow = self.progress.notice(event);
        if self.stop.load(Ordering::SeqCst) { ControlFlow::Break(()) } else { flow }
    }
}
