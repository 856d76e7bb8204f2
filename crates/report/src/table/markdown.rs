//! Markdown tables.

use super::{Align, Table};
use crate::escape::clean;

pub(super) fn write(table: &Table) -> String {
    let head = line(table.columns.iter().map(|column| escaped(&column.name)));
    let rule = line(table.columns.iter().map(|column| match column.align {
        Align::Left => "---".to_owned(),
        Align::Right => "---:".to_owned(),
    }));
    let body = table.rows.iter().map(|row| line(row.iter().map(|cell| escaped(&cell.plain()))));
    [head, rule].into_iter().chain(body).collect()
}

fn line(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

/// Keeps a cell in its column and any HTML in it visible as text.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in clean(text).chars() {
        match c {
            '|' | '\\' | '*' | '`' | '[' | ']' => out.extend(['\\', c]),
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Cell, Column, tests::sample};
    use super::*;

    #[test]
    fn numbers_keep_right_and_bars_are_escaped() {
        insta::assert_snapshot!(sample().to_markdown(), @r#"
        | relation | steps | epsilon |
        | --- | ---: | ---: |
        | patch | 10000 | 0.1920 |
        | add \| remove | 50 | 1.25e-5 |
        | a, "b" |  | inf |
        "#);
    }

    #[test]
    fn markup_in_a_cell_stays_text() {
        let mut table = Table::new([Column::text("x")]);
        table.push([Cell::from("<b>\n**bold**")]).expect("one cell");
        assert_eq!(table.to_markdown(), "| x |\n| --- |\n| &lt;b> \\*\\*bold\\*\\* |\n");
    }
}
