//! A figure or table that was computed, as text, JSON, a picture or a page.

use dapple_report::{Column, Figure, Page, ReportError, Section, Table, TableRows, TextStyle};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::claim::Finding;
use crate::reproduction::CatalogueEntry;

/// What came of a reproduction: everything there is to show.
#[derive(Debug)]
pub struct Outcome {
    pub(crate) entry: CatalogueEntry,
    pub(crate) subtitle: String,
    pub(crate) digest: Digest,
    pub(crate) numbers: TableRows,
    pub(crate) summary: Option<TableRows>,
    pub(crate) findings: Vec<Finding>,
    /// The findings as a table, and which statements these are.
    pub(crate) checked: Digest,
    pub(crate) figure: Figure,
    pub(crate) notes: Vec<String>,
}

/// A table for people.
#[derive(Debug)]
pub struct Digest {
    pub(crate) table: Table,
    /// What the table says.
    pub(crate) says: &'static str,
}

impl Outcome {
    /// Every number, for machines.
    #[must_use]
    pub fn numbers(&self) -> &TableRows {
        &self.numbers
    }

    /// The picture.
    #[must_use]
    pub fn figure(&self) -> &Figure {
        &self.figure
    }

    /// What a person reads in a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let Digest { table, says } = &self.digest;
        let mut text = format!("{}\n{}\n\n{says}:\n", self.entry.heading(), self.subtitle);
        text.push_str(&table.to_text(TextStyle::default()));
        if !self.findings.is_empty() {
            text.push_str(&format!("\n{}", self.checked.table.to_text(TextStyle::default())));
        }
        text.push_str(&format!("\n{}\n", self.notes.join("\n")));
        text.push_str(&format!("All {} points: --json or --csv FILE.\n", self.numbers.rows.len()));
        text
    }

    /// Figure, digest and statements as a page.
    #[must_use]
    pub fn page(&self) -> Page {
        let mut section = Section::new("").figure(&self.figure, self.entry.title);
        if !self.findings.is_empty() {
            section = section.table(&self.checked.table, self.checked.says);
        }
        section = section.table(&self.digest.table, self.digest.says);
        let section = self.notes.iter().fold(section, |section, note| section.paragraph(note.clone()));
        Page::new(self.entry.heading()).lead(self.subtitle.clone()).section(section)
    }
}

/// The statements of the paper beside what came out.
pub(crate) fn checked(findings: &[Finding]) -> Result<Table, ReportError> {
    let mut table = Table::new([Column::text("the paper says"), Column::text("holds"), Column::text("here")]);
    for finding in findings {
        let holds = if finding.holds { "yes" } else { "no" };
        table.push([finding.paper.into(), holds.into(), finding.here.clone().into()])?;
    }
    Ok(table)
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", self.entry.id)?;
        map.serialize_entry("title", self.entry.title)?;
        map.serialize_entry("columns", self.numbers.columns)?;
        map.serialize_entry("rows", &self.numbers.rows)?;
        if let Some(summary) = &self.summary {
            map.serialize_entry("summary", summary)?;
        }
        map.serialize_entry("paper", &self.findings)?;
        map.serialize_entry("notes", &self.notes)?;
        map.end()
    }
}
