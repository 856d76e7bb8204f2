//! How the trained accuracies of the masked paper are shown.

use dapple_plan::number;
use dapple_plan::spec::{MaskedContent, PublicGradient};
use dapple_report::{Axis, Bar, Cell, Chart, Column, Figure, Table, TableRows};

use super::catalogue::MaskMethod;
use super::{MaskAccuracies, TrainedMask};
use crate::error::Result;
use crate::experiment::{means_line, moments};
use crate::options::TrainingScale;
use crate::trained::percent;

/// Significant digits of the noise.
const DIGITS: usize = 4;

pub(super) fn subtitle(trained: &MaskAccuracies) -> String {
    let steps = trained.cells.first().map_or(0, |cell| cell.steps);
    match trained.scale {
        TrainingScale::Tiny => {
            format!("A small model on drawn clips with a private background, {steps} steps")
        }
        TrainingScale::Small | TrainingScale::Full => {
            format!("MViTv2-S, last layer and norms of two blocks, {steps} steps")
        }
    }
}

fn set_name(trained: &MaskAccuracies, cell: &TrainedMask) -> &'static str {
    if trained.scale == TrainingScale::Tiny { "drawn clips" } else { cell.set.name }
}

pub(super) fn digest(trained: &MaskAccuracies) -> Result<Table> {
    let mut table = Table::new([
        Column::text("data"),
        Column::number("ε"),
        Column::text("protects"),
        Column::number("noise"),
        Column::number("paper"),
        Column::number("here"),
        Column::number("deviation"),
        Column::number("runs"),
    ]);
    for cell in &trained.cells {
        let (mean, deviation) = moments(&cell.scores);
        table.push([
            set_name(trained, cell).into(),
            cell.epsilon.map(number::exact).into(),
            cell.method.words().into(),
            cell.noise_multiplier.map(|noise| number::up(noise, DIGITS)).into(),
            cell.printed.map(percent).into(),
            percent(mean).into(),
            deviation.map(percent).into(),
            Cell::whole(cell.scores.len() as u64),
        ])?;
    }
    Ok(table)
}

const COLUMNS: &[&str] =
    &["data", "method", "epsilon_target", "noise_multiplier", "steps", "seed", "paper", "score"];

pub(super) fn numbers(trained: &MaskAccuracies) -> TableRows {
    let mut rows = Vec::new();
    for cell in &trained.cells {
        let full = |value: Option<f64>| value.map_or(Cell::Empty, Cell::full);
        for (place, score) in cell.scores.iter().enumerate() {
            rows.push(vec![
                set_name(trained, cell).into(),
                cell.method.key().into(),
                full(cell.epsilon),
                full(cell.noise_multiplier),
                Cell::whole(cell.steps),
                Cell::whole(place as u64 + 1),
                full(cell.printed),
                Cell::full(*score),
            ]);
        }
    }
    TableRows { columns: COLUMNS, rows }
}

/// A chart over the budget, and one of the classes (M Figure 3), for each data set.
pub(super) fn draw(trained: &MaskAccuracies, figure: Figure) -> Figure {
    let mut sets: Vec<&str> = trained.cells.iter().map(|cell| cell.set.format).collect();
    sets.dedup();
    sets.into_iter().fold(figure, |figure, set| {
        let own: Vec<&TrainedMask> = trained.cells.iter().filter(|cell| cell.set.format == set).collect();
        let name = own.first().map_or("", |cell| set_name(trained, cell));
        figure.panel(over_budgets(name, &own)).panel(over_classes(&own))
    })
}

fn over_budgets(name: &str, cells: &[&TrainedMask]) -> Chart {
    let chart = Chart::new(name).x(Axis::log("ε")).y(Axis::linear("score").range(0.0, 1.0));
    MaskMethod::private().fold(chart, |chart, method| {
        let own = cells.iter().filter(|cell| cell.method == method);
        let at = |cell: &&TrainedMask| {
            let (mean, deviation) = moments(&cell.scores);
            Some((cell.epsilon?, mean, deviation))
        };
        let means: Vec<_> = own.filter_map(at).collect();
        means_line(chart, method.words(), (method.color(), method.dash()), &means)
    })
}

/// The accuracy on each class without privacy, with whole clips private, and with private tokens, at the smallest budget.
fn over_classes(cells: &[&TrainedMask]) -> Chart {
    let smallest = cells.iter().filter_map(|cell| cell.epsilon).fold(f64::INFINITY, f64::min);
    let content = MaskedContent::Remove;
    let shown = [
        MaskMethod::Open,
        MaskMethod::Whole(content),
        MaskMethod::Tokens(content, PublicGradient::Decoupled),
    ];
    let title = format!("each class at ε = {}", number::exact(smallest));
    let chart = Chart::new(title).x(Axis::linear("class")).y(Axis::linear("accuracy").range(0.0, 1.0));
    let width = 0.8 / shown.len() as f64;
    shown.into_iter().enumerate().fold(chart, |chart, (place, method)| {
        let is_one = |cell: &&&TrainedMask| {
            cell.method == method && (cell.epsilon.is_none() || cell.epsilon == Some(smallest))
        };
        let Some(cell) = cells.iter().find(is_one) else { return chart };
        let bars = cell.per_class.iter().enumerate().map(|(class, &height)| Bar {
            x: class as f64 + (place as f64 - 1.0) * width,
            width,
            height,
        });
        chart.bars(method.words(), method.color(), bars)
    })
}

pub(super) fn notes(trained: &MaskAccuracies) -> Vec<String> {
    let mut notes = vec![
        "Compare like with like: whole clips there or not with private tokens there or not, substituted with substituted. The paper's DP-SGD is of the first kind; its noise for masked training is right for the first kind, if public batches are drawn independently (decoupled).".to_owned(),
        "Coupled is the paper's algorithm as written. It is certified here at the epsilon of its row, which takes far more noise than the paper adds: the paper's noise has a larger epsilon than it claims (`dapple reproduce mask/theorem1`).".to_owned(),
        "The paper's numbers are single runs, as far as it says, on clips whose people were replaced by rendered ones; labels are public under masks.".to_owned(),
    ];
    if trained.scale == TrainingScale::Tiny {
        notes.push("At this scale clips are drawn: six motions of a shape, the shape public and the background private. Only methods may be compared. --scale small --data DIR --weights FILE trains the paper's network.".to_owned());
    }
    notes
}
