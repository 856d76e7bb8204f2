//! How the trained tables of the mixing paper are shown.

use dapple_plan::number;
use dapple_report::{Axis, Cell, Chart, Column, Dash, Series, Table, TableRows};

use super::plans::at_scale;
use super::trained::{AccuracyRuns, TrainedAccuracy};
use crate::error::Result;
use crate::experiment::moments;
use crate::options::TrainingScale;
use crate::trained::percent;

pub(super) fn subtitle(trained: &AccuracyRuns) -> String {
    let steps = trained.rows.first().map_or(0, |row| row.steps);
    match trained.scale {
        TrainingScale::Tiny => format!("A small network on embedded scenes: {steps} steps, δ = 10⁻⁵"),
        TrainingScale::Small | TrainingScale::Full => {
            format!("WRN-16-4 from scratch: {steps} steps, δ = 10⁻⁵")
        }
    }
}

pub(super) fn digest(trained: &AccuracyRuns) -> Result<Table> {
    let mut table = Table::new([
        Column::text("data"),
        Column::text("method"),
        Column::number("views"),
        Column::number("mixtures"),
        Column::number("ε"),
        Column::number("paper"),
        Column::number("here"),
        Column::number("deviation"),
        Column::number("runs"),
    ]);
    for row in &trained.rows {
        let method = at_scale(row.cell.method, trained.scale);
        let (mean, deviation) = moments(&row.accuracies);
        table.push([
            data(trained, row.cell.data.name()).into(),
            method.name.into(),
            Cell::whole(method.views.into()),
            Cell::whole(method.self_mix.into()),
            number::exact(row.cell.epsilon).into(),
            percent(row.cell.accuracy / 100.0).into(),
            percent(mean).into(),
            deviation.map(percent).into(),
            Cell::Integer(row.accuracies.len() as i64),
        ])?;
    }
    Ok(table)
}

fn data(trained: &AccuracyRuns, name: &'static str) -> &'static str {
    if trained.scale == TrainingScale::Tiny { "scenes" } else { name }
}

const COLUMNS: &[&str] = &[
    "data",
    "method",
    "views",
    "mixtures",
    "records_per_clip",
    "epsilon_target",
    "noise_multiplier",
    "steps",
    "seed",
    "paper_accuracy",
    "accuracy",
];

pub(super) fn numbers(trained: &AccuracyRuns) -> TableRows {
    let mut rows = Vec::new();
    for row in &trained.rows {
        let method = at_scale(row.cell.method, trained.scale);
        for (place, accuracy) in row.accuracies.iter().enumerate() {
            rows.push(vec![
                data(trained, row.cell.data.name()).into(),
                method.name.into(),
                Cell::whole(method.views.into()),
                Cell::whole(method.self_mix.into()),
                Cell::whole(method.together.into()),
                Cell::full(row.cell.epsilon),
                Cell::full(row.noise_multiplier),
                Cell::whole(row.steps),
                Cell::whole(place as u64 + 1),
                Cell::full(row.cell.accuracy / 100.0),
                Cell::full(*accuracy),
            ]);
        }
    }
    TableRows { columns: COLUMNS, rows }
}

pub(super) fn chart(trained: &AccuracyRuns) -> Chart {
    let last = trained.rows.len() as f64 + 0.5;
    let points = |value: fn(&TrainedAccuracy) -> f64| {
        trained.rows.iter().enumerate().map(move |(place, row)| (place as f64 + 1.0, value(row)))
    };
    Chart::new("")
        .x(Axis::linear("line of the table").range(0.5, last))
        .y(Axis::linear("accuracy").range(0.0, 1.0))
        .series(Series::line_points("here", points(TrainedAccuracy::mean)).color(0))
        .series(
            Series::line_points("paper", points(|row| row.cell.accuracy / 100.0)).color(1).dash(Dash::Dotted),
        )
}

pub(super) fn notes(trained: &AccuracyRuns) -> Vec<String> {
    let mut notes = vec![
        "Each record is drawn by its own coin, which is what is priced; the paper's code draws batches of a fixed size. Records that are clipped together choose their pair by a draw of their own, so that pairs are of two records in expectation.".to_owned(),
    ];
    match trained.scale {
        TrainingScale::Full => notes.push(
            "The paper refers to its baseline for the learning rate: 2, constant, with a running mean of the weights.".to_owned(),
        ),
        TrainingScale::Small => notes.push(
            "At this scale there are a quarter of the views and mixtures, batches of 1024 and 20 epochs at a learning rate of 1: accuracies are not the paper's, and only methods may be compared.".to_owned(),
        ),
        TrainingScale::Tiny => notes.push(
            "At this scale a small network learns scenes of garments, with a quarter of the views and mixtures. What the paper prints is about WRN-16-4 on CIFAR-10: only methods may be compared. --scale small --data DIR trains that network.".to_owned(),
        ),
    }
    if !trained.missing.is_empty() && trained.scale != TrainingScale::Tiny {
        notes.push(format!("Not trained, because there is no folder of it: {}.", trained.missing.join(", ")));
    }
    notes
}
