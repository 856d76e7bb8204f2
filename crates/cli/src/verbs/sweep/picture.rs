//! A sweep as a figure and a page.

use dapple_plan::ranges::Written;
use dapple_plan::sweep::{PricedCombination, SweepAxis};
use dapple_plan::{Certificate, SolvedValue, Unknown, number};
use dapple_report::{Axis, Chart, Figure, Page, Section, Series, Table};

use super::Row;

/// From this ratio of the largest to the smallest value on, a logarithmic axis reads better.
const LOG_RATIO: f64 = 20.0;

/// The computed value over the first axis whose values are numbers, with a line for each combination of the others.
pub(super) fn figure(axes: &[SweepAxis<String>], rows: &[Row], unknown: Option<Unknown>) -> Figure {
    let measure = &unknown.map_or_else(|| "ε".to_owned(), |unknown| unknown.name().replace('-', " "));
    let across = axes.iter().position(is_numeric);
    let points: Vec<(String, f64, f64)> = rows
        .iter()
        .enumerate()
        .filter_map(|(index, row)| {
            let x = match across {
                Some(across) => Written::read(row.values.get(across)?).number()?,
                None => index as f64,
            };
            let PricedCombination { certificate, solved } = row.priced.as_ref()?;
            let y = match solved.map(|solved| solved.value) {
                Some(SolvedValue::Whole(value)) => value as f64,
                Some(SolvedValue::Real(value)) => value,
                None => certificate.epsilon.upper,
            };
            Some((label((axes, unknown), row, across, measure), x, y))
        })
        .collect();
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for (label, x, y) in points {
        match lines.iter_mut().find(|(name, _)| *name == label) {
            Some((_, line)) => line.push((x, y)),
            None => lines.push((label, vec![(x, y)])),
        }
    }
    let heights = lines.iter().flat_map(|(_, line)| line.iter().map(|(_, y)| *y));
    let (low, high) = heights.fold((f64::INFINITY, 0.0f64), |(low, high), y| (low.min(y), high.max(y)));
    let vertical = if low > 0.0 && high / low > LOG_RATIO {
        Axis::log(measure.as_str())
    } else {
        Axis::linear(measure.as_str())
    };
    let horizontal = across.map_or_else(|| "combination".to_owned(), |across| words(&axes[across], unknown));
    let names: Vec<String> = axes.iter().map(|axis| words(axis, unknown)).collect();
    let mut chart = Chart::new(format!("{measure} over {}", names.join(" and ")))
        .subtitle(subtitle(rows))
        .x(Axis::linear(horizontal))
        .y(vertical);
    for (label, line) in lines {
        chart = chart.series(Series::line_points(label, line));
    }
    Figure::single(chart).note(meaning(unknown))
}

/// What a point of the chart stands for.
fn meaning(unknown: Option<Unknown>) -> &'static str {
    match unknown {
        None => "Each point is the upper end of a certified bracket.",
        Some(_) => "At each point the upper end of the certified bracket is no more than the target.",
    }
}

fn is_numeric(axis: &SweepAxis<String>) -> bool {
    axis.values.iter().all(|value| Written::read(value).number().is_some())
}

/// The name of an axis as people read it, which is that of its column.
fn words(axis: &SweepAxis<String>, unknown: Option<Unknown>) -> String {
    axis.column(unknown).replace(['-', '_'], " ")
}

/// What all plans have in common.
fn subtitle(rows: &[Row]) -> String {
    let facts = |certificate: &Certificate| {
        [
            format!("{} relation", certificate.relation),
            format!("{} sampling", certificate.sampling.name()),
            format!("δ = {}", number::exact(certificate.delta)),
            format!("{} records", certificate.records),
        ]
    };
    let mut priced =
        rows.iter().filter_map(|row| row.priced.as_ref()).map(|priced| facts(&priced.certificate));
    let Some(first) = priced.next() else { return String::new() };
    let mut common = first.to_vec();
    priced.for_each(|facts| common.retain(|fact| facts.contains(fact)));
    common.join(", ")
}

fn label(
    (axes, unknown): (&[SweepAxis<String>], Option<Unknown>),
    row: &Row,
    across: Option<usize>,
    measure: &str,
) -> String {
    let others = axes.iter().zip(&row.values).enumerate().filter(|(index, _)| Some(*index) != across);
    let parts: Vec<String> =
        others.map(|(_, (axis, value))| format!("{} {value}", words(axis, unknown))).collect();
    if parts.is_empty() || across.is_none() { measure.to_owned() } else { parts.join(", ") }
}

pub(super) fn page(figure: &Figure, table: &Table, unknown: Option<Unknown>) -> Page {
    let section = Section::new("")
        .figure(figure, meaning(unknown))
        .table(table, "Bounds are rounded to their side; empty where no bound can be reported.");
    Page::new("Sweep").section(section)
}
