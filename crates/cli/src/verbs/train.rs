//! `dapple train` and `dapple resume`: from a plan to a model and its certificate.

use std::path::{Path, PathBuf};

use clap::Args;
use dapple_pages::RunPage;
use dapple_plan::number;
use dapple_train::{Evaluation, Request, RunCertificate, RunOutcome, Status, TrainError};
use serde::Serialize;

use super::check;
use crate::args::Common;
use crate::args::OutputFlags;
use crate::budget::BudgetFlags;
use crate::failure::Failure;
use crate::load;
use crate::machine::MachineFlags;
use crate::output;
use crate::progress::Progress;
use crate::ranks;

/// Trains a model by a plan and certifies what it spent
#[derive(Debug, Args)]
#[command(after_help = "A plan to train has sections `data`, `model` and `optimiser`.

Examples:
  dapple train plan.toml --out runs/first
  dapple train plan.toml --out runs/second --epsilon 2 --set optimiser.learning_rate=1
  mpirun -n 4 dapple train plan.toml --out runs/third")]
pub(crate) struct Arguments {
    /// The folder of the run; it must not hold one yet
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Trains by the same steps without clipping and noise: nothing is private
    #[arg(long)]
    no_dp: bool,
    #[command(flatten)]
    machine: MachineFlags,
    #[command(flatten)]
    budget: BudgetFlags,
    #[command(flatten)]
    common: Common,
}

/// Goes on with a run that was stopped or killed
#[derive(Debug, Args)]
#[command(after_help = "Example:
  dapple resume runs/first")]
pub(crate) struct ResumeArguments {
    /// The folder of the run
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    machine: MachineFlags,
    #[command(flatten)]
    budget: BudgetFlags,
    #[command(flatten)]
    output: OutputFlags,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let common = &arguments.common;
    let ranks = ranks::join()?;
    let request = ranks::agreed(ranks.as_deref(), requested(arguments))?;
    if let Some(ranks) = ranks.as_ref().filter(|ranks| !ranks.is_first()) {
        return ranks::follow(ranks, Some(&request));
    }
    let mut progress = Progress::new(name(&arguments.out), common.output.quiet, &request.spec.performance);
    let budget = arguments.budget.within();
    let (out, budget) = (&arguments.out, budget.as_ref());
    let outcome = match &ranks {
        Some(ranks) => dapple_train::start_among(ranks, &request, out, budget, &mut progress),
        None => dapple_train::start_within(&request, out, budget, &mut progress),
    };
    drop(progress);
    // Data is refused before there is a run. Whoever mends one file would like to know of the others.
    let outcome = outcome.inspect_err(|error| {
        if matches!(error, TrainError::Data(_)) {
            check::tell(&request, common.output.quiet);
        }
    })?;
    finish(&arguments.out, &outcome, common.output.json, common.output.quiet)
}

/// The plan that the arguments ask to train.
fn requested(arguments: &Arguments) -> Result<Request, Failure> {
    let mut request = load::training(&arguments.common)?;
    request.spec.performance = request.spec.performance.merge(&arguments.machine.performance());
    if arguments.no_dp {
        request.spec.train.private = Some(false);
    }
    Ok(request)
}

pub(crate) fn resume(arguments: &ResumeArguments) -> Result<(), Failure> {
    let ranks = ranks::join()?;
    if let Some(ranks) = ranks.as_ref().filter(|ranks| !ranks.is_first()) {
        // The folder of the run need not be where this rank is.
        return ranks::follow(ranks, None);
    }
    // A folder without a plan is refused when the run is resumed.
    let shown = dapple_train::plan_of_run(&arguments.folder).map(|plan| plan.performance).unwrap_or_default();
    let mut progress = Progress::new(name(&arguments.folder), arguments.output.quiet, &shown);
    let (performance, budget) = (arguments.machine.performance(), arguments.budget.within());
    let (folder, budget) = (&arguments.folder, budget.as_ref());
    let outcome = match &ranks {
        Some(ranks) => dapple_train::resume_among(ranks, folder, &performance, budget, &mut progress)?,
        None => dapple_train::resume_within(folder, &performance, budget, &mut progress)?,
    };
    drop(progress);
    finish(&arguments.folder, &outcome, arguments.output.json, arguments.output.quiet)
}

/// The last part of a run's folder.
fn name(folder: &Path) -> String {
    folder.file_name().map_or_else(|| "run".to_owned(), |name| name.to_string_lossy().into_owned())
}

#[derive(Serialize)]
struct Answer<'a> {
    folder: String,
    updates: u64,
    #[serde(flatten)]
    certificate: &'a RunCertificate,
    evaluation: Option<&'a Evaluation>,
}

fn finish(folder: &Path, outcome: &RunOutcome, json: bool, quiet: bool) -> Result<(), Failure> {
    let page =
        RunPage::of(folder, &outcome.certificate)?.page.command(output::shown_command_line()).to_html();
    output::write_file(&folder.join("report.html"), page.as_bytes(), quiet)?;
    let RunOutcome { certificate, updates, evaluation } = outcome;
    if json {
        output::print_json(&Answer {
            folder: folder.display().to_string(),
            updates: *updates,
            certificate,
            evaluation: evaluation.as_ref(),
        })?;
    } else {
        output::print(&text(outcome))?;
    }
    match certificate.status {
        Status::Finished => Ok(()),
        Status::Running | Status::Stopped => {
            output::say(quiet, &format!("go on with: dapple resume {}", folder.display()));
            Err(Failure::Interrupted)
        }
    }
}

fn text(outcome: &RunOutcome) -> String {
    let certificate = &outcome.certificate;
    let mut lines = vec![("steps", certificate.steps_spent.to_string())];
    if let Some(evaluation) = &outcome.evaluation {
        let score = evaluation.score();
        let things = if evaluation.overlap.is_some() { "images" } else { "records" };
        let text = format!("{:.4} on {} {things}", score.value, evaluation.records);
        lines.push((score.measure.words(), text));
        if let Some(overlap) = &evaluation.overlap {
            lines.push(("pixel accuracy", format!("{:.4}", overlap.pixel_accuracy)));
        }
    }
    if let Some(spent) = &certificate.spent {
        lines.push((
            "epsilon spent",
            format!("{} at delta {}", number::up(spent.epsilon.upper, 4), number::brief(spent.delta)),
        ));
        lines.push(("protects", spent.protects.clone()));
    }
    let mut text: String = lines.iter().map(|(name, value)| output::wrapped(name, value)).collect();
    for warning in &certificate.warnings {
        text.push_str(&format!("warning: {warning}\n"));
    }
    text
}
