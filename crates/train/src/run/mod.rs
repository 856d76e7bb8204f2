//! A run from its first step to its certificate, across crashes.

mod among;
mod dry;
mod export;
mod follow;
mod keys;
mod loaders;
mod open;
mod rehearsal;
mod shown;

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use dapple_data::{LoaderOptions, SampleShare, Sampler};
use dapple_plan::spec::Performance;
use serde::Serialize;

use crate::budget::{Share, Within};
use crate::certificate::{RunCertificate, Status};
use crate::checkpoint::{Checkpoint, CheckpointPlace};
use crate::device::Planned;
use crate::error::TrainError;
use crate::evaluation::{Evaluation, Evaluator};
use crate::features::FeatureShelf;
use crate::files;
use crate::folder::Folder;
use crate::ledger::{History, Ledger, LedgerEntry};
use crate::lines::{Lines, json_line};
use crate::norms::NormHistograms;
use crate::observer::{Event, Observer, StepReport};
use crate::pace::{self, Engine, Pace};
use crate::prepare::{Prepared, Request};
use crate::ranks::RankOrder;
use crate::step::{Taken, Trainer};
use crate::stop::{self, StopWatch};
use crate::tensorboard::EventFiles;
use crate::terms::Cost;
use keys::Keys;
use loaders::StepLoaders;
use open::OldRun;

pub use among::{resume_among, start_among};
pub use dry::{Estimate, Readiness, check, estimate};
pub use follow::follow;
pub use open::{certify, evaluate, evaluate_watched, evaluate_with};
pub(crate) use open::{fresh_bytes, hidden_fingerprint, open_run};
pub use rehearsal::{Completed, Rehearsal, complete, complete_without_records};

/// How long a run that was asked to stop may still take promised steps, which would be lost otherwise.
const PATIENCE: Duration = Duration::from_secs(2);
/// The certificate of a run in progress is ahead of the ledger by at least one in this many of its steps.
const AHEAD: u64 = 8;

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// What was promised and spent.
    pub certificate: RunCertificate,
    /// Updates of the weights, which are fewer than steps if a crash lost some.
    pub updates: u64,
    /// The last evaluation, if there is a test set.
    pub evaluation: Option<Evaluation>,
}

/// Starts a run in an empty or new folder and carries it through.
///
/// # Guarantee
/// The certificate that is returned and the one in the folder hold for everything that the run released. Nothing was released that the
/// ledger had not counted before.
///
/// # Errors
/// Everything that is wrong with the plan or the data is found before anything is written. A step that fails ends the run, and what was
/// spent is in the ledger.
pub fn start(request: &Request, out: &Path, observer: &mut dyn Observer) -> Result<RunOutcome, TrainError> {
    start_within(request, out, None, observer)
}

/// As [`start`], but the run is counted in a budget before it begins.
///
/// # Guarantee
/// As [`start`]. The budget counts the whole plan before the run's ledger begins, and what the ledger counts once the run has ended in
/// order.
///
/// # Errors
/// As [`start`], and a run for which the budget has no room. Nothing is written then.
pub fn start_within(
    request: &Request,
    out: &Path,
    budget: Option<&Within>,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, TrainError> {
    start_beside(request, out, (budget, &FeatureShelf::default()), observer)
}

/// As [`start_within`], beside other runs of this process that may have the same frozen trunk and the same records: what it makes of these is
/// computed once for all.
///
/// # Guarantee
/// That of [`start_within`].
///
/// # Errors
/// As [`start_within`].
pub fn start_beside(
    request: &Request,
    out: &Path,
    (budget, shelf): (Option<&Within>, &FeatureShelf),
    observer: &mut dyn Observer,
) -> Result<RunOutcome, TrainError> {
    let prepared = Prepared::new(request)?;
    prepared.check_shards()?;
    prepared.check_records()?;
    let run = Run::create(prepared, out, budget)?;
    Run { shelf: shelf.clone(), ..run }.carry_through(observer)
}

/// Goes on with a run that was stopped or killed. A run that is complete is left as it is.
///
/// # Guarantee
/// As [`start`]. Steps that were promised before but whose result is lost stay spent and are not taken again, so the run never spends
/// more than was planned. Only in deterministic mode are they repeated, bit by bit as they were.
///
/// # Errors
/// A plan, data set or weights file other than the run began with, an edited ledger, or a run that another process holds.
pub fn resume(folder: &Path, observer: &mut dyn Observer) -> Result<RunOutcome, TrainError> {
    resume_with(folder, &Performance::default(), observer)
}

/// As [`resume`], with other settings of speed and memory than the run began with, where they are given. The device may be another one
/// too.
///
/// # Errors
/// As [`resume`].
pub fn resume_with(
    folder: &Path,
    performance: &Performance,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, TrainError> {
    resume_within(folder, performance, None, observer)
}

/// As [`resume_with`], in a budget. If a budget counts the run already, it may have been moved to this path, and its total may be
/// lowered. Otherwise the run is counted from here on.
///
/// # Errors
/// As [`resume_with`], and a run for which the budget has no room.
pub fn resume_within(
    folder: &Path,
    performance: &Performance,
    budget: Option<&Within>,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, TrainError> {
    resume_beside(folder, performance, (budget, &FeatureShelf::default()), observer)
}

/// As [`resume_within`], beside other runs of this process, as in [`start_beside`].
///
/// # Errors
/// As [`resume_within`].
pub fn resume_beside(
    folder: &Path,
    performance: &Performance,
    (budget, shelf): (Option<&Within>, &FeatureShelf),
    observer: &mut dyn Observer,
) -> Result<RunOutcome, TrainError> {
    let old = OldRun::open(folder, performance)?;
    old.prepared.check_shards()?;
    let run = Run::again(old, budget)?;
    Run { shelf: shelf.clone(), ..run }.carry_through(observer)
}

/// A run that this process holds.
struct Run {
    folder: Folder,
    prepared: Prepared,
    trainer: Trainer,
    ledger: Ledger,
    keys: Keys,
    /// The next step of the plan.
    step: u64,
    began: Instant,
    /// The cost of the whole plan.
    whole: Cost,
    /// What `certificate.json` says is spent. It is never less than the ledger counts, even if the process dies now.
    covered: Option<Cost>,
    evaluator: Evaluator,
    evaluated: Option<(u64, Evaluation)>,
    metrics: Lines,
    diagnostics: Lines,
    /// Histograms of gradient norms, where the plan asks for them.
    norms: Option<NormHistograms>,
    /// Event files for TensorBoard, where the plan asks for them, from the first step of this process on.
    events: Option<EventFiles>,
    /// What a user should know before the first step.
    notes: Vec<String>,
    /// What a budget has set aside for the run.
    share: Option<Share>,
    /// Features that other runs of this process may have made.
    shelf: FeatureShelf,
}

impl Run {
    fn carry_through(mut self, observer: &mut dyn Observer) -> Result<RunOutcome, TrainError> {
        let observer: &mut dyn Observer = &mut StopWatch::new(observer, &self.folder);
        let steps = self.prepared.plan().steps();
        for note in &self.notes {
            // If the observer wants to stop here, it is asked again at the first step.
            let _ = observer.notice(&Event::Warning(note));
        }
        let machine = match &self.prepared.ranks {
            Some(ranks) => format!("{} on {} ranks", self.trainer.machine(), ranks.size()),
            None => self.trainer.machine().to_owned(),
        };
        let begins = Event::Begins {
            steps,
            after: self.step,
            trainable: self.prepared.graphs[0].trainable_len(),
            epsilon: self.prepared.planned.as_ref().map(|planned| planned.epsilon.upper),
            machine: &machine,
        };
        let mut flow = observer.notice(&begins);
        let trained =
            if flow.is_break() || self.step >= steps { Ok(()) } else { self.train(observer, &mut flow) };
        if let Err(error) = trained.and_then(|()| self.close(observer)) {
            self.record_failure(&error);
            let _ = self.settle();
            return Err(error);
        }
        let certificate = self.certify_end()?;
        // A request that is left is removed by whoever takes the run up.
        let _ = stop::forget_requests(&self.folder);
        if let Err(error) = self.settle() {
            let note = format!("the budget counts the whole plan: {error}");
            let _ = observer.notice(&Event::Warning(&note));
        }
        let evaluation = self.evaluated.map(|(_, evaluation)| evaluation);
        Ok(RunOutcome { certificate, updates: self.trainer.updates(), evaluation })
    }

    /// Writes down that the run ends here. None of this has to succeed, because the ledger already counts every step that began. The
    /// error may tell something about a record, so its text goes where records may.
    fn record_failure(&mut self, error: &TrainError) {
        let reason = "an error".to_owned();
        let told = self.tell(&LedgerEntry::Stopped { step: self.step, reason }).is_ok();
        let line = serde_json::json!({ "step": self.step, "error": error.to_string() });
        let _ = self.diagnostics.add(&json_line(&line));
        if told {
            let _ = self.certify_end();
        }
    }

    /// Gives back to the budget what was not spent. If that fails or never happens, the whole plan stays counted.
    fn settle(&mut self) -> Result<(), TrainError> {
        let Some(share) = self.share.take() else { return Ok(()) };
        let path = self.folder.ledger();
        let history =
            History::read(&files::read(&path)?).map_err(|source| TrainError::Ledger { path, source })?;
        share.settle(&history)
    }

    /// Whether all steps of the plan are taken.
    fn complete(&self) -> bool {
        self.step >= self.prepared.plan().steps()
    }

    /// Does what is left after the last step, or after a request to stop.
    fn close(&mut self, observer: &mut dyn Observer) -> Result<(), TrainError> {
        if !self.complete() {
            let reason = "asked to stop".to_owned();
            return self.tell(&LedgerEntry::Stopped { step: self.step, reason });
        }
        if !self.ledger.history().finished() {
            self.evaluate(observer)?;
            let model = Some(self.write_model()?);
            self.tell(&LedgerEntry::Finished { step: self.step, model })?;
        }
        Ok(())
    }

    fn train(&mut self, observer: &mut dyn Observer, flow: &mut ControlFlow<()>) -> Result<(), TrainError> {
        if self.prepared.training.conduct.tensorboard {
            self.events = Some(EventFiles::begin(&self.folder, self.step)?);
        }
        let steps = self.prepared.plan().steps();
        let machine = self.trainer.machine();
        let ranks = self.prepared.ranks.as_ref().map(|ranks| ranks.size() as u64);
        let used = self.ledger.history().machines().last();
        if used.map(|used| (used.machine.as_str(), used.ranks)) != Some((machine, ranks)) {
            let entry = LedgerEntry::Machine { step: self.step, machine: machine.to_owned(), ranks };
            self.tell(&entry)?;
            // From here on the certificate says what ranks that share the run assume.
            if let Some(covered) = self.covered.as_ref().filter(|_| ranks.is_some()) {
                self.write_certificate(Status::Running, covered)?;
            }
        }
        let sampler = self.sampler()?;
        let Some(shown) = self.shown(observer)? else {
            *flow = ControlFlow::Break(());
            return Ok(());
        };
        self.order(RankOrder::Prepare(self.step));
        let (drawn_from, cards) = ((&self.prepared, &self.keys), self.trainer.cards());
        let loaders = StepLoaders::new(drawn_from, shown, &sampler, self.step..steps, cards);
        // A fault in the first records should cost no step.
        let loaders = loaders.and_then(StepLoaders::prepared);
        if let Some(ranks) = &self.prepared.ranks {
            ranks.agree(&loaders).or_else(|failed| loaders.as_ref().map_or(Ok(()), |_| Err(failed)))?;
        }
        let mut loaders = loaders?;
        let mut pace = self.pace();
        let (first_checkpoint, checkpoint_every) = match self.prepared.training.conduct.checkpoint_every {
            Some(every) => (every, every),
            None => (pace.first_checkpoint(steps), pace.checkpoint_every()),
        };
        let mut asked = None;
        while self.step < steps && flow.is_continue() {
            let block = pace.block(self.steps_to_boundary(&sampler, (first_checkpoint, checkpoint_every))?);
            let event = sampler.event(self.step)?;
            let clip_norm = self.trainer.adapted_clip_norm();
            self.tell(&LedgerEntry::Promise { first: self.step, steps: block, event, clip_norm })?;
            if let Some(share) = &mut self.share {
                share.promised(self.ledger.history())?;
            }
            for _ in 0..block {
                self.order(RankOrder::Step(self.step));
                let taken = loaders
                    .step(&mut self.trainer, &self.keys.step, self.step)
                    .map_err(|source| TrainError::Step { step: self.step + 1, source: Box::new(source) })?;
                self.step += 1;
                self.write_diagnostics(&taken)?;
                if observer.notice(&Event::Step(self.report(&taken))).is_break() {
                    *flow = ControlFlow::Break(());
                    asked.get_or_insert_with(Instant::now);
                }
                if asked.is_some_and(|asked| asked.elapsed() >= PATIENCE) {
                    break;
                }
            }
            pace.grow();
            if self
                .prepared
                .training
                .conduct
                .evaluate_every
                .is_some_and(|every| self.step.is_multiple_of(every))
            {
                self.evaluate(observer)?;
            }
            let due = self.step == first_checkpoint || self.step.is_multiple_of(checkpoint_every);
            if due || self.step == steps || flow.is_break() {
                self.write_checkpoint(observer)?;
            }
        }
        Ok(())
    }

    /// The pace at which this machine takes the plan's steps, from public facts about both.
    fn pace(&self) -> Pace {
        let threads = self.prepared.training.performance.threads;
        let ranks = self.prepared.ranks.as_ref().map_or(1, |ranks| ranks.size());
        let engine = match (self.trainer.machine(), threads) {
            ("cpu", 0) => {
                Engine::Threads(ranks * std::thread::available_parallelism().map_or(1, usize::from))
            }
            ("cpu", threads) => Engine::Threads(ranks * threads),
            _ => Engine::Cards(self.trainer.cards()),
        };
        let parts = self.prepared.parts().iter().zip(self.trainer.graphs()).zip(&self.prepared.views);
        let passes = if self.prepared.masked.is_some() { 2.0 } else { 1.0 } * self.records_of_a_unit();
        let products = parts
            .map(|((part, graph), views)| {
                part.batch() as f64 * views.count() as f64 * pace::products(graph) * passes
            })
            .fold(0.0, f64::max);
        Pace::new(products, engine)
    }

    /// How many times a record is computed for each record or user that a step draws, about.
    fn records_of_a_unit(&self) -> f64 {
        let (train, users) = (&self.prepared.data.train, &self.prepared.training.users);
        users.map_or(1.0, |users| {
            let each = train.len() as f64 / train.units().max(1) as f64;
            users.local_steps as f64 * users.local_batch.map_or(each, |batch| each.min(batch as f64))
        })
    }

    /// Steps until the next checkpoint, evaluation or phase, which must not fall inside a promise.
    fn steps_to_boundary(
        &self,
        sampler: &Sampler,
        (first_checkpoint, checkpoint_every): (u64, u64),
    ) -> Result<u64, TrainError> {
        let evaluate_every = self.prepared.training.conduct.evaluate_every;
        let to_multiple = |every: u64| every - self.step % every;
        let phase = sampler.phase(self.step)?;
        let phase_end: u64 = self.prepared.parts()[..=phase].iter().map(dapple_plan::Plan::steps).sum();
        let regular = [Some(checkpoint_every), evaluate_every].into_iter().flatten().map(to_multiple);
        let first = first_checkpoint.checked_sub(self.step).filter(|&steps| steps > 0);
        let largest = self.ledger.history().start().largest_block;
        Ok(regular.chain(first).fold((phase_end - self.step).min(largest), u64::min))
    }

    fn sampler(&self) -> Result<Sampler, TrainError> {
        Ok(Sampler::new(self.prepared.plan(), self.prepared.data.train.units(), self.keys.sampling.clone())?)
    }

    fn report(&self, taken: &Taken) -> StepReport<'_> {
        StepReport {
            step: self.step,
            steps: self.prepared.plan().steps(),
            learning_rate: taken.learning_rate,
            drawn: taken.drawn(),
            loss: taken.loss(),
            clipped: taken.clipped(),
            seconds: self.began.elapsed().as_secs_f64(),
            prepared: &self.prepared,
        }
    }

    fn evaluate(&mut self, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let Some(test) = self.prepared.data.test.clone() else { return Ok(()) };
        if self.evaluated.as_ref().is_some_and(|(step, _)| *step == self.step) {
            return Ok(());
        }
        self.order(RankOrder::Evaluate);
        let evaluation = self.evaluator.evaluate(&self.prepared, &mut self.trainer, &test)?;
        #[derive(Serialize)]
        struct MetricsLine<'a> {
            step: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            clip_norm: Option<f64>,
            #[serde(flatten)]
            evaluation: &'a Evaluation,
        }
        let clip_norm = self.trainer.adapted_clip_norm();
        if let Some(events) = &mut self.events {
            let epsilon = self.prepared.terms().price(self.step)?.map(|price| price.epsilon.upper);
            events.evaluated(self.step, &evaluation, (epsilon, clip_norm))?;
        }
        let line = MetricsLine { step: self.step, clip_norm, evaluation: &evaluation };
        self.metrics.add_lasting(&json_line(&line))?;
        // A request to stop is noticed at the next step.
        let _ = observer.notice(&Event::Evaluated { step: self.step, evaluation: &evaluation });
        self.evaluated = Some((self.step, evaluation));
        Ok(())
    }

    fn write_diagnostics(&mut self, taken: &Taken) -> Result<(), TrainError> {
        #[derive(Serialize)]
        struct DiagnosticsLine {
            step: u64,
            learning_rate: f64,
            drawn: usize,
            loss: Option<f64>,
            clipped: Option<f64>,
            not_finite: usize,
            seconds: f64,
        }
        let line = DiagnosticsLine {
            step: self.step,
            seconds: self.began.elapsed().as_secs_f64(),
            learning_rate: taken.learning_rate,
            drawn: taken.drawn(),
            loss: taken.loss(),
            clipped: taken.clipped(),
            not_finite: taken.not_finite(),
        };
        self.diagnostics.add(&json_line(&line))?;
        if let Some(events) = &mut self.events {
            events.stepped(self.step, taken, line.seconds)?;
        }
        self.norms.as_mut().map_or(Ok(()), |norms| norms.add(self.step, taken.norms()))
    }

    /// What the run goes on from, at this place.
    fn checkpoint(&mut self) -> Result<Checkpoint, TrainError> {
        let history = self.ledger.history();
        let (lines, hash) = history.position();
        let place = CheckpointPlace {
            step: self.step,
            optimiser_updates: self.trainer.updates(),
            optimiser_noise: self.trainer.noise_part(),
            clip_norm: self.trainer.adapted_clip_norm(),
            gradient_scales: self.trainer.gradient_scales(),
            spec: history.start().spec.clone(),
            ledger_lines: lines,
            ledger_hash: hash.to_owned(),
        };
        self.trainer.checkpoint(place)
    }

    fn write_checkpoint(&mut self, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let checkpoint = self.checkpoint()?;
        if let Some(ranks) = &self.prepared.ranks {
            ranks.order(RankOrder::Compare);
            among::compare(ranks, &mut self.trainer)?;
        }
        checkpoint.write(&self.folder.checkpoints())?;
        if let Some(covered) = &self.covered {
            self.write_certificate(Status::Running, covered)?;
        }
        let _ = observer.notice(&Event::Checkpoint { step: self.step });
        Ok(())
    }

    /// Tells the processes that share the run, if there are any, what all of them do next.
    fn order(&self, order: RankOrder) {
        if let Some(ranks) = &self.prepared.ranks {
            ranks.order(order);
        }
    }

    /// Writes a line of the ledger. Returns once it would survive a crash.
    ///
    /// # Guarantee
    /// While the line is written and afterwards, complete or cut off, the ledger counts no more steps than the certificate in the folder.
    fn tell(&mut self, entry: &LedgerEntry) -> Result<(), TrainError> {
        self.cover()?;
        self.ledger.append(entry)
    }

    /// Makes sure that the certificate in the folder covers another block of the largest size, because a line that is cut off counts as
    /// one.
    fn cover(&mut self) -> Result<(), TrainError> {
        let (start, spent) = (self.ledger.history().start(), self.ledger.history().spent());
        let needed = (spent + start.largest_block).min(start.steps);
        if self.covered.as_ref().is_some_and(|covered| covered.steps >= needed) {
            return Ok(());
        }
        // Cover some more steps, so that epsilon is computed only now and then and not at every block.
        let ahead = (needed + start.largest_block.max(spent / AHEAD)).min(start.steps);
        let covered =
            if ahead == start.steps { self.whole.clone() } else { self.prepared.terms().cost(ahead)? };
        self.write_certificate(Status::Running, &covered)?;
        self.covered = Some(covered);
        Ok(())
    }

    /// Writes the last certificate of this process: what the ledger counts.
    fn certify_end(&self) -> Result<RunCertificate, TrainError> {
        let status = if self.complete() { Status::Finished } else { Status::Stopped };
        self.write_certificate(status, &self.prepared.terms().cost(self.ledger.history().spent())?)
    }

    fn write_certificate(&self, status: Status, spent: &Cost) -> Result<RunCertificate, TrainError> {
        // If another process took over the ledger, the certificate is that process's to write.
        self.ledger.check_own()?;
        let (terms, history) = (self.prepared.terms(), self.ledger.history());
        let certificate = RunCertificate::new(terms, history, status, spent, &self.whole);
        files::write_atomic(&self.folder.certificate(), certificate.to_json().as_bytes())?;
        Ok(certificate)
    }
}

/// Options of the loader for this many cards that share every batch.
fn loader_options(prepared: &Prepared, cards: usize) -> LoaderOptions {
    let performance = &prepared.training.performance;
    LoaderOptions {
        threads: performance.threads,
        prefetch: performance.prefetch,
        microbatch: Planned::of(prepared).each(cards).saturating_mul(cards),
        share: prepared.ranks.as_ref().map_or_else(SampleShare::default, |ranks| ranks.share()),
    }
}

#[cfg(test)]
mod tests;
