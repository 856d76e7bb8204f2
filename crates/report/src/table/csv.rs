//! Comma-separated values after RFC 4180.

use super::{Cell, Table};
use dapple_number::full;

pub(super) fn write(table: &Table) -> String {
    let head = line(table.columns.iter().map(|column| quoted(&column.name)));
    let body = table.rows.iter().map(|row| line(row.iter().map(field)));
    std::iter::once(head).chain(body).collect()
}

fn line(fields: impl Iterator<Item = String>) -> String {
    fields.collect::<Vec<_>>().join(",") + "\r\n"
}

fn field(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => quoted(text),
        Cell::Number(value, _) => full(*value),
        Cell::Integer(value) => value.to_string(),
        Cell::Empty => String::new(),
    }
}

/// Quotes a text where a reader would otherwise take part of it for the table's own marks.
fn quoted(text: &str) -> String {
    let special = |c: char| matches!(c, ',' | '"' | '\r' | '\n');
    if text.contains(special) || text.starts_with(' ') || text.ends_with(' ') {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Column, tests::sample};
    use super::*;

    #[test]
    fn quotes_where_needed_and_full_numbers() {
        assert_eq!(
            sample().to_csv(),
            "relation,steps,epsilon\r\npatch,10000,0.192\r\nadd | remove,50,0.0000125\r\n\"a, \"\"b\"\"\",,inf\r\n"
        );
    }

    #[test]
    fn line_breaks_stay_inside_quotes() {
        let mut table = Table::new([Column::text("a\nb")]);
        table.push([Cell::Number(0.1 + 0.2, 2)]).expect("one cell");
        assert_eq!(table.to_csv(), "\"a\nb\"\r\n0.30000000000000004\r\n");
    }
}
