//! Numbers for machines: named columns and their cells.

use serde::{Serialize, Serializer};

use super::{Cell, Column, Table};
use crate::ReportError;

/// Named columns and their cells. It serialises as `{"columns": [..], "rows": [[..], ..]}`, with `null` for what is empty or not finite.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TableRows {
    /// The names of the columns.
    pub columns: &'static [&'static str],
    /// A cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

impl TableRows {
    /// These rows as a table, where a column with a word in it is a column of words.
    ///
    /// # Errors
    /// When a row has more or fewer cells than there are columns.
    pub fn table(&self) -> Result<Table, ReportError> {
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
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Number(value, _) => serializer.serialize_f64(*value),
            Self::Integer(value) => serializer.serialize_i64(*value),
            Self::Empty => serializer.serialize_unit(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_keep_their_values_in_json() {
        let row = vec!["a".into(), Cell::full(0.1), Cell::whole(3), Cell::Empty, Cell::full(f64::INFINITY)];
        let rows = TableRows { columns: &["word", "number", "whole", "none", "infinite"], rows: vec![row] };
        let json = serde_json::to_string(&rows).expect("JSON");
        assert_eq!(
            json,
            r#"{"columns":["word","number","whole","none","infinite"],"rows":[["a",0.1,3,null,null]]}"#
        );
        let table = rows.table().expect("a cell for each column");
        assert_eq!(table.to_csv(), "word,number,whole,none,infinite\r\na,0.1,3,,inf\r\n");
    }
}
