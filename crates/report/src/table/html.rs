//! HTML tables.

use super::{Align, Table};
use crate::escape::escape;

pub(super) fn write(table: &Table) -> String {
    let class = |align: Align| if align == Align::Right { r#" class="number""# } else { "" };
    let head: String = table
        .columns
        .iter()
        .map(|column| format!("<th scope=\"col\"{}>{}</th>", class(column.align), escape(&column.name)))
        .collect();
    let body: String = table
        .rows
        .iter()
        .map(|row| {
            let cells = row.iter().zip(&table.columns);
            let cells: String = cells
                .map(|(cell, column)| format!("<td{}>{}</td>", class(column.align), escape(&cell.pretty())))
                .collect();
            format!("<tr>{cells}</tr>\n")
        })
        .collect();
    format!("<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n")
}

#[cfg(test)]
mod tests {
    use super::super::{Cell, Column, Table};

    #[test]
    fn cells_are_escaped_and_numbers_pretty() {
        let mut table = Table::new([Column::text("<i>"), Column::number("n")]);
        table.push([Cell::from("<script>"), Cell::Number(1e-5, 3)]).expect("two cells");
        let html = table.to_html();
        assert!(html.contains("&lt;script&gt;") && html.contains("&lt;i&gt;") && !html.contains("<script"));
        assert!(html.contains(r#"<td class="number">10⁻⁵</td>"#));
    }
}
