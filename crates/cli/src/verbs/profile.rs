//! `dapple profile`: delta as a function of epsilon.

use clap::Args;
use dapple_plan::spec::{Accountant, Delta};
use dapple_plan::{Bracket, Plan, number};
use dapple_report::{Axis, Cell, Chart, Column, Figure, Page, Reference, Section, Series, Table, TextStyle};
use serde::Serialize;

use crate::args::{Common, Width};
use crate::failure::Failure;
use crate::load::Request;
use crate::pictures::Pictures;
use crate::{output, ranges};

/// Points of a profile where none are asked for.
const DEFAULT_POINTS: usize = 41;
/// The delta that scales the default range where the plan has none; a profile does not depend on it.
const DEFAULT_DELTA: f64 = 1e-5;

/// Draws the privacy profile of a plan: delta for each epsilon
#[derive(Debug, Args)]
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
    points: Vec<Point>,
}

#[derive(Serialize)]
struct Point {
    epsilon: f64,
    /// The guarantee: never below the exact delta.
    delta: f64,
    delta_lower: f64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.pictures.check()?;
    let asked = arguments.epsilons.as_deref().map(|text| ranges::points("epsilons", text)).transpose()?;
    let mut request = Request::load(&arguments.common)?;
    let delta = request.spec.privacy.delta;
    request.spec.privacy.delta = delta.or(Some(Delta::Value(DEFAULT_DELTA)));
    let plan = request.plan()?;
    if plan.accountant() != Accountant::Pld {
        return Err(Failure::request(
            "privacy.accountant (--accountant): a profile needs privacy-loss distributions",
            "leave --accountant out, or use --accountant pld",
        ));
    }
    let precision = arguments.width.precision();
    let epsilons = match asked {
        Some(epsilons) => epsilons,
        None => default_epsilons(plan.epsilon(precision)?.upper),
    };
    let deltas = plan.pld()?.profile(&epsilons, precision).map_err(dapple_plan::PlanError::from)?;
    let points: Vec<Point> = epsilons
        .iter()
        .zip(deltas)
        .map(|(&epsilon, Bracket { lower, upper })| Point { epsilon, delta: upper, delta_lower: lower })
        .collect();
    let figure = figure(&plan, &points, delta.is_some());
    arguments
        .pictures
        .write(arguments.common.quiet, &numbers(&points)?, &figure, || page(&plan, &points, &figure))?;
    if arguments.common.json {
        return output::print_json(&Answer { points });
    }
    output::print(&shown(&points)?.to_text(TextStyle::default()))
}

fn default_epsilons(epsilon: f64) -> Vec<f64> {
    let top = 2.0 * epsilon.max(1e-6);
    (0..DEFAULT_POINTS).map(|i| top * i as f64 / (DEFAULT_POINTS - 1) as f64).collect()
}

fn columns() -> Table {
    Table::new([Column::number("epsilon"), Column::number("delta"), Column::number("delta_lower")])
}

/// The numbers in full, for a file.
fn numbers(points: &[Point]) -> Result<Table, Failure> {
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

/// The numbers as they are read: bounds rounded to their side.
fn shown(points: &[Point]) -> Result<Table, Failure> {
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

fn figure(plan: &Plan, points: &[Point], with_delta: bool) -> Figure {
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
        chart = chart
            .reference(Reference::horizontal(plan.delta(), format!("δ = {}", number::exact(plan.delta()))));
    }
    Figure::single(chart).note("The curve is the upper end of a certified bracket.")
}

fn page(plan: &Plan, points: &[Point], figure: &Figure) -> Page {
    let section = Section::new("").figure(figure, "For each epsilon, the delta that the plan guarantees.");
    let section = match shown(points) {
        Ok(table) => section.table(&table, "Bounds are rounded to their side."),
        Err(_) => section,
    };
    Page::new("Privacy profile").lead(format!("Plan `{}`.", plan.hash())).section(section)
}
