//! `dapple sweep`: many plans at once.

mod axes;
mod picture;

use clap::Args;
use dapple_geometry::Mask;
use dapple_plan::{Certificate, Plan, PlanError, PlanSpec, Precision, Solved, Unknown, Value, number};
use dapple_report::{Cell, Column, Table, TextStyle};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::json;

use super::calibrate::UnknownName;
use crate::args::{Common, Width};
use crate::failure::Failure;
use crate::load::{self, Request};
use crate::output;
use crate::pictures::Pictures;
use axes::Axis;

/// Prices a plan for every combination of some values, on all cores
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A key or flag name and its values; may be repeated, the first axis varies slowest
    #[arg(long, value_name = "KEY=A:B:STEP|KEY=A,B,C", required = true)]
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

/// One combination and what it costs.
struct Row {
    /// A value for each axis.
    values: Vec<String>,
    /// `None` where epsilon is too large to report, or no value of the unknown reaches the target.
    priced: Option<(Certificate, Option<Solved>)>,
}

#[derive(Serialize)]
struct Answer {
    columns: Vec<String>,
    rows: Vec<Vec<serde_json::Value>>,
}

/// What a row tells beside its values.
const MEASURES: [&str; 5] = ["epsilon", "epsilon_lower", "inclusion_probability", "effective_rate", "steps"];

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.pictures.check()?;
    let axes = arguments.over.iter().map(|text| Axis::parse(text)).collect::<Result<Vec<_>, _>>()?;
    axes::refuse_repeats(&axes)?;
    let base = Request::load(&arguments.common)?;
    let unknown = arguments.unknown.map(Unknown::from);
    let points = axes::combinations(&axes)?;
    let jobs = points
        .into_iter()
        .map(|values| Job::new(&base, &axes, values, unknown))
        .collect::<Result<Vec<_>, Failure>>()?;
    let bar = progress(jobs.len() as u64, arguments.common.quiet);
    let precision = arguments.width.precision();
    // Collecting keeps the order of the combinations, whichever core is done first.
    let rows = jobs
        .into_par_iter()
        .map(|job| {
            let row = job.run(&base.masks, unknown, precision);
            bar.inc(1);
            row
        })
        .collect::<Result<Vec<Row>, PlanError>>();
    bar.finish_and_clear();
    let rows = rows?;
    let figure = picture::figure(&axes, &rows, unknown);
    let numbers = table(&axes, &rows, unknown, false)?;
    let shown = table(&axes, &rows, unknown, true)?;
    arguments.pictures.write(arguments.common.quiet, &numbers, &figure, || picture::page(&figure, &shown))?;
    if arguments.common.json {
        return output::print_json(&answer(&axes, &rows, unknown));
    }
    output::print(&shown.to_text(TextStyle::default()))
}

/// A combination that holds together.
struct Job {
    values: Vec<String>,
    spec: PlanSpec,
    /// The masks of this combination, where the mask itself is varied.
    masks: Option<Vec<Mask>>,
    plan: Option<Plan>,
}

impl Job {
    /// Checks the combination, so that nothing is computed for a sweep that is wrong somewhere.
    fn new(
        base: &Request,
        axes: &[Axis],
        values: Vec<String>,
        unknown: Option<Unknown>,
    ) -> Result<Self, Failure> {
        let mut layer = PlanSpec::default();
        for (axis, value) in axes.iter().zip(&values) {
            layer.set(axis.key.path, value)?;
        }
        let spec = base.spec.merge(&layer);
        let masks = layer.region.mask.is_some().then(|| load::masks(&spec)).transpose()?;
        let plan = match unknown {
            Some(_) => None,
            None => {
                let plan = Plan::check_with_masks(&spec, masks.as_deref().unwrap_or(&base.masks));
                Some(plan.map_err(|error| at_point(axes, &values, error))?)
            }
        };
        Ok(Self { values, spec, masks, plan })
    }

    fn run(self, masks: &[Mask], unknown: Option<Unknown>, precision: Precision) -> Result<Row, PlanError> {
        let Self { values, spec, masks: own, plan } = self;
        let priced = match (plan, unknown) {
            (None, Some(unknown)) => {
                dapple_plan::calibrate(&spec, own.as_deref().unwrap_or(masks), unknown, precision)
                    .map(|found| (found.certificate, Some(found.solved)))
            }
            (plan, _) => plan
                .map_or_else(|| Plan::check_with_masks(&spec, own.as_deref().unwrap_or(masks)), Ok)
                .and_then(|plan| plan.price(precision))
                .map(|certificate| (certificate, None)),
        };
        match priced {
            Ok(priced) => Ok(Row { values, priced: Some(priced) }),
            Err(PlanError::Accounting { key: None, .. } | PlanError::Unreachable { .. }) => {
                Ok(Row { values, priced: None })
            }
            Err(error) => Err(error),
        }
    }
}

/// Says for which combination a plan is wrong.
fn at_point(axes: &[Axis], values: &[String], error: PlanError) -> Failure {
    let point: Vec<String> =
        axes.iter().zip(values).map(|(axis, value)| format!("{}={value}", axis.name)).collect();
    let hint = error.hint().unwrap_or_default();
    Failure::request(format!("at {}: {error}", point.join(", ")), hint)
}

fn progress(length: u64, quiet: bool) -> ProgressBar {
    // indicatif draws on stderr, and only if that is a terminal.
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(length), target);
    match ProgressStyle::with_template("{bar:40} {pos}/{len} plans, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn column_names(axes: &[Axis], unknown: Option<Unknown>) -> Vec<String> {
    let solved = unknown.map(Unknown::name);
    let axes = axes.iter().map(|axis| axis.name.as_str());
    axes.chain(solved).chain(MEASURES).map(str::to_owned).collect()
}

fn answer(axes: &[Axis], rows: &[Row], unknown: Option<Unknown>) -> Answer {
    let cells = |row: &Row| {
        let mut cells: Vec<serde_json::Value> =
            row.values.iter().map(|value| axes::json_value(value)).collect();
        if unknown.is_some() {
            let solved = row.priced.as_ref().and_then(|(_, solved)| *solved);
            cells.push(solved.map_or(serde_json::Value::Null, |solved| json!(solved.value)));
        }
        match &row.priced {
            Some((certificate, _)) => cells.extend([
                json!(certificate.epsilon.upper),
                json!(certificate.epsilon.lower),
                json!(certificate.inclusion_probability),
                json!(certificate.effective_rate),
                json!(certificate.steps),
            ]),
            None => cells.extend(MEASURES.map(|_| serde_json::Value::Null)),
        }
        cells
    };
    Answer { columns: column_names(axes, unknown), rows: rows.iter().map(cells).collect() }
}

/// The rows; for people with bounds rounded to their side, for files in full.
fn table(axes: &[Axis], rows: &[Row], unknown: Option<Unknown>, people: bool) -> Result<Table, Failure> {
    let mut table = Table::new(column_names(axes, unknown).into_iter().map(Column::number));
    let up = |value: f64| if people { number::up(value, 4).into() } else { Cell::Number(value, 17) };
    let down = |value: f64| if people { number::down(value, 4).into() } else { Cell::Number(value, 17) };
    for row in rows {
        let mut cells: Vec<Cell> = row.values.iter().map(|value| axes::cell(value)).collect();
        if unknown.is_some() {
            let solved = row.priced.as_ref().and_then(|(_, solved)| *solved);
            cells.push(match solved.map(|solved| solved.value) {
                None => Cell::Empty,
                Some(Value::Whole(value)) => value.to_string().into(),
                Some(Value::Real(value)) => up(value),
            });
        }
        match &row.priced {
            Some((certificate, _)) => cells.extend([
                up(certificate.epsilon.upper),
                certificate.epsilon.lower.map_or(Cell::Empty, down),
                up(certificate.inclusion_probability),
                up(certificate.effective_rate),
                certificate.steps.to_string().into(),
            ]),
            None => cells.extend(MEASURES.map(|_| Cell::Empty)),
        }
        table.push(cells)?;
    }
    Ok(table)
}
