//! `dapple models`: every model that a plan can name.

use clap::Args;
use dapple_report::{Cell, Column, Table, TextStyle};
use dapple_train::{Answers, ModelFacts};
use serde::Serialize;

use crate::args::OutputFlags;
use crate::failure::Failure;
use crate::output;

/// Lists the models: how large each is, what it says about an image, which inputs it takes
#[derive(Debug, Args)]
#[command(after_help = "Parameters are counted for the usual input and classes.

Examples:
  dapple models
  dapple models --json")]
pub(crate) struct Arguments {
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Serialize)]
struct Answer {
    models: Vec<ModelFacts>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let models = dapple_train::models()?;
    if arguments.output.json {
        return output::print_json(&Answer { models });
    }
    let mut table = Table::new([
        Column::text("model"),
        Column::number("parameters"),
        Column::text("answers"),
        Column::text("usual input"),
        Column::number("classes"),
        Column::number("smallest side"),
        Column::text("norm"),
    ]);
    for model in models {
        let answers = match model.answers {
            Answers::Class => "a class",
            Answers::LabelMap => "a class a pixel",
        };
        let input: Vec<String> = model.input.iter().map(usize::to_string).collect();
        table.push([
            model.name.into(),
            Cell::whole(model.parameters as u64),
            answers.into(),
            input.join(" x ").into(),
            Cell::whole(model.classes as u64),
            Cell::whole(model.smallest as u64),
            if model.norm { "to choose" } else { "fixed" }.into(),
        ])?;
    }
    output::print(&table.to_text(TextStyle::default()))
}
