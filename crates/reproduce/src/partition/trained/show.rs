//! How the trained accuracies of the partitioning paper are shown.

use dapple_plan::number;
use dapple_report::{Axis, Cell, Chart, Column, Dash, Series, Table, TableRows};

use super::catalogue::TrainingStart;
use super::plans::at_scale;
use super::{PartitionAccuracies, TrainedPartition};
use crate::error::Result;
use crate::experiment::moments;
use crate::options::TrainingScale;
use crate::trained::percent;

/// Significant digits of the noise.
const DIGITS: usize = 4;

pub(super) fn subtitle(trained: &PartitionAccuracies) -> String {
    let data = match trained.scale {
        TrainingScale::Tiny => "Small networks on embedded garments",
        TrainingScale::Small | TrainingScale::Full => "CIFAR-10",
    };
    format!("{data}: ε = 8 at δ = 10⁻⁵")
}

pub(super) fn digest(trained: &PartitionAccuracies) -> Result<Table> {
    let mut table = Table::new([
        Column::text("method"),
        Column::number("submodels"),
        Column::number("steps"),
        Column::number("noise"),
        Column::number("paper's best"),
        Column::number("here"),
        Column::number("deviation"),
        Column::number("runs"),
    ]);
    for row in &trained.rows {
        let method = at_scale(row.printed.method, trained.scale);
        let (mean, deviation) = moments(&row.accuracies);
        table.push([
            method.name.into(),
            Cell::whole(method.submodels.into()),
            Cell::whole(row.steps),
            number::up(row.noise_multiplier, DIGITS).into(),
            percent(row.printed.accuracy).into(),
            percent(mean).into(),
            deviation.map(percent).into(),
            Cell::whole(row.accuracies.len() as u64),
        ])?;
    }
    Ok(table)
}

const COLUMNS: &[&str] = &[
    "method",
    "submodels",
    "submodels_known",
    "sampling",
    "steps",
    "noise_multiplier",
    "epsilon",
    "seed",
    "paper_accuracy",
    "accuracy",
];

pub(super) fn numbers(trained: &PartitionAccuracies) -> TableRows {
    let mut rows = Vec::new();
    for row in &trained.rows {
        let method = at_scale(row.printed.method, trained.scale);
        for (place, accuracy) in row.accuracies.iter().enumerate() {
            rows.push(vec![
                method.name.into(),
                Cell::whole(method.submodels.into()),
                if method.told { "yes" } else { "no" }.into(),
                if method.balanced { "balanced" } else { "poisson" }.into(),
                Cell::whole(row.steps),
                Cell::full(row.noise_multiplier),
                Cell::full(row.epsilon),
                Cell::whole(place as u64 + 1),
                Cell::full(row.printed.accuracy),
                Cell::full(*accuracy),
            ]);
        }
    }
    TableRows { columns: COLUMNS, rows }
}

pub(super) fn chart(trained: &PartitionAccuracies) -> Chart {
    let points = |value: fn(&TrainedPartition) -> f64| {
        trained.rows.iter().enumerate().map(move |(place, row)| (place as f64 + 1.0, value(row)))
    };
    let paper = points(|row| row.printed.accuracy);
    Chart::new("")
        .x(Axis::linear("line of the table").range(0.5, trained.rows.len() as f64 + 0.5))
        .y(Axis::linear("accuracy").range(0.0, 1.0))
        .series(Series::line_points("here", points(TrainedPartition::mean)).color(0))
        .series(Series::line_points("paper", paper).color(1).dash(Dash::Dotted))
}

pub(super) fn notes(trained: &PartitionAccuracies) -> Vec<String> {
    let has = |is_so: fn(&TrainedPartition) -> bool| trained.rows.iter().any(is_so);
    let mut notes = vec![
        "The paper prints the best of three runs, whose deviation is about 0.7 points; here are the mean and the deviation of single runs. It states neither learning rates nor augmentations.".to_owned(),
    ];
    let federated = has(|row| row.printed.method.federated);
    if has(|row| row.printed.method.submodels > 1) {
        let norms = if federated { "as 0.5 to 0.585" } else { "to the same norm" };
        notes.push(format!("Baseline and amplification train alike, with the noise for submodels that everybody knows and for ones that nobody knows: what the baseline spends is less than its budget. Split and shared part are clipped {norms}, as the paper's noise tells."));
    }
    if federated {
        notes.push("Whole users are protected: each holds two images and takes three steps from the round's weights in the one submodel that it drew, and what it learned is clipped as a whole. A step is a round. At scales tiny and full every user takes part in every round, as in the paper; at scale small each does by a coin of probability 0.02, in 40 rounds.".to_owned());
    }
    if let Some(reached) = trained.pretrained {
        notes.push(format!(
            "Pretraining saw eight classes of one half, without privacy, and ended when it told {} of the images split off right (the paper's at 70%). The private half has all ten.",
            percent(reached)
        ));
    }
    if trained.scale == TrainingScale::Tiny {
        let model = match has(|row| row.printed.method.start == TrainingStart::Scratch) {
            true => "a small network from scratch and a small hybrid",
            false if federated => {
                "a small hybrid, on 14x14 pixels of each, whose four blocks are dealt out to 2 or 4 submodels in the place of 3 or 8, in 5 rounds"
            }
            false => {
                "a small hybrid whose four blocks are dealt out to 2 or 4 submodels in the place of 3 or 8"
            }
        };
        notes.push(format!("At this scale garments train {model}: only methods may be compared. --scale small --data DIR trains the paper's network."));
    }
    notes
}
