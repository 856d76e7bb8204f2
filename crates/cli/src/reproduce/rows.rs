//! A computed figure as tables: every number for machines, a digest for people.

use dapple_plan::{Bracket, Scheme, number};
use dapple_report::{Cell, Column, ReportError, Table};

use super::compute::{Curve, Point, Results, thinned};
use super::setting::{Mechanism, Reading};

/// Sizes of a sweep that the digest shows.
const DIGEST_POINTS: usize = 5;
/// Significant digits of the digest.
const DIGITS: usize = 4;

/// One row a point and mechanism. `epsilon` and `delta` are upper ends: of two, the one that was asked for has a
/// bracket, the other is given.
pub(super) const COLUMNS: &[&str] = &[
    "panel",
    "mechanism",
    "sampling",
    "sigma",
    "noise_multiplier",
    "pixel_sigma",
    "image",
    "crop",
    "region",
    "padding",
    "records",
    "steps",
    "inclusion_probability",
    "effective_rate",
    "epsilon_lower",
    "epsilon",
    "delta_lower",
    "delta",
];

/// Every point of a figure.
pub(super) fn rows(results: &Results, reading: Reading) -> Vec<Vec<Cell>> {
    let rows = results.curves.iter().flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
    rows.map(|(curve, point)| row(results, curve, point, reading)).collect()
}

/// Epsilon at the delta of the figures, for every line of a profile.
pub(super) fn summary(results: &Results, reading: Reading) -> Vec<Vec<Cell>> {
    let lines = results.curves.iter().filter_map(|curve| {
        let point = curve.points.first()?;
        let delta = Bracket::exact(super::setting::DELTA);
        Some((curve, Point { epsilon: curve.summary?, delta, ..point.clone() }))
    });
    lines.map(|(curve, point)| row(results, curve, &point, reading)).collect()
}

fn row(results: &Results, curve: &Curve, point: &Point, reading: Reading) -> Vec<Cell> {
    let full = |value: f64| Cell::Number(value, 17);
    let trained = |value: f64| curve.mechanism.scheme().map_or(Cell::Empty, |_| full(value));
    let run = |value: fn(&super::setting::Run) -> Cell| point.run.as_ref().map_or(Cell::Empty, value);
    let integer = |value: u64| i64::try_from(value).map_or_else(|_| full(value as f64), Cell::Integer);
    let setting = point.setting;
    let panel = results.panels.get(curve.panel).map_or("", |head| &head.title);
    vec![
        panel.into(),
        curve.mechanism.name().into(),
        curve.mechanism.scheme().map_or(Cell::Empty, |scheme| scheme.name().into()),
        trained(setting.sigma),
        trained(reading.multiplier(setting.sigma)),
        if curve.mechanism == Mechanism::DataLevel { full(setting.pixel_sigma) } else { Cell::Empty },
        setting.image.to_string().into(),
        integer(setting.crop.into()),
        setting.shape.to_string().into(),
        integer(setting.padding.into()),
        integer(setting.records),
        run(|run| i64::try_from(run.steps).map_or(Cell::Empty, Cell::Integer)),
        run(|run| Cell::Number(run.inclusion_probability, 17)),
        run(|run| Cell::Number(run.effective_rate, 17)),
        full(point.epsilon.lower),
        full(point.epsilon.upper),
        full(point.delta.lower),
        full(point.delta.upper),
    ]
}

/// Mechanisms side by side, epsilon rounded up: at the delta of the figures, and for sweeps at a few sizes.
pub(super) fn digest(results: &Results, reading: Reading) -> Result<Table, ReportError> {
    let profile = results.epsilons.is_some();
    let mut columns = vec![Column::text("panel"), Column::number("σ"), Column::number("noise multiplier")];
    if !profile {
        columns.push(Column::number("size"));
    }
    columns.push(Column::number("inclusion"));
    columns.extend(
        ["patch, without repl.", "patch, Poisson", "minibatch, without repl.", "minibatch, Poisson"]
            .map(Column::number),
    );
    if profile {
        columns.push(Column::number("data-level noise"));
    }
    let mut table = Table::new(columns);
    let paper = Mechanism::Patch(Scheme::WithoutReplacement);
    for curve in results.curves.iter().filter(|curve| curve.mechanism == paper) {
        let shown: Vec<usize> = (0..curve.points.len()).collect();
        for index in thinned(&shown, Some(if profile { 2 } else { DIGEST_POINTS })) {
            let Some(point) = curve.points.get(index) else { continue };
            if profile && index > 0 {
                continue;
            }
            let panel = results.panels.get(curve.panel).map_or("", |head| &head.title);
            let mut row: Vec<Cell> = vec![
                panel.into(),
                number::exact(curve.sigma).into(),
                number::exact(reading.multiplier(curve.sigma)).into(),
            ];
            if !profile {
                row.push(number::exact(point.x).into());
            }
            row.push(
                point.run.map_or(Cell::Empty, |run| number::up(run.inclusion_probability, DIGITS).into()),
            );
            let baseline = profile.then_some(Mechanism::DataLevel);
            for mechanism in Mechanism::TRAINING.into_iter().chain(baseline) {
                let other = results.curve(curve.panel, curve.sigma, mechanism);
                let epsilon = other
                    .and_then(|other| other.summary.or(other.points.get(index).map(|point| point.epsilon)));
                row.push(epsilon.map_or(Cell::Empty, |epsilon| number::up(epsilon.upper, DIGITS).into()));
            }
            table.push(row)?;
        }
    }
    Ok(table)
}
