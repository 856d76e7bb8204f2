//! A reproduced figure or table, shown: as text, JSON, CSV, a picture or a page.

use dapple_report::{Column, Figure, Page, Section, Table, TextStyle};
use serde::Serialize;

use super::Arguments;
use super::claims::Finding;
use crate::failure::Failure;
use crate::output;
use crate::rows::{JsonRows, Rows};

/// Everything there is to show.
pub(super) struct Outcome {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) heading: String,
    pub(super) subtitle: String,
    /// The numbers that people look for, and what they are.
    pub(super) digest: Table,
    pub(super) digest_says: &'static str,
    /// Every number, for machines.
    pub(super) numbers: Rows,
    /// Epsilon at one delta of every line, for profiles.
    pub(super) summary: Option<Rows>,
    /// What the paper says, checked, and which statements these are.
    pub(super) findings: Vec<Finding>,
    pub(super) findings_say: &'static str,
    pub(super) figure: Figure,
    pub(super) notes: Vec<String>,
}

#[derive(Serialize)]
struct Answer<'a> {
    id: &'static str,
    title: &'static str,
    #[serde(flatten)]
    all: JsonRows,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<JsonRows>,
    paper: &'a [Finding],
    notes: &'a [String],
}

impl Outcome {
    /// Writes the files that were asked for, and prints.
    pub(super) fn show(&self, arguments: &Arguments) -> Result<(), Failure> {
        let checked = self.checked()?;
        arguments
            .pictures
            .write(arguments.quiet, &self.numbers.table()?, &self.figure, || self.page(&checked))?;
        if arguments.json {
            return output::print_json(&Answer {
                id: self.id,
                title: self.title,
                all: self.numbers.json(),
                summary: self.summary.as_ref().map(Rows::json),
                paper: &self.findings,
                notes: &self.notes,
            });
        }
        let mut text = format!("{}\n{}\n\n{}:\n", self.heading, self.subtitle, self.digest_says);
        text.push_str(&self.digest.to_text(TextStyle::default()));
        if !self.findings.is_empty() {
            text.push_str(&format!("\n{}", checked.to_text(TextStyle::default())));
        }
        text.push_str(&format!("\n{}\n", self.notes.join("\n")));
        text.push_str(&format!("All {} points: --json or --csv FILE.\n", self.numbers.rows.len()));
        output::print(&text)
    }

    fn page(&self, checked: &Table) -> Page {
        let mut section = Section::new("").figure(&self.figure, self.title);
        if !self.findings.is_empty() {
            section = section.table(checked, self.findings_say);
        }
        section = section.table(&self.digest, self.digest_says);
        let section = self.notes.iter().fold(section, |section, note| section.paragraph(note.clone()));
        Page::new(self.heading.clone()).lead(self.subtitle.clone()).section(section)
    }

    fn checked(&self) -> Result<Table, Failure> {
        let mut table =
            Table::new([Column::text("the paper says"), Column::text("holds"), Column::text("here")]);
        for finding in &self.findings {
            let holds = if finding.holds { "yes" } else { "no" };
            table.push([finding.paper.into(), holds.into(), finding.here.clone().into()])?;
        }
        Ok(table)
    }
}
