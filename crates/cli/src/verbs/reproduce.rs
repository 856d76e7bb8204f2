//! `dapple reproduce`: figures of papers in their own settings, beside our numbers.

use clap::Args;
use dapple_report::{Column, Table, TextStyle};
use dapple_reproduce::{ReproductionOptions, find, registry};

use crate::args::OutputFlags;
use crate::failure::Failure;
use crate::output;
use crate::pictures::Pictures;
use crate::progress::Screen;
use crate::shell_words::ShellWords;

/// Recomputes a figure of a paper: its own analysis and Dapple's side by side
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dapple reproduce --list
  dapple reproduce patch/fig3 --html fig3.html")]
pub(crate) struct Arguments {
    /// The figure, such as patch/fig3
    #[arg(value_name = "ID", required_unless_present = "list", value_parser = ShellWords::figures(), hide_possible_values = true)]
    id: Option<String>,
    /// Lists every figure
    #[arg(long, conflicts_with = "id")]
    list: bool,
    #[command(flatten)]
    options: ReproductionOptions,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    pictures: Pictures,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Some(id) = &arguments.id else { return list(arguments.output.json) };
    let reproduction = find(id)?;
    arguments.pictures.check()?;
    let outcome = reproduction.outcome(&arguments.options, &Screen::new(arguments.output.quiet))?;
    let numbers = outcome.numbers().table()?;
    arguments.pictures.write(arguments.output.quiet, &numbers, outcome.figure(), || outcome.page())?;
    if arguments.output.json {
        return output::print_json(&outcome);
    }
    output::print(&outcome.text())
}

fn list(json: bool) -> Result<(), Failure> {
    let listed: Vec<_> = registry().iter().map(|one| one.listed()).collect();
    if json {
        return output::print_json(&listed);
    }
    let mut table = Table::new([Column::text("id"), Column::text("section"), Column::text("shows")]);
    for entry in listed {
        table.push([entry.id.into(), entry.section.into(), entry.title.into()])?;
    }
    output::print(&table.to_text(TextStyle::default()))
}
