//! Tables for a terminal.

use super::{Align, Table, TextStyle};

const GAP: &str = "  ";
/// A cut column keeps at least this many characters.
const NARROWEST: usize = 6;

pub(super) fn write(table: &Table, style: TextStyle) -> String {
    let head: Vec<String> = table.columns.iter().map(|column| crate::escape::clean(&column.name)).collect();
    let body: Vec<Vec<String>> =
        table.rows.iter().map(|row| row.iter().map(super::Cell::plain).collect()).collect();
    let mut widths: Vec<usize> = (0..head.len())
        .map(|column| {
            let cells = body.iter().map(|row| length(&row[column])).max().unwrap_or(0);
            cells.max(length(&head[column]))
        })
        .collect();
    if let Some(limit) = style.max_width {
        narrow(table, &mut widths, limit);
    }
    let mut out = String::new();
    write_row(&mut out, table, &head, &widths);
    if style.rule {
        let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        out.push_str(&rules.join(GAP));
        out.push('\n');
    }
    body.iter().for_each(|row| write_row(&mut out, table, row, &widths));
    out
}

/// Takes characters from the widest column of words until the line fits; numbers are never cut.
fn narrow(table: &Table, widths: &mut [usize], limit: usize) {
    loop {
        let total = widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1);
        let widest = (0..widths.len())
            .filter(|column| table.columns[*column].align == Align::Left && widths[*column] > NARROWEST)
            .max_by_key(|column| widths[*column]);
        match widest {
            Some(column) if total > limit => widths[column] -= 1,
            _ => return,
        }
    }
}

fn write_row(out: &mut String, table: &Table, cells: &[String], widths: &[usize]) {
    let mut line = String::new();
    for ((cell, width), column) in cells.iter().zip(widths).zip(&table.columns) {
        if !line.is_empty() {
            line.push_str(GAP);
        }
        let cell = cut(cell, *width);
        let padding = " ".repeat(width - length(&cell));
        match column.align {
            Align::Left => line.extend([cell.as_str(), &padding]),
            Align::Right => line.extend([padding.as_str(), &cell]),
        }
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn cut(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Cell, Column, tests::sample};
    use super::*;

    #[test]
    fn columns_line_up() {
        insta::assert_snapshot!(sample().to_text(TextStyle::default()), @r#"
        relation      steps  epsilon
        ────────────  ─────  ───────
        patch         10000   0.1920
        add | remove     50  1.25e-5
        a, "b"                   inf
        "#);
    }

    #[test]
    fn long_words_give_way_to_numbers() {
        let mut table = Table::new([Column::text("name"), Column::number("value"), Column::text("note")]);
        let words = "a rather long explanation of what this row is about";
        table
            .push([Cell::from(words), Cell::Number(1.0 / 3.0, 17), Cell::from("short")])
            .expect("three cells");
        let text = table.to_text(TextStyle { rule: false, max_width: Some(50) });
        assert!(text.lines().all(|line| line.chars().count() <= 50), "{text}");
        assert!(text.contains("0.33333333333333331") && text.contains('…') && text.contains("short"));
    }

    #[test]
    fn escape_sequences_do_not_reach_the_terminal() {
        let mut table = Table::new([Column::text("a\u{1b}[2J")]);
        table.push([Cell::from("x\u{1b}[31m\r\ny")]).expect("one cell");
        let text = table.to_text(TextStyle::default());
        assert_eq!(text.lines().count(), 3);
        assert!(!text.contains('\u{1b}') && !text.contains('\r'));
    }
}
