//! `dapple reproduce`: the papers' figures under the papers' settings, beside ours.

mod catalogue;
mod claims;
mod compute;
mod draw;
mod mask;
mod rows;
mod setting;

use clap::Args;
use dapple_report::{Column, Page, Section, Table, TextStyle};
use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;
use crate::output;
use crate::pictures::Pictures;
use catalogue::Spec;
use claims::Finding;
use compute::Options;
use setting::Reading;

/// Recomputes a figure of a paper: its own analysis and Dapple's side by side
#[derive(Debug, Args)]
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
    pictures: Pictures,
}

#[derive(Serialize)]
struct Listed {
    id: &'static str,
    title: &'static str,
    section: &'static str,
}

#[derive(Serialize)]
struct Rows {
    columns: [&'static str; rows::COLUMNS.len()],
    rows: Vec<Vec<Value>>,
}

#[derive(Serialize)]
struct Answer<'a> {
    id: &'static str,
    title: &'static str,
    #[serde(flatten)]
    all: Rows,
    /// Epsilon at delta 1e-5 of every line, for profiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<Rows>,
    /// What the paper's text says, checked.
    paper: &'a [Finding],
    notes: &'a [String],
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let figures = catalogue::all();
    let Some(id) = &arguments.id else { return list(&figures, arguments.json) };
    let wanted = id.to_lowercase();
    if wanted == mask::ID {
        return mask::run(arguments);
    }
    let Some(spec) = figures.iter().find(|spec| spec.id == wanted) else {
        return Err(Failure::request(
            format!("there is no figure `{id}`"),
            "see `dapple reproduce --list`; figures are written as patch/fig3",
        ));
    };
    arguments.pictures.check()?;
    reproduce(spec, arguments)
}

fn listed(figures: &[Spec]) -> Vec<Listed> {
    let of = |spec: &Spec| Listed { id: spec.id, title: spec.title, section: spec.section };
    let mask = Listed { id: mask::ID, title: mask::TITLE, section: mask::SECTION };
    figures.iter().map(of).chain([mask]).collect()
}

fn list(figures: &[Spec], json: bool) -> Result<(), Failure> {
    if json {
        return output::print_json(&listed(figures));
    }
    let mut table = Table::new([Column::text("id"), Column::text("section"), Column::text("shows")]);
    for entry in listed(figures) {
        table.push([entry.id.into(), entry.section.into(), entry.title.into()])?;
    }
    output::print(&table.to_text(TextStyle::default()))
}

fn reproduce(spec: &Spec, arguments: &Arguments) -> Result<(), Failure> {
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
    let all = rows::rows(&results, options.reading);
    let digest = rows::digest(&results, options.reading)?;
    let figure = draw::draw(spec, &results, options, &notes);
    let checked = checked(&findings)?;
    let page = || {
        let what =
            if results.epsilons.is_some() { "ε at δ = 10⁻⁵" } else { "ε at some of the sizes drawn" };
        let mut section = Section::new("").figure(&figure, spec.title);
        if !findings.is_empty() {
            section = section.table(&checked, "What the paper says of it, for sampling without replacement");
        }
        section = section.table(&digest, format!("{what}, rounded up"));
        Page::new(draw::heading(spec))
            .lead(draw::subtitle(&results, options.reading))
            .section(notes.iter().fold(section, |section, note| section.paragraph(note.clone())))
    };
    arguments.pictures.write(arguments.quiet, &rows::table(&all)?, &figure, page)?;
    if arguments.json {
        let summary = rows::summary(&results, options.reading);
        let rows = |rows: &[Vec<_>]| Rows { columns: rows::COLUMNS, rows: rows::json(rows) };
        return output::print_json(&Answer {
            id: spec.id,
            title: spec.title,
            all: rows(&all),
            summary: results.epsilons.is_some().then(|| rows(&summary)),
            paper: &findings,
            notes: &notes,
        });
    }
    let mut text = format!("{}\n{}\n\n", draw::heading(spec), draw::subtitle(&results, options.reading));
    text.push_str("epsilon at delta 1e-5, rounded up:\n");
    text.push_str(&digest.to_text(TextStyle::default()));
    if !findings.is_empty() {
        text.push_str(&format!("\n{}", checked.to_text(TextStyle::default())));
    }
    text.push_str(&format!("\n{}\n", notes.join("\n")));
    text.push_str(&format!("All {} points: --json or --csv FILE.\n", all.len()));
    output::print(&text)
}

fn checked(findings: &[Finding]) -> Result<Table, Failure> {
    let mut table = Table::new([Column::text("the paper says"), Column::text("holds"), Column::text("here")]);
    for finding in findings {
        let holds = if finding.holds { "yes" } else { "no" };
        table.push([finding.paper.into(), holds.into(), finding.here.clone().into()])?;
    }
    Ok(table)
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
