//! How good the model of a run is: curves over the steps, and how it does on each class.

use dapple_report::{Axis, Cell, Chart, Column, Figure, LegendPlace, ReportError, Section, Series, Table};
use dapple_train::{ClassDescription, Evaluation, EvaluationLine, Measure};

/// The section, or `None` before the first evaluation.
pub(super) fn section(
    lines: &[EvaluationLine],
    classes: &[ClassDescription],
) -> Result<Option<Section>, ReportError> {
    let Some(last) = lines.last().map(|line| &line.evaluation) else { return Ok(None) };
    let mut section = Section::new("How good the model is");
    if lines.len() > 1 {
        let caption = "Evaluated on records that were not trained on.";
        section = section.figure(&curves(last.score().measure, lines), caption);
    }
    let names: Vec<String> = (0..last.confusion.len())
        .map(|class| classes.get(class).map_or_else(|| class.to_string(), |class| class.name.clone()))
        .collect();
    if last.overlap.is_some() {
        let table = overlaps(last, &names)?;
        let caption = "Intersection over union of each class, the share of its pixels that were found, and its share of all pixels.";
        section = section.table(&table, caption);
    }
    let caption = match last.overlap {
        Some(_) => "Pixels of each class by what the model said, in percent of the class.",
        None => "Records of each class by what the model said.",
    };
    let confusion = Section::new("").table(&confusion(last, &names)?, caption);
    Ok(Some(section.details("What was taken for what", confusion)))
}

fn curves(measure: Measure, lines: &[EvaluationLine]) -> Figure {
    let curve = |title: &str, name: &str, value: fn(&Evaluation) -> f64| {
        let points = lines.iter().map(|line| (line.step as f64, value(&line.evaluation)));
        Chart::new(format!("{title} on the test set"))
            .x(Axis::linear("step"))
            .y(Axis::linear(name))
            .series(Series::line_points(name, points))
            .legend(LegendPlace::Hidden)
    };
    let title = match measure {
        Measure::Accuracy => "Accuracy",
        Measure::ClassAccuracy => "Mean per-class accuracy",
        Measure::MeanIou => measure.words(),
    };
    let score = curve(title, measure.words(), |evaluation| evaluation.score().value);
    let loss = curve("Loss", "loss", |evaluation| evaluation.loss);
    Figure::new("").panel(score).panel(loss).columns(2)
}

fn overlaps(last: &Evaluation, names: &[String]) -> Result<Table, ReportError> {
    let share = |value: Option<f64>| value.map_or(Cell::Empty, |value| Cell::Text(format!("{value:.3}")));
    let ious = last.overlap.as_ref().map_or(&[][..], |overlap| &overlap.per_class_iou);
    let all: u64 = last.confusion.iter().flatten().sum();
    let mut table = Table::new([
        Column::text("class"),
        Column::number("IoU"),
        Column::number("accuracy"),
        Column::number("share of pixels"),
    ]);
    for (class, name) in names.iter().enumerate() {
        let own: u64 = last.confusion.get(class).map_or(0, |row| row.iter().sum());
        let iou = ious.get(class).copied().flatten();
        let accuracy = last.per_class.get(class).copied().flatten();
        table.push([
            Cell::Text(name.clone()),
            share(iou),
            share(accuracy),
            share((all > 0).then(|| own as f64 / all as f64)),
        ])?;
    }
    Ok(table)
}

fn confusion(last: &Evaluation, names: &[String]) -> Result<Table, ReportError> {
    let pixels = last.overlap.is_some();
    let mut columns = vec![Column::text("class"), Column::number("accuracy")];
    columns.extend(names.iter().map(|name| Column::number(format!("said {name}"))));
    let mut table = Table::new(columns);
    for ((name, row), accuracy) in names.iter().zip(&last.confusion).zip(&last.per_class) {
        let accuracy = accuracy.map_or(Cell::Empty, |accuracy| Cell::Number(accuracy, 3));
        let all: u64 = row.iter().sum();
        let counts = row.iter().map(|&count| match pixels {
            true if all == 0 => Cell::Empty,
            true => Cell::Text(format!("{:.1}", 100.0 * count as f64 / all as f64)),
            false => Cell::Integer(i64::try_from(count).unwrap_or(i64::MAX)),
        });
        table.push([Cell::Text(name.clone()), accuracy].into_iter().chain(counts))?;
    }
    Ok(table)
}
