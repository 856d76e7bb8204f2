//! `dapple calibrate`: solves a plan for one unknown.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use dapple_plan::{CertificateDocument, SolvedUnknown, SolvedValue, Trial, Unknown, number};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::args::{Common, Width};
use crate::failure::Failure;
use crate::load::PricingRequest;
use crate::output;

/// Finds the least noise, or the most of anything else, that keeps epsilon at or below --epsilon
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dapple calibrate --for noise-multiplier --epsilon 8 --batch 4096 --records 50000 --epochs 100 \\
      --delta 1e-5
  dapple calibrate plan.toml --for crop --epsilon 2")]
pub(crate) struct Arguments {
    /// What to solve for
    #[arg(long = "for", value_name = "UNKNOWN")]
    unknown: UnknownName,
    #[command(flatten)]
    width: Width,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnknownName {
    NoiseMultiplier,
    Epochs,
    Steps,
    Batch,
    Crop,
    Patch,
}

impl From<UnknownName> for Unknown {
    fn from(name: UnknownName) -> Self {
        match name {
            UnknownName::NoiseMultiplier => Self::NoiseMultiplier,
            UnknownName::Epochs => Self::Epochs,
            UnknownName::Steps => Self::Steps,
            UnknownName::Batch => Self::Batch,
            UnknownName::Crop => Self::Crop,
            UnknownName::Patch => Self::Patch,
        }
    }
}

/// How long a search goes on before it shows its progress.
const PATIENCE: Duration = Duration::from_secs(2);

/// Shows a line on a terminal during searches that take longer than [`PATIENCE`].
struct Waiting {
    since: Instant,
    line: Option<ProgressBar>,
}

impl Waiting {
    fn new(quiet: bool) -> Self {
        let shown = !quiet && std::io::stderr().is_terminal();
        Self { since: Instant::now(), line: shown.then(ProgressBar::new_spinner) }
    }

    fn tell(&self, Trial { number, epsilon, share }: Trial) {
        if let Some(line) = self.line.as_ref().filter(|_| self.since.elapsed() > PATIENCE) {
            line.set_message(format!(
                "searching: {number} plans priced, the last at epsilon {}, {:.0}% of the work a search may take",
                number::up(epsilon, 4),
                100.0 * share
            ));
            line.tick();
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            line.finish_and_clear();
        }
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    certificate: CertificateDocument<'a>,
    solved: SolvedUnknown,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let PricingRequest { spec, masks } = PricingRequest::load(&arguments.common)?;
    let (unknown, precision) = (arguments.unknown.into(), arguments.width.precision());
    let waiting = Waiting::new(arguments.common.output.quiet);
    let watch = |trial: Trial| waiting.tell(trial);
    let found = dapple_plan::calibrate_watched(&spec, &masks, unknown, precision, &watch)?;
    drop(waiting);
    if arguments.common.output.json {
        return output::print_json(&Answer {
            certificate: found.certificate.document(),
            solved: found.solved,
        });
    }
    let solved = words(&found.solved);
    output::print(&format!("{:<16}  {solved}  (solved)\n{}", found.solved.name, found.certificate.text()))
}

/// A solved value in words. Noise is rounded up, which is the safe side.
pub(crate) fn words(solved: &SolvedUnknown) -> String {
    match (solved.size, solved.value) {
        (Some(size), _) => size.to_string(),
        (None, SolvedValue::Whole(value)) => value.to_string(),
        (None, SolvedValue::Real(value)) => number::up(value, 5),
    }
}
