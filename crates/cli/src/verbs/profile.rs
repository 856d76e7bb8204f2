//! `dapple profile`: delta as a function of epsilon.

use clap::Args;
use dapple_plan::{Plan, ProfilePoint, number, ranges};
use dapple_report::{
    Axis, Cell, Chart, Column, Figure, Page, ReferenceLine, Section, Series, Table, TextStyle,
};
use serde::Serialize;

use crate::args::{Common, Width};
use crate::failure::Failure;
use crate::load::PricingRequest;
use crate::output;
use crate::pictures::Pictures;

/// Draws the privacy profile of a plan: delta for each epsilon
#[derive(Debug, Args)]
#[command(after_help = "Example:
  dapple profile plan.toml --epsilons 0:2:21 --svg profile.svg")]
pub(crate) struct Arguments {
    /// Where to evaluate: FROM:TO:COUNT or a list [default: 41 points up to twice the plan's epsilon]
    #[arg(long, value_name = "A:B:N|LIST", allow_hyphen_values = true)]
    epsilons: Option<String>,
    #[command(flatten)]
    width: Width,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    pictures: Pictures,
}

#[derive(Serialize)]
struct Answer {
    points: Vec<ProfilePoint>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.pictures.check()?;
    let asked = arguments.epsilons.as_deref().map(|text| ranges::points("epsilons", text)).transpose()?;
    let mut request = PricingRequest::load(&arguments.common)?;
    let with_delta = request.spec.privacy.delta.is_some();
    // The noise is solved for at the plan's own delta.
    request.settle()?;
    request.spec = request.spec.for_profile();
    let plan = request.plan()?;
    let points = plan.profile(asked, arguments.width.precision())?;
    let figure = figure(&plan, &points, with_delta);
    arguments.pictures.write(arguments.common.output.quiet, &numbers(&points)?, &figure, || {
        page(&plan, &points, &figure)
    })?;
    if arguments.common.output.json {
        return output::print_json(&Answer { points });
    }
    output::print(&shown(&points)?.to_text(TextStyle::default()))
}

fn columns() -> Table {
    Table::new([Column::number("epsilon"), Column::number("delta"), Column::number("delta_lower")])
}

/// The numbers in full, for a file.
fn numbers(points: &[ProfilePoint]) -> Result<Table, Failure> {
    let mut table = columns();
    for point in points {
        table.push([
            Cell::Number(point.epsilon, 17),
            Cell::Number(point.delta, 17),
            Cell::Number(point.delta_lower, 17),
        ])?;
    }
    Ok(table)
}

/// The numbers for people, with bounds rounded to the safe side.
fn shown(points: &[ProfilePoint]) -> Result<Table, Failure> {
    let mut table = columns();
    for point in points {
        table.push([
            Cell::Number(point.epsilon, 5),
            number::up(point.delta, 4).into(),
            number::down(point.delta_lower, 4).into(),
        ])?;
    }
    Ok(table)
}

fn figure(plan: &Plan, points: &[ProfilePoint], with_delta: bool) -> Figure {
    let curve = points.iter().map(|point| (point.epsilon, point.delta));
    let label = format!("{} relation, {} sampling", plan.relation(), plan.sampling());
    let mut chart = Chart::new("Privacy profile")
        .subtitle(format!(
            "{} steps, batch {} of {} records, noise multiplier {}",
            plan.steps(),
            plan.batch(),
            plan.records(),
            plan.noise_multiplier()
        ))
        .x(Axis::linear("ε"))
        .y(Axis::log("δ(ε)"))
        .series(Series::line(label, curve));
    if with_delta {
        chart = chart.reference(ReferenceLine::horizontal(
            plan.delta(),
            format!("δ = {}", number::exact(plan.delta())),
        ));
    }
    Figure::single(chart).note("The curve is the upper end of a certified bracket.")
}

fn page(plan: &Plan, points: &[ProfilePoint], figure: &Figure) -> Page {
    let section = Section::new("").figure(figure, "For each epsilon, the delta that the plan guarantees.");
    let section = match shown(points) {
        Ok(table) => section.table(&table, "Bounds are rounded to their side."),
        Err(_) => section,
    };
    Page::new("Privacy profile").lead(format!("Plan `{}`.", plan.hash())).section(section)
}
