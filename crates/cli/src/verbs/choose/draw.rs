//! The repetitions of a choice. They are drawn once, carried out across interrupts, and revealed to nobody.

use std::fs;
use std::path::{Path, PathBuf};

use dapple_plan::Repetitions;
use dapple_train::{Measure, Status, StepError, TrainError};
use serde::{Deserialize, Serialize};

use super::Candidate;
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;

/// The content of `private/choice.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// Digests of the candidates' plans, and the law below: the draw holds for these alone.
    candidates: Vec<String>,
    law: String,
    /// The candidate of each repetition.
    drawn: Vec<usize>,
    /// The results of the repetitions that are done.
    done: Vec<Done>,
}

/// The result of a repetition.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Done {
    /// `None` if training diverged.
    pub(super) score: Option<f64>,
    pub(super) measure: Measure,
}

/// The repetitions of a choice.
pub(super) struct DrawnRepetitions {
    folder: PathBuf,
    kept: Kept,
}

impl DrawnRepetitions {
    /// Draws the repetitions, or reads those that were drawn in this folder before.
    pub(super) fn open(out: &Path, law: Repetitions, candidates: &[Candidate]) -> Result<Self, Failure> {
        let digests: Vec<String> = candidates.iter().map(|one| one.completed.spec.digest()).collect();
        let (folder, law_text) = (out.to_owned(), format!("{law:?}"));
        let path = place(out);
        if path.is_file() {
            let text = fs::read(&path).map_err(|error| unreadable(&path, &error.to_string()))?;
            let kept: Kept =
                serde_json::from_slice(&text).map_err(|error| unreadable(&path, &error.to_string()))?;
            if kept.candidates != digests || kept.law != law_text {
                return Err(Failure::request(
                    format!("{}: the choice in this folder is among other plans", out.display()),
                    "give the flags that it was begun with, or another --out",
                ));
            }
            return Ok(Self { folder, kept });
        }
        if out.exists() && fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(Failure::request(
                format!("{}: there is something else in this folder", out.display()),
                "give an empty or new folder",
            ));
        }
        let private = out.join("private");
        let made = fs::create_dir_all(&private).and_then(|()| keep_private(&private));
        made.map_err(|error| Failure::run(format!("cannot make {}: {error}", private.display())))?;
        let drawn = dapple_train::draw(law, candidates.len())?;
        let kept = Kept { candidates: digests, law: law_text, drawn, done: Vec::new() };
        let new = Self { folder, kept };
        new.write()?;
        Ok(new)
    }

    /// Deletes a draw from which nothing was trained.
    pub(super) fn forget(&self) {
        if self.kept.done.is_empty() {
            // Folders are removed only if they are empty. What stays behind was only drawn, not trained.
            let _ = fs::remove_file(place(&self.folder));
            let _ = fs::remove_dir(self.folder.join("private")).and_then(|()| fs::remove_dir(&self.folder));
        }
    }

    fn write(&self) -> Result<(), Failure> {
        let text = serde_json::to_vec_pretty(&self.kept)
            .map_err(|error| Failure::run(format!("the choice has no JSON form: {error}")))?;
        output::write_file(&place(&self.folder), &text, true)
    }

    /// The folder of a repetition.
    pub(super) fn run_folder(&self, number: usize) -> PathBuf {
        self.folder.join("private/runs").join(format!("{:04}", number + 1))
    }

    /// The candidate and the result of every repetition that is done.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = (usize, Done)> + '_ {
        self.kept.drawn.iter().copied().zip(self.kept.done.iter().copied())
    }

    /// Trains the remaining repetitions, one after another.
    pub(super) fn carry_out(&mut self, candidates: &[Candidate], quiet: bool) -> Result<(), Failure> {
        while let Some(&candidate) = self.kept.drawn.get(self.kept.done.len()) {
            let number = self.kept.done.len();
            let chosen = candidates.get(candidate).ok_or_else(|| {
                unreadable(&place(&self.folder), "a repetition of a candidate that is not there")
            })?;
            let folder = self.run_folder(number);
            let done = repeat(chosen, &folder, &format!("repetition {}", number + 1), quiet)?;
            self.kept.done.push(done);
            self.write()?;
        }
        Ok(())
    }
}

/// Trains one repetition to its end.
fn repeat(candidate: &Candidate, folder: &Path, name: &str, quiet: bool) -> Result<Done, Failure> {
    let request = &candidate.request;
    let mut progress = Progress::new(name, quiet, &request.spec.performance);
    let outcome = match folder.join("ledger.jsonl").is_file() {
        true => dapple_train::resume_with(folder, &request.spec.performance, &mut progress),
        false => dapple_train::start(request, folder, &mut progress),
    };
    drop(progress);
    match outcome {
        Ok(outcome) if outcome.certificate.status != Status::Finished => Err(Failure::Interrupted),
        Ok(_) => {
            let last = dapple_train::evaluations(folder)?.pop();
            let score = last.map(|line| line.evaluation.score());
            let score = score.ok_or_else(|| Failure::run("a repetition was not evaluated"))?;
            Ok(Done { score: Some(score.value), measure: score.measure })
        }
        // Diverging is a result like any other, and the worst one.
        Err(TrainError::Step { source, .. })
            if matches!(*source, TrainError::Private(StepError::NotFinite { .. })) =>
        {
            Ok(Done { score: None, measure: Measure::Accuracy })
        }
        Err(error) => Err(error.into()),
    }
}

fn place(out: &Path) -> PathBuf {
    out.join("private/choice.json")
}

fn unreadable(path: &Path, problem: &str) -> Failure {
    Failure::run(format!("{}: {problem}", path.display())).with_hint("start anew in another folder")
}

/// Closes a folder to all other users.
fn keep_private(folder: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    }
    let _ = folder;
    Ok(())
}
