//! The legend: what each series looks like, and what it is called.

use super::{Chart, Dash, SeriesMarks};
use crate::{
    font::{Weight, shorten, width},
    graphic::{Fill, Graphic, GraphicPoint, Rect, Stroke, Text},
    paint::{INK, PAPER, Paint, series_paint},
};

pub(crate) const TEXT_SIZE: f64 = 12.0;
pub(crate) const LINE_WIDTH: f64 = 2.0;
const ROW_HEIGHT: f64 = 19.0;
const SWATCH: f64 = 24.0;
const SWATCH_GAP: f64 = 7.0;
const ENTRY_GAP: f64 = 20.0;
const BOX_PADDING: f64 = 8.0;

/// The form of a marker; it tells series apart where colour does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
}

impl Marker {
    fn of(index: usize) -> Self {
        [Self::Circle, Self::Square, Self::Triangle, Self::Diamond][index % 4]
    }

    /// Draws the marker with a rim in the colour of the paper, so that it stands out from its line.
    pub(crate) fn draw(self, graphic: &mut Graphic, (x, y): GraphicPoint, paint: Paint) {
        let (fill, rim) = (Some(Fill::solid(paint)), Some(Stroke::solid(PAPER, 1.0)));
        let corners = match self {
            Self::Circle => return graphic.circle((x, y), 3.8, fill, rim),
            Self::Square => return graphic.rect(Rect::new(x - 3.4, y - 3.4, 6.8, 6.8), 0.5, fill, rim),
            Self::Triangle => vec![(x, y - 4.8), (x + 4.4, y + 3.2), (x - 4.4, y + 3.2)],
            Self::Diamond => vec![(x, y - 4.9), (x + 4.9, y), (x, y + 4.9), (x - 4.9, y)],
        };
        graphic.shapes.push(crate::graphic::GraphicShape::Polygon { points: corners, fill, stroke: rim });
    }
}

/// How a series is drawn, in the plot and in the legend.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LegendEntry {
    pub(crate) label: String,
    pub(crate) paint: Paint,
    pub(crate) dash: Dash,
    pub(crate) line: bool,
    pub(crate) marker: Option<Marker>,
    pub(crate) area: bool,
}

impl LegendEntry {
    pub(crate) fn stroke(&self) -> Stroke {
        Stroke { paint: self.paint, width: LINE_WIDTH, dash: self.dash.lengths() }
    }
}

/// The look of every series of a chart, in order.
pub(crate) fn looks(chart: &Chart) -> Vec<LegendEntry> {
    chart
        .series
        .iter()
        .enumerate()
        .map(|(index, series)| LegendEntry {
            label: crate::escape::clean(&series.label).trim().to_owned(),
            paint: series_paint(series.color.unwrap_or(index)),
            dash: series.dash,
            line: matches!(series.marks, SeriesMarks::Line(_) | SeriesMarks::LinePoints(_)),
            marker: matches!(series.marks, SeriesMarks::LinePoints(_) | SeriesMarks::Points(_))
                .then(|| Marker::of(index)),
            area: matches!(series.marks, SeriesMarks::Band(_)),
        })
        .collect()
}

/// The series that have a label.
pub(crate) fn entries(chart: &Chart) -> Vec<LegendEntry> {
    looks(chart).into_iter().filter(|entry| !entry.label.is_empty()).collect()
}

fn entry_width(entry: &LegendEntry) -> f64 {
    SWATCH + SWATCH_GAP + width(&entry.label, TEXT_SIZE, Weight::Regular)
}

/// Draws one entry whose row's middle is at `y`, no wider than `limit`.
fn draw_entry(graphic: &mut Graphic, entry: &LegendEntry, x: f64, y: f64, limit: f64) {
    if entry.area {
        graphic.rect(Rect::new(x, y - 5.0, SWATCH, 10.0), 2.0, Some(Fill::tint(entry.paint, 0.25)), None);
    }
    if entry.line {
        graphic.line(vec![(x, y), (x + SWATCH, y)], entry.stroke());
    }
    if let Some(marker) = entry.marker {
        marker.draw(graphic, (x + SWATCH / 2.0, y), entry.paint);
    }
    let label = shorten(&entry.label, TEXT_SIZE, Weight::Regular, limit - SWATCH - SWATCH_GAP);
    graphic.text(Text::new((x + SWATCH + SWATCH_GAP, y + TEXT_SIZE * 0.36), &label, TEXT_SIZE, INK));
}

/// The place of each entry, as (row, x), in rows of a width.
fn rows(entries: &[LegendEntry], limit: f64) -> Vec<(usize, f64)> {
    let (mut row, mut x) = (0, 0.0);
    entries
        .iter()
        .map(|entry| {
            let needed = entry_width(entry).min(limit);
            if x > 0.0 && x + needed > limit {
                row += 1;
                x = 0.0;
            }
            let place = (row, x);
            x += needed + ENTRY_GAP;
            place
        })
        .collect()
}

/// Number of rows that entries fill at a width.
fn row_count(entries: &[LegendEntry], limit: f64) -> usize {
    rows(entries, limit).last().map_or(0, |(row, _)| row + 1)
}

/// Height of the rows that entries fill at a width.
pub(crate) fn rows_height(entries: &[LegendEntry], limit: f64) -> f64 {
    row_count(entries, limit) as f64 * ROW_HEIGHT
}

/// Draws the entries in rows from the left upper corner.
pub(crate) fn draw_rows(
    graphic: &mut Graphic,
    entries: &[LegendEntry],
    (left, top): GraphicPoint,
    limit: f64,
) {
    for (entry, (row, x)) in entries.iter().zip(rows(entries, limit)) {
        draw_entry(graphic, entry, left + x, top + (row as f64 + 0.5) * ROW_HEIGHT, limit - x);
    }
}

/// Size of the box that holds the entries in one column.
pub(crate) fn box_size(entries: &[LegendEntry]) -> (f64, f64) {
    let widest = entries.iter().map(entry_width).fold(0.0, f64::max);
    (widest + 2.0 * BOX_PADDING, entries.len() as f64 * ROW_HEIGHT + BOX_PADDING)
}

/// Draws the entries in one column on a sheet of paper.
pub(crate) fn draw_box(graphic: &mut Graphic, entries: &[LegendEntry], area: &Rect) {
    graphic.rect(*area, 3.0, Some(Fill::tint(PAPER, 0.88)), None);
    for (index, entry) in entries.iter().enumerate() {
        let y = area.y + BOX_PADDING / 2.0 + (index as f64 + 0.5) * ROW_HEIGHT;
        draw_entry(graphic, entry, area.x + BOX_PADDING, y, area.width - 2.0 * BOX_PADDING);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Series;

    #[test]
    fn rows_break_when_full() {
        let chart = ["alpha", "beta", "gamma"]
            .into_iter()
            .fold(Chart::new(""), |chart, label| chart.series(Series::line(label, [])));
        let entries = entries(&chart);
        assert_eq!(row_count(&entries, 1000.0), 1);
        assert_eq!(row_count(&entries, 80.0), 3);
        assert_eq!(row_count(&[], 80.0), 0);
    }

    #[test]
    fn series_without_label_are_not_listed() {
        let chart = Chart::new("").series(Series::line("", [])).series(Series::points("b", []));
        let entries = entries(&chart);
        assert_eq!(entries.len(), 1);
        // It keeps the colour of its place among all series.
        assert_eq!(entries[0].paint, series_paint(1));
    }
}
