//! `dapple sweep`: many plans at once.

mod picture;

use std::borrow::Cow;
use std::path::Path;

use clap::Args;
use dapple_plan::ranges::Written;
use dapple_plan::sweep::{self, PricedCombination, SweepAxis, SweepMeasure};
use dapple_plan::{BracketPrecision, Mask, Plan, PlanError, PlanSpec, Unknown, number};
use dapple_report::{Cell, Column, Table, TextStyle};
use rayon::prelude::*;
use serde::Serialize;

use super::calibrate::UnknownName;
use crate::args::{Common, Width};
use crate::failure::Failure;
use crate::load::{self, PricingRequest};
use crate::output;
use crate::pictures::Pictures;
use crate::progress::bar;
use crate::shell_words::ShellWords;

/// Prices a plan for every combination of some values, on all cores
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dapple sweep plan.toml --over crop=100:500:100 --over noise-multiplier=1,2 --html sweep.html
  dapple sweep plan.toml --for noise-multiplier --over epsilon=1,2,4,8")]
pub(crate) struct Arguments {
    /// A key or flag name and its values; may be repeated, the first axis varies slowest
    #[arg(long, value_name = "KEY=A:B:STEP|KEY=A,B,C", required = true, value_parser = ShellWords::axes(), hide_possible_values = true)]
    over: Vec<String>,
    /// Solves each plan for an unknown, to reach --epsilon, instead of pricing it
    #[arg(long = "for", value_name = "UNKNOWN")]
    unknown: Option<UnknownName>,
    #[command(flatten)]
    width: Width,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    pictures: Pictures,
}

/// One combination of values and what it costs.
struct Row {
    /// A value for each axis.
    values: Vec<String>,
    /// `None` if epsilon is too large to report or no value of the unknown reaches the target.
    priced: Option<PricedCombination>,
}

#[derive(Serialize)]
struct Answer {
    columns: Vec<Cow<'static, str>>,
    rows: Vec<Vec<SweepCell>>,
}

/// A value that was given, or one that was computed.
#[derive(Serialize)]
#[serde(untagged)]
enum SweepCell {
    Given(Written),
    Measured(Option<SweepMeasure>),
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.pictures.check()?;
    let axes = arguments.over.iter().map(|text| SweepAxis::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let base = PricingRequest::load(&arguments.common)?;
    let points = sweep::combinations(&axes)?;
    // Plans that leave their noise or their steps to epsilon are solved for them, as training would.
    let unknown = match (arguments.unknown, points.first()) {
        (Some(name), _) => Some(name.into()),
        (None, Some(first)) => merged(&base, &axes, first)?.left_to_epsilon(),
        (None, None) => None,
    };
    let jobs = points
        .into_iter()
        .map(|values| SweepJob::new(&base, &axes, values, unknown))
        .collect::<Result<Vec<_>, Failure>>()?;
    let bar = bar(jobs.len(), arguments.common.output.quiet, "{bar:40} {pos}/{len} plans, {eta} left");
    let precision = arguments.width.precision();
    // Collecting keeps the order of the combinations, whichever core is done first.
    let rows = jobs
        .into_par_iter()
        .map(|job| {
            let row = job.run(&base.masks, &axes, precision);
            bar.inc(1);
            row
        })
        .collect::<Result<Vec<Row>, PlanError>>();
    bar.finish_and_clear();
    let rows = rows?;
    let figure = picture::figure(&axes, &rows, unknown);
    let numbers = table(&axes, &rows, unknown, false)?;
    let shown = table(&axes, &rows, unknown, true)?;
    arguments.pictures.write(arguments.common.output.quiet, &numbers, &figure, || {
        picture::page(&figure, &shown, unknown)
    })?;
    if arguments.common.output.json {
        return output::print_json(&answer(&axes, &rows, unknown));
    }
    output::print(&shown.to_text(TextStyle::default()))
}

/// A combination of values that has been checked.
struct SweepJob {
    values: Vec<String>,
    spec: PlanSpec,
    /// The masks of this combination, if the mask itself varies.
    masks: Option<Vec<Mask>>,
    task: Task,
}

/// What is done with a combination.
enum Task {
    Price(Box<Plan>),
    Solve(Unknown),
}

impl SweepJob {
    /// Checks the combination, so that nothing is computed for a sweep that has a mistake somewhere.
    fn new(
        base: &PricingRequest,
        axes: &[SweepAxis<String>],
        values: Vec<String>,
        unknown: Option<Unknown>,
    ) -> Result<Self, Failure> {
        let spec = merged(base, axes, &values)?;
        let swept = axes.iter().any(|axis| axis.key.path == "region.mask");
        let masks = swept.then(|| load::masks(&spec, Path::new(""))).transpose()?;
        let task = match unknown {
            Some(unknown) => Task::Solve(unknown),
            None => {
                let plan = Plan::check_with_masks(&spec, masks.as_deref().unwrap_or(&base.masks));
                Task::Price(Box::new(plan.map_err(|error| at(axes, &values, error))?))
            }
        };
        Ok(Self { values, spec, masks, task })
    }

    fn run(
        self,
        masks: &[Mask],
        axes: &[SweepAxis<String>],
        precision: BracketPrecision,
    ) -> Result<Row, PlanError> {
        let Self { values, spec, masks: own, task } = self;
        let priced = match task {
            Task::Price(plan) => sweep::price(&plan, precision),
            Task::Solve(unknown) => sweep::solve(&spec, own.as_deref().unwrap_or(masks), unknown, precision),
        };
        match priced {
            Ok(priced) => Ok(Row { values, priced }),
            Err(error) => Err(at(axes, &values, error)),
        }
    }
}

/// The plan of a combination.
fn merged(
    base: &PricingRequest,
    axes: &[SweepAxis<String>],
    values: &[String],
) -> Result<PlanSpec, PlanError> {
    let mut layer = PlanSpec::default();
    for (axis, value) in axes.iter().zip(values) {
        layer.set(axis.key.path, value)?;
    }
    Ok(base.spec.merge(&layer))
}

fn at(axes: &[SweepAxis<String>], values: &[String], error: PlanError) -> PlanError {
    sweep::at(axes, values, String::clone, error)
}

fn columns(axes: &[SweepAxis<String>], unknown: Option<Unknown>) -> impl Iterator<Item = Cow<'static, str>> {
    let given = axes.iter().map(move |axis| axis.column(unknown));
    given.chain(sweep::measured(unknown).map(Cow::Borrowed))
}

fn answer(axes: &[SweepAxis<String>], rows: &[Row], unknown: Option<Unknown>) -> Answer {
    let told = |row: &Row| {
        let given = row.values.iter().map(|value| SweepCell::Given(Written::read(value)));
        let measured = sweep::measures(row.priced.as_ref(), unknown).into_iter().map(SweepCell::Measured);
        given.chain(measured).collect()
    };
    Answer { columns: columns(axes, unknown).collect(), rows: rows.iter().map(told).collect() }
}

/// The rows as a table: for people with bounds rounded to the safe side, for files in full.
fn table(
    axes: &[SweepAxis<String>],
    rows: &[Row],
    unknown: Option<Unknown>,
    people: bool,
) -> Result<Table, Failure> {
    let mut table = Table::new(columns(axes, unknown).map(Column::number));
    let cell = |measure: Option<SweepMeasure>| match measure {
        None => Cell::Empty,
        Some(SweepMeasure::Whole(value)) => value.to_string().into(),
        Some(SweepMeasure::Upper(value)) if people => number::up(value, 4).into(),
        Some(SweepMeasure::Lower(value)) if people => number::down(value, 4).into(),
        Some(SweepMeasure::Upper(value) | SweepMeasure::Lower(value)) => Cell::Number(value, 17),
    };
    for row in rows {
        let given = row.values.iter().map(|value| value.as_str().into());
        table.push(given.chain(sweep::measures(row.priced.as_ref(), unknown).into_iter().map(cell)))?;
    }
    Ok(table)
}
