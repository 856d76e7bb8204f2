//! Begins new runs and opens old ones.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use dapple_data::rand_core::Rng;
use dapple_data::{Dataset, MasterKey, Purpose, ReadingObserver, WatchedRecords};
use dapple_plan::Look;
use dapple_plan::spec::Performance;

use super::Run;
use super::keys::Keys;
use crate::budget::{Reservation, Share, Within};
use crate::certificate::RunCertificate;
use crate::checkpoint::Checkpoint;
use crate::description::ModelDescription;
use crate::digest;
use crate::error::TrainError;
use crate::evaluation::{Evaluation, Evaluator};
use crate::features::FeatureShelf;
use crate::files::{self, Access};
use crate::folder::Folder;
use crate::ledger::{History, Ledger, LedgerEntry, LedgerError, Start};
use crate::lines::Lines;
use crate::norms::NormHistograms;
use crate::pace::LARGEST_BLOCK;
use crate::prepare::Prepared;
use crate::recover::Recovered;
use crate::step::Trainer;
use crate::stop;

/// A run that this process holds again, before anything in its folder has changed.
pub(super) struct OldRun {
    folder: Folder,
    ledger: Ledger,
    pub(super) prepared: Prepared,
    recovered: Recovered,
}

impl OldRun {
    /// Opens an old run.
    pub(super) fn open(out: &Path, performance: &Performance) -> Result<Self, TrainError> {
        let folder = Folder::new(out);
        if !folder.ledger().exists() {
            return Err(TrainError::NoRun { folder: out.to_owned() });
        }
        // Whoever cannot write to the run should learn that before the data is read.
        let ledger = Ledger::open(&folder.ledger())?;
        stop::forget_requests(&folder)?;
        let (prepared, recovered) = verified(&folder, performance)?;
        Ok(Self { folder, ledger, prepared, recovered })
    }
}

impl Run {
    /// Begins a run. Its ledger comes last: until it is there, there is no run and the folder may be used again.
    pub(super) fn create(
        prepared: Prepared,
        out: &Path,
        budget: Option<&Within>,
    ) -> Result<Self, TrainError> {
        let mut notes = prepared.notes.clone();
        let trainer = Trainer::new(&prepared, &mut notes)?;
        let room = budget.map(|budget| Reservation::check(budget, &prepared)).transpose()?;
        let folder = Folder::new(out);
        let claim = folder.claim()?;
        stop::forget_requests(&folder)?;
        folder.write_request(&prepared.spec, &prepared.masks)?;
        let data_key = fresh_bytes()?;
        files::write_for(&folder.data_key(), &data_key, Access::Owner)?;
        let (keys, sampling_key) = Keys::begin(&prepared, &folder)?;
        let start = Start { sampling_key, ..start_entry(&prepared, &data_key)? };
        let share = room.map(|room| room.write(out, &start.id())).transpose()?;
        let ledger = claim.begin(start)?;
        let mut run = Self { share, ..Self::new(folder, prepared, trainer, ledger, keys, notes)? };
        run.cover()?;
        Ok(run)
    }

    /// Goes on with an old run.
    pub(super) fn again(old: OldRun, budget: Option<&Within>) -> Result<Self, TrainError> {
        let OldRun { folder, ledger, prepared, recovered } = old;
        let mut notes = Vec::new();
        let mut trainer = Trainer::new(&prepared, &mut notes)?;
        let keys = Keys::again(&prepared, &folder, recovered.history.start())?;
        folder.close_private()?;
        let checkpoint = newest_checkpoint(&folder, ledger.history(), &mut notes)?;
        let from = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.place.step);
        if checkpoint.is_some_and(|checkpoint| !trainer.restore(checkpoint)) {
            return Err(Checkpoint::misfit(folder.checkpoints()));
        }
        // A step taken again with fresh noise would be another release. With a seed, or without privacy, it costs nothing, unless it would be
        // released with sums that are lost: then it would be another release by the same noise.
        let spent = ledger.history().spent();
        let again = ledger.history().start().repeats_freely() && prepared.plan().correlated_noise().is_none();
        let step = if again { from } else { spent };
        let share = match ledger.history().finished() {
            true => None,
            false => Share::again(folder.root(), budget, &prepared, ledger.history())?,
        };
        let mut run = Self { share, step, ..Self::new(folder, prepared, trainer, ledger, keys, notes)? };
        if !run.ledger.history().finished() {
            if spent > from && step == spent {
                let lost = spent - from;
                run.notes.push(format!(
                    "{lost} steps since the last checkpoint are spent and lost; the run goes on after them"
                ));
            }
            run.notes.extend(moved(run.ledger.history(), run.trainer.machine()));
            run.tell(&LedgerEntry::Resumed { checkpoint: from, step })?;
        }
        Ok(run)
    }

    fn new(
        folder: Folder,
        prepared: Prepared,
        trainer: Trainer,
        ledger: Ledger,
        keys: Keys,
        notes: Vec<String>,
    ) -> Result<Self, TrainError> {
        if !folder.description().exists() {
            ModelDescription::of(&*prepared.data.train, &prepared.blueprint).write(&folder)?;
        }
        let evaluator = Evaluator::new(&prepared, Look::default())?;
        let metrics = Lines::open(&folder.metrics(), Access::Shared)?;
        let diagnostics = Lines::open(&folder.diagnostics(), Access::Owner)?;
        let norms = prepared.training.conduct.gradient_norms;
        let norms = norms.then(|| NormHistograms::open(&folder.gradient_norms())).transpose()?;
        let whole = prepared.terms().cost(prepared.plan().steps())?;
        Ok(Self {
            folder,
            prepared,
            trainer,
            ledger,
            keys,
            step: 0,
            began: Instant::now(),
            whole,
            covered: None,
            evaluator,
            evaluated: None,
            metrics,
            diagnostics,
            norms,
            events: None,
            notes,
            share: None,
            shelf: FeatureShelf::default(),
        })
    }
}

/// The certificate of what a run has promised and spent, from its plan and its ledger alone: neither the data nor `certificate.json` is
/// needed. Nothing in the folder is changed, and a run in progress is not disturbed.
///
/// # Guarantee
/// The certificate covers every value that the run had released when its ledger was read.
///
/// # Errors
/// A plan or a model that is not the run's, an edited ledger, or one whose end was removed.
pub fn certify(folder: &Path) -> Result<RunCertificate, TrainError> {
    let folder = Folder::new(folder);
    let recovered = Recovered::read(&folder)?;
    recovered.check_model(&folder)?;
    recovered.certificate()
}

/// Evaluates the newest weights of a run on its test set.
///
/// # Errors
/// As [`super::resume`], and a plan without a test set.
pub fn evaluate(folder: &Path, look: Look) -> Result<Evaluation, TrainError> {
    evaluate_with(folder, look, &Performance::default())
}

/// As [`evaluate`], with other settings of speed and memory than the run began with, where they are given. Of several cards, the first is
/// used.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_with(folder: &Path, look: Look, performance: &Performance) -> Result<Evaluation, TrainError> {
    evaluate_watched(folder, look, performance, Arc::new(|_, _| ()))
}

/// As [`evaluate_with`]; the observer is told of every image that was read.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_watched(
    folder: &Path,
    look: Look,
    performance: &Performance,
    observer: ReadingObserver,
) -> Result<Evaluation, TrainError> {
    let folder = Folder::new(folder);
    let (prepared, recovered) = verified(&folder, performance)?;
    let test = prepared.data.test.clone().ok_or_else(|| {
        TrainError::setting(
            "data.test",
            "there is nothing to evaluate on",
            "give data.test, or data.validation = 0.1",
        )
    })?;
    let mut parameters = prepared.parameters.clone();
    let checkpoint = newest_checkpoint(&folder, &recovered.history, &mut Vec::new())?;
    if checkpoint.is_some_and(|checkpoint| !Checkpoint::fill(checkpoint.weights(), &mut parameters)) {
        return Err(Checkpoint::misfit(folder.checkpoints()));
    }
    let test: Arc<dyn Dataset> = Arc::new(WatchedRecords::new(test, observer));
    Evaluator::new(&prepared, look)?.evaluate_weights(&prepared, &parameters, &test)
}

/// The run in a folder, and what its ledger says.
pub(crate) fn open_run(folder: &Path) -> Result<(Prepared, History), TrainError> {
    let (prepared, recovered) = verified(&Folder::new(folder), &Performance::default())?;
    Ok((prepared, recovered.history))
}

/// What a user should know if a run goes on on another machine.
fn moved(history: &History, machine: &str) -> Option<String> {
    let before = history.machine().filter(|before| *before != machine)?;
    let bits = match history.start().deterministic {
        true => "; they round differently, so that the model will not be that of an uninterrupted run",
        false => "",
    };
    Some(format!("the run began on {before} and goes on on {machine}{bits}"))
}

/// The run in a folder and what its plan and ledger tell, after checking that plan, data and first weights are those it began with.
fn verified(folder: &Folder, performance: &Performance) -> Result<(Prepared, Recovered), TrainError> {
    let changed = |what| TrainError::Changed { folder: folder.root().to_owned(), what };
    let recovered = Recovered::read(folder)?;
    recovered.check_model(folder)?;
    let recovered = recovered.with(performance)?;
    let prepared = Prepared::again(recovered.spec.clone(), recovered.masks.clone())?;
    let data_key = files::read(&folder.data_key())?;
    let (began, now) = (recovered.history.start(), start_entry(&prepared, &data_key)?);
    match () {
        () if now.data != began.data => Err(changed("data set")),
        () if now.pool != began.pool => Err(changed("pool of synthetic images")),
        () if now.weights != began.weights => Err(changed("weights file")),
        () => Ok((prepared, recovered)),
    }
}

fn newest_checkpoint(
    folder: &Folder,
    history: &History,
    notes: &mut Vec<String>,
) -> Result<Option<Checkpoint>, TrainError> {
    let Some((checkpoint, damaged)) = Checkpoint::newest(&folder.checkpoints())? else { return Ok(None) };
    notes.extend(damaged.iter().map(ToString::to_string));
    let place = &checkpoint.place;
    if place.spec != history.start().spec {
        return Err(TrainError::Changed { folder: folder.root().to_owned(), what: "plan of the checkpoint" });
    }
    if !history.has_seen(place.ledger_lines, &place.ledger_hash) || place.step > history.spent() {
        let source = LedgerError::Shorter { step: place.step };
        return Err(TrainError::Ledger { path: folder.ledger(), source });
    }
    Ok(Some(checkpoint))
}

fn start_entry(prepared: &Prepared, data_key: &[u8]) -> Result<Start, TrainError> {
    let pool = prepared.data.pool.as_ref().map(|pool| hidden_fingerprint(&**pool, data_key));
    Ok(Start {
        spec: prepared.spec.digest(),
        plan: prepared.plan().hash().to_owned(),
        data: hidden_fingerprint(&*prepared.data.train, data_key)?,
        pool: pool.transpose()?,
        weights: digest::of_values(prepared.parameters.values()),
        steps: prepared.plan().steps(),
        largest_block: LARGEST_BLOCK,
        deterministic: prepared.deterministic(),
        private: prepared.training.is_private(),
        sampling_key: None,
    })
}

/// The fingerprint of the records, hidden by a key. A plain fingerprint would tell somebody who knows all records but one whether a guess
/// at the last one is right.
pub(crate) fn hidden_fingerprint(dataset: &dyn Dataset, key: &[u8]) -> Result<String, TrainError> {
    Ok(digest::of(&[key, dataset.fingerprint()?.as_bytes()]))
}

/// Random bytes from the operating system, by a key that is used for nothing else.
pub(crate) fn fresh_bytes() -> Result<[u8; 32], TrainError> {
    let mut bytes = [0; 32];
    MasterKey::from_os()?.purpose(Purpose::Split).step(0).stream(0).fill_bytes(&mut bytes);
    Ok(bytes)
}
