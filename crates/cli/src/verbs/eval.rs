//! `dapple eval`: how good the model of a run is.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use dapple_report::{Cell, Column, ReportError, Table, TextStyle};
use dapple_train::data::ReadingObserver;
use dapple_train::{Evaluation, ModelDescription};
use serde::Serialize;

use crate::args::OutputFlags;
use crate::failure::Failure;
use crate::look::LookFlags;
use crate::output;
use crate::progress::bar;

/// Evaluates the model of a run on its test set
#[derive(Debug, Args)]
#[command(after_help = "Example:
  dapple eval runs/first --json")]
pub(crate) struct Arguments {
    /// The folder of the run
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    look: LookFlags,
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    evaluation: &'a Evaluation,
    class_names: Vec<&'a str>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let performance = arguments.look.machine.performance();
    let bar = bar(0, arguments.output.quiet, "{bar:40} {pos}/{len} images, {eta} left");
    let shown = bar.clone();
    let observer: ReadingObserver = Arc::new(move |read, of| {
        shown.set_length(of as u64);
        shown.set_position(read as u64);
    });
    let evaluation =
        dapple_train::evaluate_watched(&arguments.folder, (&arguments.look).into(), &performance, observer);
    bar.finish_and_clear();
    let evaluation = evaluation?;
    let description = ModelDescription::read(&arguments.folder)?;
    let class_names: Vec<&str> = description.classes.iter().map(|class| class.name.as_str()).collect();
    if arguments.output.json {
        return output::print_json(&Answer { evaluation: &evaluation, class_names });
    }
    let mut lines = vec![("records", evaluation.records.to_string())];
    match &evaluation.overlap {
        Some(overlap) => lines.extend([
            ("mIoU", format!("{:.4}", overlap.miou)),
            ("pixel accuracy", format!("{:.4}", overlap.pixel_accuracy)),
        ]),
        None => {
            lines.push(("accuracy", format!("{:.4}", evaluation.accuracy)));
            let mean = evaluation.class_accuracy.map(|mean| ("mean of classes", format!("{mean:.4}")));
            lines.extend(mean);
        }
    }
    lines.extend(evaluation.top5.map(|top5| ("top-5 accuracy", format!("{top5:.4}"))));
    // A loss of nothing may have a sign, which says nothing.
    lines.push(("loss", format!("{:.4}", evaluation.loss + 0.0)));
    let text: String = lines.iter().map(|(name, value)| output::wrapped(name, value)).collect();
    output::print(&format!("{text}\n{}", per_class(&evaluation, &class_names)?.to_text(TextStyle::default())))
}

/// How well each class is recognised.
fn per_class(evaluation: &Evaluation, names: &[&str]) -> Result<Table, ReportError> {
    let share = |value: Option<f64>| value.map_or(Cell::Empty, |value| Cell::Text(format!("{value:.4}")));
    let overlap = evaluation.overlap.as_ref();
    let mut columns = vec![Column::text("class")];
    columns.extend(overlap.map(|_| Column::number("IoU")));
    columns.push(Column::number("accuracy"));
    let mut table = Table::new(columns);
    for (class, &accuracy) in evaluation.per_class.iter().enumerate() {
        let name = names.get(class).map_or_else(|| class.to_string(), |name| (*name).to_owned());
        let iou = overlap.map(|overlap| share(overlap.per_class_iou.get(class).copied().flatten()));
        table.push([Cell::Text(name)].into_iter().chain(iou).chain([share(accuracy)]))?;
    }
    Ok(table)
}
