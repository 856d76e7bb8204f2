//! `dapple check`: everything that a run would be refused for, found before anything is spent.

mod fixes;
mod report;

use std::path::{Path, PathBuf};

use clap::Args;
use dapple_train::data::{Closeness, DataPlan, Dataset, Inspection, Opened, inspect, open};
use dapple_train::{Request, TrainError};

use crate::args::Common;
use crate::failure::Failure;
use crate::progress::bar;
use crate::{load, output};
use fixes::Fixes;
use report::CheckReport;

/// Looks at the data of a plan, and tells all that a run would be refused for, with the lines that mend it
#[derive(Debug, Args)]
#[command(
    after_help = "Sizes, unreadable files, shares of the classes and labels outside them are told, and the plan is priced. Nothing is written, and no step is spent.
What is told about the records is private, and no guarantee covers it: it is for those who may see the records.

Examples:
  dapple check plan.toml
  dapple check plan.toml --set data.train=photos/train"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let common = &arguments.common;
    let (json, quiet) = (common.output.json, common.output.quiet);
    let request = load::training(common)?;
    let opened = opened(&request)?;
    let found = InspectedParts::at(&opened, Closeness::Headers, quiet);
    // Headers tell sizes and labels; only a run's own check reads every pixel. What it finds first is looked for in all records.
    let (found, readiness) = match found.fixes(&request).is_empty() {
        false => (InspectedParts::at(&opened, Closeness::Pixels, quiet), None),
        true => match dapple_train::check(&request) {
            Ok(readiness) => (found, Some(readiness)),
            Err(error @ TrainError::Data(_)) => {
                let closer = InspectedParts::at(&opened, Closeness::Pixels, quiet);
                if closer.fixes(&request).is_empty() {
                    return Err(error.into());
                }
                (closer, None)
            }
            Err(error) => return Err(error.into()),
        },
    };
    let fixes = found.fixes(&request);
    let report =
        CheckReport { request: &request, found: &found, fixes: &fixes, readiness: readiness.as_ref() };
    match json {
        true => output::print_json(&report.json())?,
        false => output::print(&report.text(&next(common.plan())))?,
    }
    match fixes.first() {
        None => Ok(()),
        Some((problem, hint)) => Err(Failure::request(problem, hint)),
    }
}

/// Tells all that is wrong with the data of a request that a run refused, on stderr.
pub(crate) fn tell(request: &Request, quiet: bool) {
    let Ok(opened) = opened(request) else { return };
    let found = InspectedParts::at(&opened, Closeness::Pixels, quiet);
    let fixes = found.fixes(request);
    if !fixes.is_empty() {
        output::say(quiet, fixes.text().trim_end());
    }
}

/// The data sets of a request.
fn opened(request: &Request) -> Result<Opened, Failure> {
    let Request { spec, base, .. } = request.clone().in_full();
    let plan = DataPlan::check(&spec).map_err(dapple_plan::PlanError::from)?;
    open(&plan, &base).map_err(Fixes::of_opening)
}

/// What was found in the records to train on, and in those to evaluate on.
pub(crate) struct InspectedParts {
    pub(crate) train: Inspection,
    pub(crate) test: Option<Inspection>,
    pub(crate) names: Vec<String>,
    pub(crate) clips: bool,
    pub(crate) every_pixel_labelled: bool,
}

impl InspectedParts {
    fn at(opened: &Opened, closeness: Closeness, quiet: bool) -> Self {
        let test = opened.test.as_deref();
        let count = opened.train.len() + test.map_or(0, Dataset::len);
        let bar = bar(count, quiet, "{bar:40} {pos}/{len} records, {eta} left");
        let of = |data: &dyn Dataset| inspect(data, closeness, &|| bar.inc(1));
        let (train, tested) = (of(&*opened.train), test.map(of));
        bar.finish_and_clear();
        let names = match opened.train.class_names() {
            Some(names) => names.to_vec(),
            None => (0..opened.train.classes()).map(|class| class.to_string()).collect(),
        };
        Self {
            train,
            test: tested,
            names,
            clips: opened.train.frames().is_some(),
            every_pixel_labelled: opened.train.target_kind() == dapple_train::data::TargetKind::LabelMap,
        }
    }

    fn fixes(&self, request: &Request) -> Fixes {
        Fixes::of(self, &request.spec)
    }
}

/// The command that comes next.
fn next(plan: Option<&Path>) -> String {
    let plan = plan.map_or_else(|| PathBuf::from("plan.toml"), Path::to_owned);
    let name = plan.file_stem().map_or_else(|| "run".into(), |stem| stem.to_string_lossy());
    format!("dapple train {} --out runs/{name}", plan.display())
}
