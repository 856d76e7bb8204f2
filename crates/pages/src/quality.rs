//! How good the model of a run is: curves over the steps, and how it does on each class.

use dapple_report::graphic::Graphic;
use dapple_report::{
    Axis, Cell, Chart, Column, Figure, LegendPlace, ReportError, Section, Series, Table, class_bars,
    confusion_map,
};
use dapple_train::{ClassDescription, Evaluation, EvaluationLine, Measure};

use crate::figures;
use crate::run::RunFigure;

/// The most classes that bars are drawn for.
const BARS: usize = 60;
/// How many wrong answers a line of the table names.
const NAMED: usize = 3;
/// The size of a chart that stands beside another.
const PANEL: (f64, f64) = (400.0, 260.0);

/// Score and loss over the steps, once there are two evaluations.
pub(crate) fn curves(lines: &[EvaluationLine]) -> Vec<(RunFigure, String)> {
    let Some(measure) = lines.last().filter(|_| lines.len() > 1).map(|line| line.evaluation.score().measure)
    else {
        return Vec::new();
    };
    let curve = |title: &str, name: &str, value: fn(&Evaluation) -> f64| {
        let points = lines.iter().map(|line| (line.step as f64, value(&line.evaluation)));
        let chart = Chart::new(format!("{title} on the test set"))
            .x(Axis::linear("step"))
            .y(Axis::linear(name))
            .series(Series::line_points(name, points))
            .legend(LegendPlace::Hidden);
        Figure::single(chart).panel_size(PANEL.0, PANEL.1)
    };
    let title = match measure {
        Measure::Accuracy => "Accuracy",
        Measure::ClassAccuracy => "Mean per-class accuracy",
        Measure::MeanIou => measure.words(),
    };
    let score = curve(title, measure.words(), |evaluation| evaluation.score().value);
    let loss = curve("Loss", "loss", |evaluation| evaluation.loss);
    let caption = "Evaluated on records that were not trained on.".to_owned();
    vec![(figures::chart("score", score), caption.clone()), (figures::chart("loss", loss), caption)]
}

/// The names of the classes that an evaluation counts.
fn names(last: &Evaluation, classes: &[ClassDescription]) -> Vec<String> {
    (0..last.confusion.len())
        .map(|class| classes.get(class).map_or_else(|| class.to_string(), |class| class.name.clone()))
        .collect()
}

/// How well each class is found: bars, and what was taken for what as a heat map.
pub(crate) fn classes(
    last: &Evaluation,
    classes: &[ClassDescription],
) -> Result<(Section, Vec<(RunFigure, String)>), ReportError> {
    let names = names(last, classes);
    let things = if last.overlap.is_some() { "pixels" } else { "records" };
    let mut shown = Vec::new();
    if (1..=BARS).contains(&names.len()) {
        let caption = match last.overlap {
            Some(_) => "Intersection over union of each class. A class without pixels has no bar.",
            None => "The share of each class that was found. A class without records has no bar.",
        };
        shown.push((figures::picture("classes", bars(last, &names)), caption.to_owned()));
    }
    if !names.is_empty() {
        let caption = format!(
            "The {things} of each class by what the model said, in percent of the class. Shares below half a percent have no number."
        );
        shown.push((figures::picture("confusion", confusion_map(&names, &last.confusion)?), caption));
    }
    Ok((Section::new("Class by class"), shown))
}

fn bars(last: &Evaluation, names: &[String]) -> Graphic {
    match &last.overlap {
        Some(overlap) => class_bars("IoU", names, &overlap.per_class_iou),
        None => class_bars("Accuracy", names, &last.per_class),
    }
}

/// The same in numbers, which is a table of four columns whatever the number of classes.
pub(crate) fn confusions(last: &Evaluation, classes: &[ClassDescription]) -> Result<Section, ReportError> {
    let names = names(last, classes);
    let all: u64 = last.confusion.iter().flatten().sum();
    let share = |value: Option<f64>| value.map_or(Cell::Empty, |value| Cell::Text(format!("{value:.3}")));
    let (found, part) = match last.overlap {
        Some(_) => ("IoU", "share of pixels"),
        None => ("accuracy", "share of records"),
    };
    let mut table = Table::new([
        Column::text("class"),
        Column::number(found),
        Column::number(part),
        Column::text("most often taken for"),
    ]);
    for (class, name) in names.iter().enumerate() {
        let row = last.confusion.get(class).map_or(&[][..], Vec::as_slice);
        let own: u64 = row.iter().sum();
        let score = match &last.overlap {
            Some(overlap) => overlap.per_class_iou.get(class).copied().flatten(),
            None => last.per_class.get(class).copied().flatten(),
        };
        let mut wrong: Vec<(usize, u64)> =
            row.iter().copied().enumerate().filter(|&(said, count)| said != class && count > 0).collect();
        wrong.sort_by_key(|&(said, count)| (std::cmp::Reverse(count), said));
        let words = wrong.iter().take(NAMED).map(|&(said, count)| {
            let name = names.get(said).map_or("?", String::as_str);
            format!("{name} {:.1} %", 100.0 * count as f64 / own as f64)
        });
        table.push([
            Cell::Text(name.clone()),
            share(score),
            share((all > 0).then(|| own as f64 / all as f64)),
            Cell::Text(words.collect::<Vec<_>>().join(", ")),
        ])?;
    }
    let caption =
        "Each class, how well it was found, and what it was most often taken for, in percent of the class.";
    Ok(Section::new("").details("The same in numbers", Section::new("").table(&table, caption)))
}
