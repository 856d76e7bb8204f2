//! One self-contained HTML page.
//!
//! The page needs no network and runs no script, and says so in a content policy, so that a report made from
//! hostile names is still only text. Figures and tables are numbered in order.

mod block;
mod inline;

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::{
    Figure, Table, Theme,
    escape::escape,
    paint::{AXIS, GRID, INK, MUTED, PALETTE, PAPER, Paint, Rgb, series_paint},
};
use block::{Counters, PageBlock};
use std::fmt::Write as _;

const STYLE: &str = include_str!("style.css");
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// A headline number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    label: String,
    value: String,
    detail: String,
    paint: Paint,
}

impl Headline {
    /// A number under a label.
    #[must_use]
    pub fn new(label: impl Into<String>, value: impl Into<String>) -> Self {
        Self { label: label.into(), value: value.into(), detail: String::new(), paint: AXIS }
    }

    /// A line of small print beneath the number.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// Takes this colour of the palette, by which figures show what the number is about.
    #[must_use]
    pub fn color(mut self, index: usize) -> Self {
        self.paint = series_paint(index);
        self
    }
}

/// A part of a page under a heading.
///
/// In paragraphs, captions and facts, `` `code` `` and `**bold**` are set as such; everything else is text.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    heading: String,
    blocks: Vec<PageBlock>,
}

impl Section {
    /// An empty section; an empty heading is left out.
    #[must_use]
    pub fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), blocks: Vec::new() }
    }

    fn with(mut self, block: PageBlock) -> Self {
        self.blocks.push(block);
        self
    }

    /// Adds a paragraph.
    #[must_use]
    pub fn paragraph(self, text: impl Into<String>) -> Self {
        self.with(PageBlock::Paragraph(text.into()))
    }

    /// Adds a figure as inline SVG.
    #[must_use]
    pub fn figure(self, figure: &Figure, caption: impl Into<String>) -> Self {
        self.with(PageBlock::Drawing { svg: figure.to_svg(Theme::Auto), caption: caption.into() })
    }

    /// Adds any graphic as inline SVG.
    #[must_use]
    pub fn graphic(self, graphic: &crate::graphic::Graphic, caption: impl Into<String>) -> Self {
        self.with(PageBlock::Drawing { svg: graphic.to_svg(Theme::Auto), caption: caption.into() })
    }

    /// Adds drawings, each with its caption: side by side where there is room, beneath each other where there is not.
    #[must_use]
    pub fn drawings<C: Into<String>>(self, drawings: impl IntoIterator<Item = (String, C)>) -> Self {
        let drawings: Vec<PageBlock> = drawings
            .into_iter()
            .map(|(svg, caption)| PageBlock::Drawing { svg, caption: caption.into() })
            .collect();
        match drawings.len() {
            0 => self,
            _ => self.with(PageBlock::Row(drawings)),
        }
    }

    /// Adds a list.
    #[must_use]
    pub fn list<I: Into<String>>(self, items: impl IntoIterator<Item = I>) -> Self {
        self.with(PageBlock::List(items.into_iter().map(Into::into).collect()))
    }

    /// Adds a PNG image, embedded in the page.
    #[must_use]
    pub fn png(self, bytes: &[u8], alternative: impl Into<String>, caption: impl Into<String>) -> Self {
        let data = STANDARD.encode(bytes);
        self.with(PageBlock::Image { data, alternative: alternative.into(), caption: caption.into() })
    }

    /// Adds PNG images side by side as one figure, each with its name beneath.
    #[must_use]
    pub fn gallery<'a, N: Into<String>>(
        self,
        pictures: impl IntoIterator<Item = (N, &'a [u8])>,
        caption: impl Into<String>,
    ) -> Self {
        let encoded = pictures.into_iter().map(|(name, bytes)| (name.into(), STANDARD.encode(bytes)));
        self.with(PageBlock::Gallery { pictures: encoded.collect(), caption: caption.into() })
    }

    /// Adds a line of colours with their meaning.
    #[must_use]
    pub fn legend<N: Into<String>>(self, entries: impl IntoIterator<Item = (Rgb, N)>) -> Self {
        self.with(PageBlock::Legend(
            entries.into_iter().map(|(colour, name)| (colour, name.into())).collect(),
        ))
    }

    /// Adds a table.
    #[must_use]
    pub fn table(self, table: &Table, caption: impl Into<String>) -> Self {
        self.with(PageBlock::Table { html: table.to_html(), caption: caption.into() })
    }

    /// Adds a list of names with their values.
    #[must_use]
    pub fn facts<K: Into<String>, V: Into<String>>(self, facts: impl IntoIterator<Item = (K, V)>) -> Self {
        let facts = facts.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        self.with(PageBlock::Facts(facts))
    }

    /// Adds a row of headline numbers.
    #[must_use]
    pub fn headlines(self, headlines: impl IntoIterator<Item = Headline>) -> Self {
        self.with(PageBlock::Headlines(headlines.into_iter().collect()))
    }

    /// Adds text in which every space and line break counts.
    #[must_use]
    pub fn code(self, text: impl Into<String>) -> Self {
        self.with(PageBlock::Code(text.into()))
    }

    /// Adds the content of a section, folded away under a summary.
    #[must_use]
    pub fn details(self, summary: impl Into<String>, inner: Self) -> Self {
        self.with(PageBlock::Details { summary: summary.into(), blocks: inner.blocks })
    }
}

/// A page: a title, a lead paragraph, sections, and a footer that says how it was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    title: String,
    lead: String,
    sections: Vec<Section>,
    command: String,
}

impl Page {
    /// An empty page.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), lead: String::new(), sections: Vec::new(), command: String::new() }
    }

    /// The paragraph that says what the page shows.
    #[must_use]
    pub fn lead(mut self, text: impl Into<String>) -> Self {
        self.lead = text.into();
        self
    }

    /// Adds a section.
    #[must_use]
    pub fn section(mut self, section: Section) -> Self {
        self.sections.push(section);
        self
    }

    /// The command line that made the page, for the footer.
    #[must_use]
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command = command.into();
        self
    }

    /// The page as an HTML document.
    #[must_use]
    pub fn to_html(&self) -> String {
        let title = escape(&self.title);
        let mut out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>\n{}{STYLE}</style>\n</head>\n<body>\n<main>\n<header>\n<h1>{title}</h1>\n",
            variables()
        );
        // Writing into a String cannot fail, so the results of write! are dropped throughout.
        if !self.lead.is_empty() {
            let _ = writeln!(out, "<p class=\"lead\">{}</p>", inline::render(&self.lead));
        }
        out.push_str("</header>\n");
        let mut counters = Counters::default();
        for section in &self.sections {
            out.push_str("<section>\n");
            if !section.heading.is_empty() {
                let _ = writeln!(out, "<h2>{}</h2>", inline::render(&section.heading));
            }
            section.blocks.iter().for_each(|block| block.write(&mut out, &mut counters));
            out.push_str("</section>\n");
        }
        out.push_str("</main>\n");
        if !self.command.is_empty() {
            let _ = writeln!(out, "<footer>Made with <code>{}</code></footer>", escape(&self.command));
        }
        out.push_str("</body>\n</html>\n");
        out
    }
}

/// The page's colours: those of the figures, so that a figure's sheet and the page are one.
fn variables() -> String {
    let paints: Vec<Paint> = [PAPER, INK, MUTED, AXIS, GRID].into_iter().chain(PALETTE).collect();
    style_variables(&paints)
}

/// Colours as variables of a style sheet, light and dark: `--ink` for the paint with the name `ink`.
#[must_use]
pub fn style_variables(paints: &[Paint]) -> String {
    let list = |theme: Theme| -> String {
        paints.iter().map(|paint: &Paint| format!("--{}:{};", paint.name, paint.under(theme).hex())).collect()
    };
    format!(
        ":root{{{}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{}}}}}\n",
        list(Theme::Light),
        list(Theme::Dark)
    )
}
