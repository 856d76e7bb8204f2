//! `partition/*`: the figures of the partitioning paper (D), and the noise of its tables.

mod claims;
mod compute;
mod figures;
mod price;
mod tables;

use dapple_plan::number;
use dapple_report::{Axis, Cell, Chart, Column, Dash, Figure, Reference, Series, Table};

use super::compute::thinned;
use super::outcome::Outcome;
use super::{Arguments, Listed};
use crate::failure::Failure;
use crate::rows::Rows;
use compute::{Curve, Point};
use figures::{Question, Spec};
use price::{Price, Sampling};

/// Points of a line that the digest shows.
const DIGEST_POINTS: usize = 6;
/// Significant digits of the digest.
const DIGITS: usize = 4;

const COLUMNS: &[&str] = &[
    "panel",
    "line",
    "price",
    "submodels",
    "sample_rate",
    "steps",
    "per_record",
    "noise_multiplier",
    "order",
    "divergence",
    "epsilon_lower",
    "epsilon",
    "delta_lower",
    "delta",
];

/// Everything that can be asked for here.
pub(super) fn listed() -> Vec<Listed> {
    let figure = |spec: &Spec| Listed { id: spec.id, title: spec.title, section: spec.section };
    figures::all().iter().map(figure).chain(tables::listed()).collect()
}

/// The figure or table of this name, if it is one of these.
pub(super) fn outcome(id: &str, arguments: &Arguments) -> Result<Option<Outcome>, Failure> {
    if let Some(outcome) = tables::outcome(id)? {
        return Ok(Some(outcome));
    }
    let specs = figures::all();
    let Some(spec) = specs.iter().find(|spec| spec.id == id) else { return Ok(None) };
    let curves = compute::compute(spec, arguments.points.map(|points| points as usize))?;
    let figure = claims::Figure { spec, curves: &curves };
    let findings = spec.checks.iter().map(|check| check.find(&figure)).collect::<Result<_, Failure>>()?;
    let notes: Vec<String> = spec.open.iter().map(|note| (*note).to_owned()).collect();
    let number = spec.id.rsplit_once("fig").map_or(spec.id, |(_, number)| number);
    Ok(Some(Outcome {
        id: spec.id,
        title: spec.title,
        heading: format!("Figure {number}: {}", spec.title),
        subtitle: "Leveraging Randomness in Model and Data Partitioning, beside certified bounds".to_owned(),
        digest: digest(spec, &curves)?,
        digest_says: match spec.panels.first().map(|panel| panel.question) {
            Some(Question::EpsilonOverNoise { .. }) => "epsilon, rounded up",
            Some(Question::NoiseOverSteps { .. }) => "noise multiplier, rounded up",
            Some(Question::DeltaOverSteps { .. }) => "delta, rounded up",
            _ => "Rényi divergence, rounded up",
        },
        numbers: Rows { columns: COLUMNS, rows: rows(spec, &curves) },
        summary: None,
        findings,
        findings_say: "What the paper says of it",
        figure: draw(spec, &curves, &notes),
        notes,
    }))
}

fn whole(value: u64) -> Cell {
    i64::try_from(value).map_or(Cell::Empty, Cell::Integer)
}

/// A number, or nothing where there is none.
fn full(value: f64) -> Cell {
    if value.is_finite() { Cell::Number(value, 17) } else { Cell::Empty }
}

fn rows(spec: &Spec, curves: &[Curve]) -> Vec<Vec<Cell>> {
    let points = curves.iter().flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
    points.filter_map(|(curve, point)| row(spec, curve, point)).collect()
}

fn row(spec: &Spec, curve: &Curve, point: &Point) -> Option<Vec<Cell>> {
    let panel = spec.panels.get(curve.panel)?;
    let value = point.value;
    let given = |given: f64| [full(given), full(given)];
    let nothing = || [Cell::Empty, Cell::Empty];
    let asked = [full(value.lower), full(value.upper)];
    let (order, divergence, epsilon, delta) = match panel.question {
        Question::EpsilonOverNoise { delta, .. } => (Cell::Empty, Cell::Empty, asked, given(delta)),
        Question::NoiseOverSteps { epsilon, delta } => {
            (Cell::Empty, Cell::Empty, given(epsilon), given(delta))
        }
        Question::DeltaOverSteps { epsilon, .. } => (Cell::Empty, Cell::Empty, given(epsilon), asked),
        Question::DivergenceOverOrder { .. } => (full(point.x), full(value.upper), nothing(), nothing()),
    };
    let rate = match point.run.sampling {
        Sampling::Poisson { rate, .. } => full(rate),
        _ => Cell::Empty,
    };
    let [epsilon_lower, epsilon] = epsilon;
    let [delta_lower, delta] = delta;
    Some(vec![
        panel.title.into(),
        curve.line.label.into(),
        curve.line.price.name().into(),
        curve.line.submodels().map_or(Cell::Empty, whole),
        rate,
        whole(point.run.steps),
        point.run.per_record().map_or(Cell::Empty, whole),
        full(point.run.noise_multiplier),
        order,
        divergence,
        epsilon_lower,
        epsilon,
        delta_lower,
        delta,
    ])
}

/// One row a place on the x axis, one column a line.
fn digest(spec: &Spec, curves: &[Curve]) -> Result<Table, Failure> {
    let x = spec.panels.first().map_or("", |panel| panel.question.x());
    let names = spec.lines.iter().map(|line| Column::number(line.label));
    let mut table = Table::new([Column::text("panel"), Column::number(x)].into_iter().chain(names));
    for (index, panel) in spec.panels.iter().enumerate() {
        let of_panel: Vec<&Curve> = curves.iter().filter(|curve| curve.panel == index).collect();
        let Some(first) = of_panel.first() else { continue };
        let places: Vec<f64> = first.points.iter().map(|point| point.x).collect();
        for x in thinned(&places, Some(DIGEST_POINTS)) {
            let cell = |curve: &&Curve| {
                let point = curve.points.iter().find(|point| point.x == x);
                point.map_or(Cell::Empty, |point| number::up(point.value.upper, DIGITS).into())
            };
            let head: [Cell; 2] = [panel.title.into(), number::exact(x).into()];
            table.push(head.into_iter().chain(of_panel.iter().map(cell)))?;
        }
    }
    Ok(table)
}

fn draw(spec: &Spec, curves: &[Curve], notes: &[String]) -> Figure {
    let number = spec.id.rsplit_once("fig").map_or(spec.id, |(_, number)| number);
    let columns = spec.panels.len().min(2);
    let mut figure =
        Figure::new(format!("Figure {number}: {}", spec.title)).columns(columns).panel_size(430.0, 320.0);
    for (index, panel) in spec.panels.iter().enumerate() {
        let y = match panel.question {
            Question::NoiseOverSteps { .. } => Axis::linear(panel.question.y()),
            _ => Axis::log(panel.question.y()),
        };
        let mut chart = Chart::new(panel.title).x(Axis::linear(panel.question.x())).y(y);
        if matches!(panel.question, Question::DeltaOverSteps { .. }) {
            chart = chart.reference(Reference::horizontal(1e-5, "δ = 10⁻⁵"));
        }
        for curve in curves.iter().filter(|curve| curve.panel == index) {
            let points = curve.points.iter().map(|point| (point.x, point.value.upper.max(1e-30)));
            let series = Series::line(curve.line.label, points).color(curve.line.color);
            let dash = if curve.line.price == Price::Certified { Dash::Solid } else { curve.line.dash };
            chart = chart.series(series.dash(dash));
        }
        figure = figure.panel(chart);
    }
    notes.iter().fold(figure, |figure, note| figure.note(note.clone()))
}
