//! `dapple reproduce`: the papers' figures under the papers' settings, beside ours.

mod catalogue;
mod claims;
mod compute;
mod draw;
mod mask;
mod mix;
mod outcome;
mod partition;
mod rows;
mod setting;
mod trained;

use clap::Args;
use dapple_report::{Column, Table, TextStyle};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use crate::pictures::Pictures;
use crate::rows::Rows;
use catalogue::Spec;
use claims::Finding;
use compute::Options;
use outcome::Outcome;
use setting::Reading;

/// Recomputes a figure of a paper: its own analysis and Dapple's side by side
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dapple reproduce --list
  dapple reproduce patch/fig3 --html fig3.html")]
pub(crate) struct Arguments {
    /// The figure, such as patch/fig3
    #[arg(value_name = "ID", required_unless_present = "list")]
    id: Option<String>,
    /// Lists every figure
    #[arg(long, conflicts_with = "id")]
    list: bool,
    /// What the paper's σ stands for
    #[arg(long, value_name = "READING", default_value = "std")]
    sigma_is: Reading,
    /// Takes this many records in place of the paper's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(setting::BATCH..=setting::MAX_RECORDS))]
    records: Option<u64>,
    /// Computes at most this many points a line
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=2000))]
    points: Option<u32>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
    /// Says nothing on stderr but errors
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    trained: trained::Flags,
    #[command(flatten)]
    pictures: Pictures,
}

#[derive(Serialize)]
struct Listed {
    id: &'static str,
    title: &'static str,
    section: &'static str,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Some(id) = &arguments.id else { return list(arguments.json) };
    let wanted = id.to_lowercase();
    let listed = listed();
    if !listed.iter().any(|entry| entry.id == wanted) {
        let like =
            listed.iter().map(|entry| entry.id).filter(|id| !wanted.is_empty() && id.contains(&wanted));
        let hint = match like.collect::<Vec<_>>().as_slice() {
            [] => "see `dapple reproduce --list`; figures are written as patch/fig3".to_owned(),
            like => format!("did you mean {}?", like.join(", ")),
        };
        return Err(Failure::request(format!("there is no figure `{id}`"), hint));
    }
    arguments.pictures.check()?;
    outcome(&wanted, arguments)?.show(arguments)
}

/// Computes what a name of the list stands for.
fn outcome(id: &str, arguments: &Arguments) -> Result<Outcome, Failure> {
    if let Some(outcome) = trained::outcome(id, arguments)? {
        return Ok(outcome);
    }
    if let Some(spec) = catalogue::all().iter().find(|spec| spec.id == id) {
        return patch(spec, arguments);
    }
    if id == mask::ID {
        return mask::outcome(arguments);
    }
    if arguments.records.is_some() {
        return Err(Failure::request(
            format!("{id} has no number of records to change"),
            "leave --records away; it is for patch/* and mask/*",
        ));
    }
    let found = match partition::outcome(id, arguments)? {
        Some(outcome) => Some(outcome),
        None => mix::outcome(id)?,
    };
    found.ok_or_else(|| Failure::run(format!("{id} is listed but not known")))
}

fn listed() -> Vec<Listed> {
    let of = |spec: &Spec| Listed { id: spec.id, title: spec.title, section: spec.section };
    let mask = Listed { id: mask::ID, title: mask::TITLE, section: mask::SECTION };
    let patch: Vec<Listed> = catalogue::all().iter().map(of).collect();
    patch
        .into_iter()
        .chain(trained::listed())
        .chain([mask])
        .chain(partition::listed())
        .chain(mix::listed())
        .collect()
}

fn list(json: bool) -> Result<(), Failure> {
    if json {
        return output::print_json(&listed());
    }
    let mut table = Table::new([Column::text("id"), Column::text("section"), Column::text("shows")]);
    for entry in listed() {
        table.push([entry.id.into(), entry.section.into(), entry.title.into()])?;
    }
    output::print(&table.to_text(TextStyle::default()))
}

fn patch(spec: &Spec, arguments: &Arguments) -> Result<Outcome, Failure> {
    let options = Options {
        reading: arguments.sigma_is,
        records: arguments.records,
        points: arguments.points.map(|points| points as usize),
        quiet: arguments.quiet,
    };
    let results = compute::compute(spec, options)?;
    let findings = spec
        .claims
        .iter()
        .map(|claim| claim.check(&results, options))
        .collect::<Result<Vec<Finding>, Failure>>()?;
    let notes = notes(spec, options);
    let rows = |rows| Rows { columns: rows::COLUMNS, rows };
    Ok(Outcome {
        id: spec.id,
        title: spec.title,
        heading: draw::heading(spec),
        subtitle: draw::subtitle(&results, options.reading),
        digest: rows::digest(&results, options.reading)?,
        digest_says: "epsilon at delta 1e-5, rounded up",
        numbers: rows(rows::rows(&results, options.reading)),
        summary: results.epsilons.is_some().then(|| rows(rows::summary(&results, options.reading))),
        findings,
        findings_say: "What the paper says of it, for sampling without replacement",
        figure: draw::draw(spec, &results, options, &notes),
        notes,
    })
}

/// How sigma was read, what was left open, and what the numbers are.
fn notes(spec: &Spec, options: Options) -> Vec<String> {
    let mut notes = vec![options.reading.words().to_owned()];
    notes.extend(spec.open.iter().map(|open| (*open).to_owned()));
    if let Some(records) = options.records {
        notes.push(format!("Computed for {records} records, as asked for."));
    }
    notes.push(
        "Minibatch is record level under substitution. Every number is the upper end of a certified bracket; its lower end is in the data.".to_owned(),
    );
    notes
}
