//! Tables: one description that can be written in four ways.

mod csv;
mod html;
mod markdown;
mod rows;
mod text;

pub use rows::TableRows;

use dapple_number as number;

use crate::{ReportError, escape::clean};

/// A value in a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number, shown with so many significant digits; CSV always holds it in full.
    Number(f64, usize),
    /// A whole number.
    Integer(i64),
    /// Nothing.
    Empty,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Empty, Into::into)
    }
}

impl Cell {
    /// A whole number, or an empty cell where it is too large for one.
    #[must_use]
    pub fn whole(value: u64) -> Self {
        i64::try_from(value).map_or(Self::Empty, Self::Integer)
    }

    /// A number with all its digits.
    #[must_use]
    pub fn full(value: f64) -> Self {
        Self::Number(value, 17)
    }

    /// The cell in characters that every terminal and parser knows.
    fn plain(&self) -> String {
        match self {
            Self::Text(text) => clean(text),
            Self::Number(value, digits) => number::plain(*value, *digits),
            Self::Integer(value) => value.to_string(),
            Self::Empty => String::new(),
        }
    }

    /// The cell as it is read on a page.
    fn pretty(&self) -> String {
        match self {
            Self::Number(value, digits) => number::pretty(*value, *digits),
            Self::Integer(value) => number::grouped(*value).replace('-', "−"),
            Self::Text(_) | Self::Empty => self.plain(),
        }
    }
}

/// Which side the cells of a column keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// The head of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    name: String,
    align: Align,
}

impl Column {
    /// A column of words.
    #[must_use]
    pub fn text(name: impl Into<String>) -> Self {
        Self { name: name.into(), align: Align::Left }
    }

    /// A column of numbers.
    #[must_use]
    pub fn number(name: impl Into<String>) -> Self {
        Self { name: name.into(), align: Align::Right }
    }
}

/// Rows of cells under named columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// When the number of cells is not the number of columns.
    pub fn push(&mut self, row: impl IntoIterator<Item = Cell>) -> Result<(), ReportError> {
        let row: Vec<Cell> = row.into_iter().collect();
        if row.len() != self.columns.len() {
            let (found, expected) = (row.len(), self.columns.len());
            return Err(ReportError::RowLength { row: self.rows.len(), found, expected });
        }
        self.rows.push(row);
        Ok(())
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Aligned text for a terminal; see [`TextStyle`].
    #[must_use]
    pub fn to_text(&self, style: TextStyle) -> String {
        text::write(self, style)
    }

    /// A Markdown table.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        markdown::write(self)
    }

    /// Comma-separated values after RFC 4180; numbers read back as exactly the same numbers.
    #[must_use]
    pub fn to_csv(&self) -> String {
        csv::write(self)
    }

    /// An HTML `table` element.
    #[must_use]
    pub fn to_html(&self) -> String {
        html::write(self)
    }
}

/// How a terminal table looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextStyle {
    /// Draw a rule beneath the head.
    pub rule: bool,
    /// Cut columns of words, the longest first, so that a line is no longer than this.
    pub max_width: Option<usize>,
}

impl Default for TextStyle {
    /// A rule beneath the head, and no limit on the width.
    fn default() -> Self {
        Self { rule: true, max_width: None }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> Table {
        let mut table =
            Table::new([Column::text("relation"), Column::number("steps"), Column::number("epsilon")]);
        table
            .push([Cell::from("patch"), Cell::Integer(10_000), Cell::Number(0.192, 4)])
            .expect("three cells");
        table
            .push([Cell::from("add | remove"), Cell::Integer(50), Cell::Number(1.25e-5, 3)])
            .expect("three cells");
        table
            .push([Cell::from("a, \"b\""), Cell::Empty, Cell::Number(f64::INFINITY, 3)])
            .expect("three cells");
        table
    }

    #[test]
    fn a_row_of_another_length_is_refused() {
        let mut table = sample();
        let error = table.push([Cell::Empty]).expect_err("one cell");
        assert_eq!(error.to_string(), "table row 3 has 1 cells, the table has 3 columns");
        assert!(error.hint().is_some());
        assert_eq!(table.len(), 3);
    }
}
