//! Figures: charts on one sheet, under a title.

use crate::{
    ReportError, Theme,
    chart::{Chart, FittedChart, Heading, LegendPlace, draw_rows, entries, notes, rows_height},
    escape::clean,
    font::{Weight, wrap},
    graphic::{Graphic, Text},
    paint::MUTED,
};

const MARGIN: f64 = 20.0;
const GAP: f64 = 30.0;
const NOTE_SIZE: f64 = 11.5;
const NOTE_LINE: f64 = 16.0;

/// One chart, or several side by side, under a title and above notes.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    title: String,
    subtitle: String,
    panels: Vec<Chart>,
    columns: usize,
    panel_size: (f64, f64),
    notes: Vec<String>,
    bare: bool,
}

impl Figure {
    /// An empty figure of panels of 330 x 260 units, three in a row.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            subtitle: String::new(),
            panels: Vec::new(),
            columns: 3,
            panel_size: (330.0, 260.0),
            notes: Vec::new(),
            bare: false,
        }
    }

    /// A figure of one large chart, whose title becomes the figure's.
    #[must_use]
    pub fn single(mut chart: Chart) -> Self {
        let title = std::mem::take(&mut chart.title);
        let subtitle = std::mem::take(&mut chart.subtitle);
        Self::new(title).subtitle(subtitle).large(chart)
    }

    /// Adds one large chart as the only one of the figure.
    #[must_use]
    pub fn large(self, chart: Chart) -> Self {
        self.columns(1).panel_size(680.0, 380.0).panel(chart)
    }

    /// A line of explanation beneath the title.
    #[must_use]
    pub fn subtitle(mut self, subtitle: impl Into<String>) -> Self {
        self.subtitle = subtitle.into();
        self
    }

    /// Adds a chart.
    #[must_use]
    pub fn panel(mut self, chart: Chart) -> Self {
        self.panels.push(chart);
        self
    }

    /// How many charts stand in a row; at least one.
    #[must_use]
    pub fn columns(mut self, columns: usize) -> Self {
        self.columns = columns.clamp(1, 12);
        self
    }

    /// Size of each plot with its axes, without titles; kept between 180 x 140 and 4000 x 4000.
    #[must_use]
    pub fn panel_size(mut self, width: f64, height: f64) -> Self {
        let bounded = |length: f64, low: f64| if length.is_nan() { low } else { length.clamp(low, 4000.0) };
        self.panel_size = (bounded(width, 180.0), bounded(height, 140.0));
        self
    }

    /// Adds a note beneath the charts.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// The figure as an SVG document, which may also stand inside an HTML page.
    #[must_use]
    pub fn to_svg(&self, theme: Theme) -> String {
        self.graphic().to_svg(theme)
    }

    /// The figure as a PNG file of `scale` pixels a unit; 2 suits screens and slides.
    ///
    /// # Errors
    /// When the picture would be too large or the encoder fails.
    pub fn to_png(&self, theme: Theme, scale: f64) -> Result<Vec<u8>, ReportError> {
        self.graphic().to_png(theme, scale)
    }

    /// The figure as a PDF file of one page.
    ///
    /// # Errors
    /// A build whose embedded font does not parse.
    pub fn to_pdf(&self) -> Result<Vec<u8>, ReportError> {
        self.graphic().to_pdf()
    }

    /// The figure without its title, subtitle and notes, for a paper that has words of its own. What its charts could not show is still noted.
    #[must_use]
    pub fn bare(mut self) -> Self {
        self.bare = true;
        self
    }

    /// The figure as a list of shapes.
    #[must_use]
    pub fn graphic(&self) -> Graphic {
        let columns = self.columns.min(self.panels.len()).max(1);
        let (panel_width, body_height) = self.panel_size;
        let inner = columns as f64 * (panel_width + GAP) - GAP;
        let shared = self.shared_legend();
        let panels: Vec<FittedChart<'_>> = self
            .panels
            .iter()
            .map(|chart| FittedChart::new(chart, panel_width, body_height, !shared))
            .collect();
        let header_heights: Vec<f64> = panels
            .chunks(columns)
            .map(|row| row.iter().map(FittedChart::header_height).fold(0.0, f64::max))
            .collect();
        let (title, subtitle) =
            if self.bare { ("", "") } else { (self.title.as_str(), self.subtitle.as_str()) };
        let heading = Heading::new(title, subtitle, 17.0, inner);
        let legend = match self.panels.first() {
            Some(chart) if shared => entries(chart),
            _ => Vec::new(),
        };
        let notes = self.note_lines(inner);

        let heading_height = if heading.height() > 0.0 { heading.height() + 12.0 } else { 0.0 };
        let legend_height = if legend.is_empty() { 0.0 } else { rows_height(&legend, inner) + 12.0 };
        let rows_height: f64 = header_heights.iter().map(|header| header + body_height + GAP).sum();
        let notes_height = if notes.is_empty() { 0.0 } else { notes.len() as f64 * NOTE_LINE + 10.0 };
        let rows_height = (rows_height - GAP).max(0.0);
        let height = 2.0 * MARGIN + heading_height + legend_height + rows_height + notes_height;

        let mut graphic =
            Graphic::new(inner + 2.0 * MARGIN, height.ceil(), &self.spoken_title(), &self.description());
        heading.draw(&mut graphic, (MARGIN, MARGIN));
        draw_rows(&mut graphic, &legend, (MARGIN, MARGIN + heading_height), inner);
        let mut top = MARGIN + heading_height + legend_height;
        for (row, header) in panels.chunks(columns).zip(&header_heights) {
            for (column, panel) in row.iter().enumerate() {
                let left = MARGIN + column as f64 * (panel_width + GAP);
                panel.draw(&mut graphic, (left, top), *header);
            }
            top += header + body_height + GAP;
        }
        let first = MARGIN + heading_height + legend_height + rows_height + 10.0 + NOTE_LINE * 0.8;
        for (index, line) in notes.iter().enumerate() {
            graphic.text(Text::new((MARGIN, first + index as f64 * NOTE_LINE), line, NOTE_SIZE, MUTED));
        }
        graphic
    }

    /// Whether all panels would show the same legend.
    fn shared_legend(&self) -> bool {
        let Some((first, rest)) = self.panels.split_first() else { return false };
        let automatic = self.panels.iter().all(|chart| chart.legend == LegendPlace::Auto);
        automatic && !rest.is_empty() && rest.iter().all(|chart| entries(chart) == entries(first))
    }

    /// The caller's notes and what the charts could not show, wrapped.
    fn note_lines(&self, limit: f64) -> Vec<String> {
        let mut all = if self.bare { Vec::new() } else { self.notes.clone() };
        for chart in &self.panels {
            let name = if self.panels.len() > 1 && !chart.title.is_empty() {
                format!("{}: ", chart.title)
            } else {
                String::new()
            };
            all.extend(notes(chart).into_iter().map(|note| format!("{name}{note}")));
        }
        all.iter().flat_map(|note| wrap(&clean(note), NOTE_SIZE, Weight::Regular, limit)).collect()
    }

    fn spoken_title(&self) -> String {
        if self.title.is_empty() { "Figure".to_owned() } else { self.title.clone() }
    }

    fn description(&self) -> String {
        self.panels.iter().map(Chart::description).collect::<Vec<_>>().join(" ")
    }
}
