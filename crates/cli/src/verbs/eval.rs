//! `dapple eval`: how good the model of a run is.

use std::path::PathBuf;

use clap::Args;
use dapple_report::{Cell, Column, Table, TextStyle};

use crate::failure::Failure;
use crate::output;

/// Evaluates the model of a run on its test set
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder of the run
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Crops along each side of an image whose answers are averaged [default: as in the plan]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    grid: Option<u32>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
    /// Says nothing on stderr but errors
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let evaluation = dapple_train::evaluate(&arguments.folder, arguments.grid)?;
    if arguments.json {
        return output::print_json(&evaluation);
    }
    let mut text = format!("{:<16}  {}\n", "records", evaluation.records);
    text.push_str(&format!("{:<16}  {:.4}\n", "accuracy", evaluation.accuracy));
    if let Some(top5) = evaluation.top5 {
        text.push_str(&format!("{:<16}  {top5:.4}\n", "top-5 accuracy"));
    }
    text.push_str(&format!("{:<16}  {:.4}\n\n", "loss", evaluation.loss));
    let mut table = Table::new([Column::number("class"), Column::number("accuracy")]);
    for (class, accuracy) in evaluation.per_class.iter().enumerate() {
        let accuracy = accuracy.map_or_else(|| "-".to_owned(), |accuracy| format!("{accuracy:.4}"));
        table.push([Cell::from(class.to_string()), Cell::from(accuracy)])?;
    }
    text.push_str(&table.to_text(TextStyle::default()));
    output::print(&text)
}
