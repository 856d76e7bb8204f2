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
    let task = match (trained.tuned, trained.scale) {
        (false, TrainingScale::Tiny) => "A small network on embedded scenes",
        (false, TrainingScale::Small | TrainingScale::Full) => "WRN-16-4 from scratch",
        (true, TrainingScale::Tiny) => "The last layer of a small pretrained network, on embedded garments",
        (true, TrainingScale::Small | TrainingScale::Full) => "The last layer of pretrained models",
    };
    format!("{task}: {steps} steps, δ = 10⁻⁵")
}

pub(super) fn digest(trained: &AccuracyRuns) -> Result<Table> {
    let mut table = Table::new([
        Column::text("data"),
        Column::text("model"),
        Column::text("method"),
        Column::number("views"),
        Column::number("mixtures"),
        Column::number("public"),
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
            data(trained, row).into(),
            model(trained, row).into(),
            method.name.into(),
            Cell::whole(method.views.into()),
            Cell::whole(method.self_mix.into()),
            Cell::whole(method.synthetic.into()),
            number::exact(row.cell.epsilon).into(),
            percent(row.cell.accuracy / 100.0).into(),
            percent(mean).into(),
            deviation.map(percent).into(),
            Cell::Integer(row.accuracies.len() as i64),
        ])?;
    }
    Ok(table)
}

fn data(trained: &AccuracyRuns, row: &TrainedAccuracy) -> &'static str {
    match (trained.scale, trained.tuned) {
        (TrainingScale::Tiny, false) => "scenes",
        (TrainingScale::Tiny, true) => "garments",
        _ => row.cell.data.name(),
    }
}

fn model(trained: &AccuracyRuns, row: &TrainedAccuracy) -> &'static str {
    if trained.scale == TrainingScale::Tiny { "small CNN" } else { row.cell.model.name() }
}

const COLUMNS: &[&str] = &[
    "data",
    "model",
    "method",
    "views",
    "mixtures",
    "public_images",
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
                data(trained, row).into(),
                model(trained, row).into(),
                method.name.into(),
                Cell::whole(method.views.into()),
                Cell::whole(method.self_mix.into()),
                Cell::whole(method.synthetic.into()),
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
    let mut notes = match trained.tuned {
        false => vec![
            "Each record is drawn by its own coin, which is what is priced; the paper's code draws batches of a fixed size. Records that are clipped together choose their pair by a draw of their own, so that pairs are of two records in expectation.",
            scratch_note(trained.scale),
        ],
        true => vec![
            "Each record is drawn by its own coin, which is what is priced; the paper's code draws batches of a fixed size. Public images beside the records are drawn from a pool that is claimed not to be made of them.",
            tuned_note(trained.scale),
            "Mixed Ghost clipping is a faster way to the same clipped gradients: what is trained under its name is one view of the whole image at its clip norm, 0.05, with steps as long as the others'.",
        ],
    };
    // The baseline stands in one table only.
    if !trained.rows.iter().any(|row| row.cell.method.whole) {
        notes.truncate(2);
    }
    let mut notes: Vec<String> = notes.into_iter().map(str::to_owned).collect();
    if !trained.missing.is_empty() {
        notes.push(format!("Not everything was trained. {}.", trained.missing.join("; ")));
    }
    notes
}

fn scratch_note(scale: TrainingScale) -> &'static str {
    match scale {
        TrainingScale::Full => {
            "The paper refers to its baseline for the learning rate: 2, constant, with a running mean of the weights."
        }
        TrainingScale::Small => {
            "At this scale there are a quarter of the views and mixtures, batches of 1024 and 20 epochs at a learning rate of 1: accuracies are not the paper's, and only methods may be compared."
        }
        TrainingScale::Tiny => {
            "At this scale a small network learns scenes of garments, with a quarter of the views and mixtures. What the paper prints is about WRN-16-4 on CIFAR-10: only methods may be compared. --scale small --data DIR trains that network."
        }
    }
}

fn tuned_note(scale: TrainingScale) -> &'static str {
    match scale {
        TrainingScale::Full => {
            "The paper searched for a learning rate in each case and prints none; here it is 1 for all. It does not say how far views are moved; here by an eighth of the image."
        }
        TrainingScale::Small => {
            "At this scale there are a quarter of the views and mixtures, half of the public images and 2 epochs, at a learning rate of 1: accuracies are not the paper's, and only methods may be compared."
        }
        TrainingScale::Tiny => {
            "At this scale a small network is pretrained on a thousand public garments, and its new last layer learns 1700 others, with a quarter of the views and mixtures and half of the public images. Synthetic images have the mean and the covariances of the public garments. What the paper prints is about ViT-B-16 on other images: only methods may be compared. --scale small trains that model."
        }
    }
}
