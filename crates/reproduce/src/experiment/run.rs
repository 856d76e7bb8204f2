//! One run of an experiment: started, resumed, or read where it is finished.

use std::path::Path;

use dapple_plan::PlanSpec;
use dapple_train::{
    FeatureShelf, Measure, Observer, Request, RunCertificate, Score, Status, Verdict, Within,
};

use crate::error::{ReproduceError, Result};

/// A run to be carried out, in a folder of its name.
#[derive(Debug)]
pub struct PlannedRun {
    /// The name of the run and its folder.
    pub name: String,
    /// What is trained.
    pub request: Request,
    /// The budget that it is counted in.
    pub budget: Option<Within>,
}

impl PlannedRun {
    /// A run of a plan whose paths begin in a folder.
    pub fn new(name: impl Into<String>, request: Request) -> Self {
        Self { name: name.into(), request: request.in_full(), budget: None }
    }

    /// A run of a plan that names its files in full.
    pub fn of(name: impl Into<String>, spec: PlanSpec) -> Self {
        Self::new(name, Request::of(spec))
    }
}

/// A finished run.
#[derive(Debug)]
pub struct FinishedRun {
    /// What it promised and spent.
    pub certificate: RunCertificate,
    /// What its quality is measured by.
    pub measure: Measure,
    /// Steps whose updates a crash lost, although they count as taken.
    pub lost: u64,
    /// The accuracy on each class after the last step, where the class occurs.
    pub per_class: Vec<Option<f64>>,
    /// Steps and quality of every evaluation, in order.
    pub curve: Vec<(u64, f64)>,
}

impl FinishedRun {
    /// Reads a finished run.
    pub(super) fn read(certificate: RunCertificate, folder: &Path) -> Result<Self> {
        let lines = dapple_train::evaluations(folder)?;
        let scores = lines.iter().map(|line| (line.step, line.evaluation.score()));
        let measure = scores.clone().next_back().map_or(Measure::Accuracy, |(_, score)| score.measure);
        let per_class = lines.last().map(|line| line.evaluation.per_class.clone()).unwrap_or_default();
        let curve = scores.map(|(step, Score { value, .. })| (step, value)).collect();
        let lost = dapple_train::steps_lost(folder)?;
        Ok(Self { certificate, measure, lost, per_class, curve })
    }

    /// Quality after the last step.
    pub fn quality(&self) -> Result<f64> {
        let last = self.curve.last().map(|(_, quality)| *quality);
        last.ok_or_else(|| {
            ReproduceError::failed("a run of the experiment was not evaluated")
                .with_hint("give the plan public records to evaluate on: data.test, or data.validation = 0.1")
        })
    }
}

/// Starts a run that was not begun, and resumes one that was.
pub(super) fn carry_through(
    planned: &PlannedRun,
    begun: bool,
    folder: &Path,
    shelf: &FeatureShelf,
    observer: &mut dyn Observer,
) -> Result<FinishedRun> {
    let shared = (planned.budget.as_ref(), shelf);
    let outcome = match begun {
        true => {
            let performance = &planned.request.spec.performance;
            dapple_train::resume_beside(folder, performance, shared, observer)?
        }
        false => dapple_train::start_beside(&planned.request, folder, shared, observer)?,
    };
    match outcome.certificate.status {
        Status::Finished => FinishedRun::read(outcome.certificate, folder),
        Status::Running | Status::Stopped => Err(ReproduceError::Interrupted),
    }
}

/// The certificate of the run that is in a folder, if any; a run of another plan is refused.
pub(super) fn begun(planned: &PlannedRun, folder: &Path) -> Result<Option<RunCertificate>> {
    if !folder.join("ledger.jsonl").is_file() {
        return Ok(None);
    }
    let stored = dapple_train::plan_of_run(folder)?;
    let mut asked = planned.request.spec.clone();
    // What a run fills in when it starts.
    asked.privacy.noise_multiplier = asked.privacy.noise_multiplier.or(stored.privacy.noise_multiplier);
    asked.privacy.delta = asked.privacy.delta.or(stored.privacy.delta);
    asked.sampling.records = asked.sampling.records.or(stored.sampling.records);
    asked.pipeline.image = asked.pipeline.image.or(stored.pipeline.image);
    if asked.train.until_budget == Some(true) {
        (asked.sampling.epochs, asked.sampling.steps) = (stored.sampling.epochs, stored.sampling.steps);
    }
    if asked.digest() != stored.digest() {
        return Err(ReproduceError::request(
            format!("{}: the run in this folder has another plan", folder.display()),
            "give the flags that it was begun with, or another --out",
        ));
    }
    let certificate = dapple_train::certify(folder)?;
    // A run that is resumed compares its data itself.
    if certificate.status == Status::Finished
        && let Verdict::Invalid { reason } = dapple_train::verify(folder, None)?
    {
        return Err(ReproduceError::failed(format!("{}: {reason}", folder.display()))
            .with_hint("bring back what the run began with, or give another --out"));
    }
    Ok(Some(certificate))
}

/// A path that means the same in a plan, wherever the plan lies.
pub fn full_path(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}
