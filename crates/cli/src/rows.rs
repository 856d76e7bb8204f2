//! Numbers for machines: named columns and their cells.

use dapple_report::{Cell, Column, Table};
use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;

/// Named columns and their cells.
pub(crate) struct Rows {
    pub(crate) columns: &'static [&'static str],
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// The same in JSON.
#[derive(Serialize)]
pub(crate) struct JsonRows {
    columns: &'static [&'static str],
    rows: Vec<Vec<Value>>,
}

impl Rows {
    pub(crate) fn table(&self) -> Result<Table, Failure> {
        let is_text =
            |column: usize| self.rows.iter().any(|row| matches!(row.get(column), Some(Cell::Text(_))));
        let columns = self.columns.iter().enumerate();
        let mut table =
            Table::new(columns.map(
                |(index, name)| if is_text(index) { Column::text(*name) } else { Column::number(*name) },
            ));
        self.rows.iter().try_for_each(|row| table.push(row.iter().cloned()))?;
        Ok(table)
    }

    pub(crate) fn json(&self) -> JsonRows {
        let value = |cell: &Cell| match cell {
            Cell::Text(text) => Value::from(text.as_str()),
            Cell::Number(value, _) => Value::from(*value),
            Cell::Integer(value) => Value::from(*value),
            Cell::Empty => Value::Null,
        };
        let rows = self.rows.iter().map(|row| row.iter().map(value).collect()).collect();
        JsonRows { columns: self.columns, rows }
    }
}
