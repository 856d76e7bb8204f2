//! What a section is made of.

use super::{Headline, inline::render};
use crate::{escape::escape, paint::Rgb};
use std::fmt::Write as _;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum PageBlock {
    Paragraph(String),
    Drawing { svg: String, caption: String },
    Row(Vec<PageBlock>),
    List(Vec<String>),
    Image { data: String, alternative: String, caption: String },
    Gallery { pictures: Vec<(String, String)>, caption: String },
    Legend(Vec<(Rgb, String)>),
    Table { html: String, caption: String },
    Facts(Vec<(String, String)>),
    Headlines(Vec<Headline>),
    Code(String),
    Details { summary: String, blocks: Vec<PageBlock> },
}

/// The numbers of figures and tables given out so far.
#[derive(Debug, Default)]
pub(super) struct Counters {
    figures: usize,
    tables: usize,
}

impl PageBlock {
    pub(super) fn write(&self, out: &mut String, counters: &mut Counters) {
        match self {
            Self::Paragraph(text) => {
                let _ = writeln!(out, "<p>{}</p>", render(text));
            }
            Self::Drawing { svg, caption } => {
                counters.figures += 1;
                let caption = numbered("Figure", counters.figures, caption);
                let _ = writeln!(out, "<figure class=\"drawing\">\n{svg}{caption}\n</figure>");
            }
            Self::Row(drawings) => {
                out.push_str("<div class=\"row\">\n");
                drawings.iter().for_each(|drawing| drawing.write(out, counters));
                out.push_str("</div>\n");
            }
            Self::List(items) => {
                out.push_str("<ul>\n");
                for item in items {
                    let _ = writeln!(out, "<li>{}</li>", render(item));
                }
                out.push_str("</ul>\n");
            }
            Self::Image { data, alternative, caption } => {
                counters.figures += 1;
                let caption = numbered("Figure", counters.figures, caption);
                let alternative = escape(alternative);
                let _ = writeln!(
                    out,
                    "<figure>\n<img src=\"data:image/png;base64,{data}\" alt=\"{alternative}\">\n{caption}\n</figure>"
                );
            }
            Self::Gallery { pictures, caption } => {
                counters.figures += 1;
                out.push_str("<figure>\n<div class=\"gallery\">\n");
                for (name, data) in pictures {
                    let (label, alternative) = (render(name), escape(name));
                    let _ = writeln!(
                        out,
                        "<div><img src=\"data:image/png;base64,{data}\" alt=\"{alternative}\"><div class=\"label\">{label}</div></div>"
                    );
                }
                let caption = numbered("Figure", counters.figures, caption);
                let _ = writeln!(out, "</div>\n{caption}\n</figure>");
            }
            Self::Legend(entries) => {
                out.push_str("<p class=\"legend\">");
                for (colour, name) in entries {
                    let (colour, name) = (colour.hex(), render(name));
                    let _ = write!(
                        out,
                        "<span><span class=\"swatch\" style=\"background:{colour}\"></span>{name}</span> "
                    );
                }
                out.push_str("</p>\n");
            }
            Self::Table { html, caption } => {
                counters.tables += 1;
                let caption = numbered("Table", counters.tables, caption);
                let _ = writeln!(
                    out,
                    "<figure class=\"table\">\n{caption}\n<div class=\"scroll\">{html}</div>\n</figure>"
                );
            }
            Self::Facts(facts) => {
                out.push_str("<dl>\n");
                for (name, value) in facts {
                    let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", render(name), render(value));
                }
                out.push_str("</dl>\n");
            }
            Self::Headlines(headlines) => {
                out.push_str("<div class=\"cards\">\n");
                headlines.iter().for_each(|headline| write_headline(out, headline));
                out.push_str("</div>\n");
            }
            Self::Code(text) => {
                // Line by line: escaping turns control characters, line breaks among them, into spaces.
                let lines: Vec<String> = text.lines().map(escape).collect();
                let _ = writeln!(out, "<pre><code>{}</code></pre>", lines.join("\n"));
            }
            Self::Details { summary, blocks } => {
                let _ = writeln!(out, "<details>\n<summary>{}</summary>", render(summary));
                blocks.iter().for_each(|block| block.write(out, counters));
                out.push_str("</details>\n");
            }
        }
    }
}

fn numbered(kind: &str, number: usize, caption: &str) -> String {
    let caption = render(caption);
    format!("<figcaption><strong>{kind} {number}.</strong> {caption}</figcaption>")
}

fn write_headline(out: &mut String, headline: &Headline) {
    let _ = write!(
        out,
        "<div class=\"card\" style=\"border-top-color:var(--{})\"><div class=\"label\">{}</div><div class=\"value\">{}</div>",
        headline.paint.name,
        render(&headline.label),
        render(&headline.value)
    );
    if !headline.detail.is_empty() {
        let _ = write!(out, "<div class=\"detail\">{}</div>", render(&headline.detail));
    }
    out.push_str("</div>\n");
}

#[cfg(test)]
mod tests {
    use crate::{Cell, Column, Headline, Page, Section, Table};

    const HOSTILE: &str = "</title></code><script>alert(\"1\")</script>&'\u{0}\u{1b}";

    #[test]
    fn hostile_text_is_inert_everywhere() {
        let mut table = Table::new([Column::text(HOSTILE)]);
        table.push([Cell::from(HOSTILE)]).expect("one cell");
        let figure = crate::Figure::single(
            crate::Chart::new(HOSTILE).series(crate::Series::line(HOSTILE, [(0.0, 1.0)])),
        );
        let section = Section::new(HOSTILE)
            .paragraph(HOSTILE)
            .figure(&figure, HOSTILE)
            .table(&table, HOSTILE)
            .facts([(HOSTILE, HOSTILE)])
            .list([HOSTILE])
            .drawings([(figure.to_svg(crate::Theme::Auto), HOSTILE)])
            .headlines([Headline::new(HOSTILE, HOSTILE).detail(HOSTILE)])
            .png(b"png", HOSTILE, HOSTILE)
            .gallery([(HOSTILE, b"png".as_slice())], HOSTILE)
            .legend([(crate::Rgb(1, 2, 3), HOSTILE)])
            .code(HOSTILE)
            .details(HOSTILE, Section::new("").paragraph(HOSTILE));
        let html = Page::new(HOSTILE).lead(HOSTILE).section(section).command(HOSTILE).to_html();
        assert!(!html.contains("<script") && !html.contains('\u{0}') && !html.contains('\u{1b}'));
        assert_eq!(html.matches("</title>").count(), 3, "the page's own and the figures'");
        // The policy forbids scripts and the network even if something slipped through.
        assert!(html.contains("default-src 'none'"));
        assert!(!html.contains("src=\"http") && !html.contains("href="));
    }

    #[test]
    fn figures_and_tables_are_numbered_in_order() {
        let table = Table::new([Column::text("a")]);
        let inner = Section::new("").png(b"", "", "third");
        let section = Section::new("x").png(b"", "", "first").table(&table, "only").png(b"", "", "second");
        let html = Page::new("t").section(section.details("more", inner)).to_html();
        let numbers = [
            "Figure 1.</strong> first",
            "Table 1.</strong> only",
            "Figure 2.</strong> second",
            "Figure 3.</strong> third",
        ];
        assert!(numbers.iter().all(|text| html.contains(text)));
    }

    #[test]
    fn code_keeps_its_lines() {
        let html = Page::new("t").section(Section::new("").code("a\n  b < c")).to_html();
        assert!(html.contains("<pre><code>a\n  b &lt; c</code></pre>"));
    }
}
