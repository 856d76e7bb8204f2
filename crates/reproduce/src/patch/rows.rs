//! A computed figure as tables: every number for machines, a digest for people.

use dapple_plan::{Bracket, Scheme, number};
use dapple_report::{Cell, Column, ReportError, Table, TableRows};

use super::compute::{PatchCurve, PatchPoint, PatchResults};
use super::setting::{Mechanism, RunSampling};
use crate::grid::thinned;

/// Sizes of a sweep that the digest shows.
const DIGEST_POINTS: usize = 5;
/// Significant digits of the digest.
const DIGITS: usize = 4;

/// One row a point and mechanism. `epsilon` and `delta` are upper ends: of two, the one that was asked for has a
/// bracket, the other is given.
const COLUMNS: &[&str] = &[
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
pub(super) fn rows(results: &PatchResults) -> TableRows {
    let rows = results.curves.iter().flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
    TableRows { columns: COLUMNS, rows: rows.map(|(curve, point)| row(results, curve, point)).collect() }
}

/// Epsilon at the delta of the figures, for every line of a profile.
pub(super) fn summary(results: &PatchResults) -> TableRows {
    let lines = results.curves.iter().filter_map(|curve| {
        let point = curve.points.first()?;
        let delta = Bracket::exact(super::setting::DELTA);
        Some((curve, PatchPoint { epsilon: curve.summary?, delta, ..point.clone() }))
    });
    TableRows { columns: COLUMNS, rows: lines.map(|(curve, point)| row(results, curve, &point)).collect() }
}

fn row(results: &PatchResults, curve: &PatchCurve, point: &PatchPoint) -> Vec<Cell> {
    let scheme = curve.mechanism.scheme();
    let trained = |value: f64| Cell::from(scheme.map(|_| Cell::full(value)));
    let run = |value: fn(&RunSampling) -> Cell| Cell::from(point.run.as_ref().map(value));
    let setting = point.setting;
    let panel = results.panels.get(curve.panel).map_or("", |head| &head.title);
    vec![
        panel.into(),
        curve.mechanism.name().into(),
        scheme.map(|scheme| scheme.name()).into(),
        trained(setting.sigma),
        trained(results.reading.multiplier(setting.sigma)),
        (curve.mechanism == Mechanism::DataLevel).then(|| Cell::full(setting.pixel_sigma)).into(),
        setting.image.to_string().into(),
        Cell::whole(setting.crop.into()),
        setting.shape.to_string().into(),
        Cell::whole(setting.padding.into()),
        Cell::whole(setting.records),
        run(|run| Cell::whole(run.steps)),
        run(|run| Cell::full(run.inclusion_probability)),
        run(|run| Cell::full(run.effective_rate)),
        point.epsilon.lower.map(Cell::full).into(),
        Cell::full(point.epsilon.upper),
        point.delta.lower.map(Cell::full).into(),
        Cell::full(point.delta.upper),
    ]
}

/// Mechanisms side by side, epsilon rounded up: at the delta of the figures, and for sweeps at a few sizes.
pub(super) fn digest(results: &PatchResults) -> Result<Table, ReportError> {
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
                number::exact(results.reading.multiplier(curve.sigma)).into(),
            ];
            if !profile {
                row.push(number::exact(point.x).into());
            }
            row.push(point.run.map(|run| number::up(run.inclusion_probability, DIGITS)).into());
            let baseline = profile.then_some(Mechanism::DataLevel);
            for mechanism in Mechanism::TRAINING.into_iter().chain(baseline) {
                let other = results.curve(curve.panel, curve.sigma, mechanism);
                let epsilon = other
                    .and_then(|other| other.summary.or(other.points.get(index).map(|point| point.epsilon)));
                row.push(epsilon.map(|epsilon| number::up(epsilon.upper, DIGITS)).into());
            }
            table.push(row)?;
        }
    }
    Ok(table)
}
