//! What the page shows of a run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use dapple_plan::{Bracket, number};
use dapple_train::{EvaluationLine, RunCertificate, Status};
use serde::Serialize;

use super::process::RunProcess;
use crate::answer::level_paint;
use crate::error::ServeError;

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RunStanding {
    /// It has not written anything yet.
    Beginning,
    /// A process of this server trains it.
    Running,
    /// A process trains it that this server did not start.
    Elsewhere,
    /// It was stopped, killed, or failed; it can be resumed.
    Stopped,
    /// All steps are taken.
    Finished,
    /// It ended before there was a run.
    Refused,
    /// Its files cannot be read, or contradict each other.
    Unreadable,
}

/// A run as the page shows it. Everything in it was released by the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct RunState {
    pub(crate) name: String,
    pub(crate) standing: RunStanding,
    steps: u64,
    planned_steps: Option<u64>,
    /// Upper ends, rounded up: of the steps taken, and of the whole plan.
    epsilon: Option<String>,
    planned_epsilon: Option<String>,
    /// The same for a whole record, where the plan protects less.
    record_epsilon: Option<String>,
    delta: Option<String>,
    protects: Option<String>,
    relation: Option<&'static str>,
    /// The names of the colours of the plan's level, and of that of whole records.
    paint: Option<&'static str>,
    record_paint: Option<&'static str>,
    measure: Option<&'static str>,
    evaluations: Vec<EvaluationPoint>,
    warnings: Vec<String>,
    /// Why its last process failed.
    problem: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct EvaluationPoint {
    step: u64,
    score: f64,
}

impl RunState {
    /// A run whose folder is not there: its process has just begun, or was refused.
    pub(super) fn without_folder(name: &str, process: &mut RunProcess) -> Self {
        let standing = if process.is_alive() { RunStanding::Beginning } else { RunStanding::Refused };
        Self { name: name.to_owned(), standing, problem: process.problem(), ..Self::empty() }
    }

    /// A run that cannot be read or trusted.
    pub(super) fn unreadable(name: &str, error: &ServeError) -> Self {
        let problem = Some(error.to_string());
        Self { name: name.to_owned(), standing: RunStanding::Unreadable, problem, ..Self::empty() }
    }

    fn empty() -> Self {
        Self {
            name: String::new(),
            standing: RunStanding::Beginning,
            steps: 0,
            planned_steps: None,
            epsilon: None,
            planned_epsilon: None,
            record_epsilon: None,
            delta: None,
            protects: None,
            relation: None,
            paint: None,
            record_paint: None,
            measure: None,
            evaluations: Vec::new(),
            warnings: Vec::new(),
            problem: None,
        }
    }

    fn of(name: &str, certificate: &RunCertificate, lines: &[EvaluationLine]) -> Self {
        let up = |epsilon: Bracket| number::up(epsilon.upper, 4);
        let planned = certificate.planned.as_ref();
        let score = |line: &EvaluationLine| line.evaluation.score();
        Self {
            name: name.to_owned(),
            standing: if certificate.status == Status::Finished {
                RunStanding::Finished
            } else {
                RunStanding::Stopped
            },
            steps: certificate.steps_spent,
            planned_steps: planned.map(|planned| planned.steps),
            epsilon: certificate.spent.as_ref().map(|spent| up(spent.epsilon)),
            planned_epsilon: planned.map(|planned| up(planned.epsilon)),
            record_epsilon: certificate.record_level.and_then(|level| level.spent).map(up),
            delta: planned.map(|planned| number::brief(planned.delta)),
            protects: planned.map(|planned| planned.protects.clone()),
            relation: planned.map(|planned| planned.relation.name()),
            paint: planned.map(|planned| level_paint(planned.relation, planned.sampling)),
            record_paint: planned
                .zip(certificate.record_level)
                .map(|(planned, level)| level_paint(level.relation, planned.sampling)),
            measure: lines.last().map(|line| score(line).measure.words()),
            evaluations: lines
                .iter()
                .map(|line| EvaluationPoint { step: line.step, score: score(line).value })
                .collect(),
            warnings: certificate.warnings.iter().map(ToString::to_string).collect(),
            problem: None,
        }
    }

    /// The same, with what its process told when it failed.
    pub(super) fn told(self, problem: Option<String>) -> Self {
        Self { problem, ..self }
    }

    /// Whether something is going to change.
    pub(crate) fn goes_on(&self) -> bool {
        matches!(self.standing, RunStanding::Beginning | RunStanding::Running | RunStanding::Elsewhere)
    }

    /// Whether it can be taken up again.
    pub(super) fn is_open(&self) -> bool {
        self.standing == RunStanding::Stopped
    }
}

/// When and how long the files are that a state is read from.
type FileMarks = [Option<(SystemTime, u64)>; 2];

/// States that were read before. Pricing a ledger takes up to a second, so it is done once for each change.
#[derive(Debug, Default)]
pub(super) struct StateShelf(Mutex<BTreeMap<String, (FileMarks, RunState)>>);

impl StateShelf {
    /// The state of the run in a folder; `own` says that a process of this server trains it.
    pub(super) fn state(&self, name: &str, folder: &Path, own: bool) -> Result<RunState, ServeError> {
        let mark = |file: &str| {
            let found = std::fs::metadata(folder.join(file)).ok()?;
            Some((found.modified().ok()?, found.len()))
        };
        let marks = [mark("ledger.jsonl"), mark("metrics.jsonl")];
        let known =
            self.shelf().get(name).filter(|(known, _)| *known == marks).map(|(_, state)| state.clone());
        let state = match known {
            Some(state) => state,
            None => {
                let certificate = dapple_train::certify(folder)?;
                let lines = dapple_train::evaluations(folder).unwrap_or_default();
                let state = RunState::of(name, &certificate, &lines);
                self.shelf().insert(name.to_owned(), (marks, state.clone()));
                state
            }
        };
        let standing = match (state.standing, own) {
            (RunStanding::Finished, false) => RunStanding::Finished,
            (_, true) => RunStanding::Running,
            (_, false) if dapple_train::is_held(folder)? => RunStanding::Elsewhere,
            (standing, false) => standing,
        };
        Ok(RunState { standing, ..state })
    }

    fn shelf(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, (FileMarks, RunState)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
