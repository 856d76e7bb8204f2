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
#[command(
    after_help = "Parameters are counted for the usual input and classes. Operations are products, each followed by a sum, of one such input, forward. Memory is what \
activations and gradient of one such input take on this machine's processor in training; every thread has some inputs at a time, and the weights come on top. \
A model reads files of weights of the libraries that are named; one that stands on a backbone reads those of the backbone by `model.backbone_weights`.
`dapple weights list` names weights that can be fetched.

Examples:
  dapple models
  dapple models --json"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Serialize)]
struct Answer {
    models: Vec<ModelFacts>,
}

/// A large number in three digits, as people write it.
fn large(value: f64, unit: &str) -> String {
    let (scaled, prefix) = match value {
        1e9.. => (value / 1e9, " G"),
        1e6.. => (value / 1e6, " M"),
        1e3.. => (value / 1e3, " k"),
        _ => (value, " "),
    };
    let digits = match scaled {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{scaled:.digits$}{prefix}{unit}").trim_end().to_owned()
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let models = dapple_train::models()?;
    if arguments.output.json {
        return output::print_json(&Answer { models });
    }
    let mut table = Table::new([
        Column::text("model"),
        Column::number("parameters"),
        Column::number("operations"),
        Column::text("answers"),
        Column::text("usual input"),
        Column::number("classes"),
        Column::number("least side"),
        Column::text("weights of"),
        Column::number("memory"),
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
            large(model.operations as f64, "").into(),
            answers.into(),
            input.join(" x ").into(),
            Cell::whole(model.classes as u64),
            Cell::whole(model.smallest as u64),
            model.weights.join(", ").into(),
            large(model.memory as f64, "B").into(),
        ])?;
    }
    output::print(&table.to_text(TextStyle::default()))
}
