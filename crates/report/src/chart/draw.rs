//! Laying out and drawing one chart.

use super::{
    Chart, LegendPlace,
    geometry::{Frame, SeriesShapes, skipped},
    legend::{self, LegendEntry},
    place,
    scale::{AxisDirection, given_range, scale},
    ticks::{Ticks, fitting, ticks},
};
use crate::{
    font::{Weight, width, wrap},
    graphic::{Anchor, Fill, Graphic, GraphicPoint, Rect, Stroke, Text},
    paint::{AXIS, GRID, INK, MINOR_GRID, MUTED, PAPER, REFERENCE},
};

const TICK_SIZE: f64 = 11.5;
const LABEL_SIZE: f64 = 12.5;
const TICK_LENGTH: f64 = 4.0;
const UPRIGHT_WIDTH: f64 = 30.0;

/// Lines of text above something, wrapped to a width.
pub(crate) struct Heading {
    lines: Vec<(String, f64, Weight)>,
}

impl Heading {
    /// A title in a font size, with an explanation beneath.
    pub(crate) fn new(title: &str, subtitle: &str, size: f64, limit: f64) -> Self {
        let style = |text: &str, size: f64, weight: Weight| {
            wrap(&crate::escape::clean(text), size, weight, limit)
                .into_iter()
                .map(move |line| (line, size, weight))
        };
        let subtitle_size = (size * 0.8).max(LABEL_SIZE);
        let lines =
            style(title, size, Weight::Semibold).chain(style(subtitle, subtitle_size, Weight::Regular));
        Self { lines: lines.collect() }
    }

    pub(crate) fn height(&self) -> f64 {
        self.lines.iter().map(|(_, size, _)| size * 1.4).sum()
    }

    pub(crate) fn draw(&self, graphic: &mut Graphic, (x, y): GraphicPoint) {
        let mut baseline = y;
        for (line, size, weight) in &self.lines {
            let paint = if *weight == Weight::Semibold { INK } else { MUTED };
            let mut text = Text::new((x, baseline + size * 1.02), line, *size, paint);
            text.weight = *weight;
            graphic.text(text);
            baseline += size * 1.4;
        }
    }
}

/// Where this chart's legend goes.
enum Legend {
    Nowhere,
    Above(Vec<LegendEntry>),
    Inside(Vec<LegendEntry>, Rect),
}

/// A chart fitted to a size.
pub(crate) struct FittedChart<'a> {
    chart: &'a Chart,
    width: f64,
    body_height: f64,
    heading: Heading,
    frame: Frame,
    x_ticks: Ticks,
    y_ticks: Ticks,
    legend: Legend,
}

impl<'a> FittedChart<'a> {
    /// Fits a chart into a width; `body_height` is that of the plot with its axes, without what stands above.
    pub(crate) fn new(chart: &'a Chart, width: f64, body_height: f64, legend_wanted: bool) -> Self {
        let (x, y) = (scale(chart, AxisDirection::X), scale(chart, AxisDirection::Y));
        let y_ticks = ticks(&y, ((body_height / 44.0) as usize).clamp(3, 9));
        let plot = plot_area(chart, width, body_height, &y_ticks);
        let x_ticks = fitting(&x, ((plot.width / 64.0) as usize).clamp(2, 9), plot.width, tick_width);
        let frame = Frame { plot, x, y };
        let entries = if legend_wanted { legend::entries(chart) } else { Vec::new() };
        let legend = choose_legend(chart, entries, &frame);
        let heading = Heading::new(&chart.title, &chart.subtitle, 14.0, width);
        Self { chart, width, body_height, heading, frame, x_ticks, y_ticks, legend }
    }

    /// Height of title, subtitle and a legend above the plot.
    pub(crate) fn header_height(&self) -> f64 {
        let heading = if self.heading.height() > 0.0 { self.heading.height() + 8.0 } else { 0.0 };
        heading + self.legend_height()
    }

    fn legend_height(&self) -> f64 {
        match &self.legend {
            Legend::Above(entries) => legend::rows_height(entries, self.width) + 8.0,
            Legend::Nowhere | Legend::Inside(..) => 0.0,
        }
    }

    /// Draws the chart with its plot starting `header_height` below `(x, y)`, so that neighbours line up.
    pub(crate) fn draw(&self, graphic: &mut Graphic, (x, y): GraphicPoint, header_height: f64) {
        self.heading.draw(graphic, (x, y));
        let top = y + header_height;
        if let Legend::Above(entries) = &self.legend {
            legend::draw_rows(graphic, entries, (x, top - self.legend_height()), self.width);
        }
        let shifted = |area: &Rect| Rect::new(area.x + x, area.y + top, area.width, area.height);
        let frame = Frame { plot: shifted(&self.frame.plot), ..self.frame };
        let shapes = frame.shapes(self.chart);
        self.draw_grid(graphic, &frame);
        self.draw_areas(graphic, &shapes);
        let labels = self.draw_references(graphic, &frame, &shapes, &shifted);
        self.draw_series(graphic, &shapes);
        self.draw_axes(graphic, &frame, (x, top));
        if shapes.iter().all(|series| *series == SeriesShapes::default()) {
            let middle = (frame.plot.x + frame.plot.width / 2.0, frame.plot.y + frame.plot.height / 2.0);
            graphic.text(
                Text::new(middle, "no data to draw", LABEL_SIZE, MUTED).anchored(Anchor::Middle).halo(PAPER),
            );
        }
        if let Legend::Inside(entries, area) = &self.legend {
            legend::draw_box(graphic, entries, &shifted(area));
        }
        labels.into_iter().for_each(|label| graphic.text(label));
    }

    fn draw_grid(&self, graphic: &mut Graphic, frame: &Frame) {
        let plot = &frame.plot;
        let vertical =
            |share: f64| vec![(frame.at(share, 0.0).0, plot.y), (frame.at(share, 0.0).0, plot.bottom())];
        let horizontal =
            |share: f64| vec![(plot.x, frame.at(0.0, share).1), (plot.right(), frame.at(0.0, share).1)];
        for share in &self.x_ticks.minor {
            graphic.line(vertical(*share), Stroke::solid(MINOR_GRID, 1.0));
        }
        for share in &self.y_ticks.minor {
            graphic.line(horizontal(*share), Stroke::solid(MINOR_GRID, 1.0));
        }
        for tick in &self.x_ticks.major {
            graphic.line(vertical(tick.share), Stroke::solid(GRID, 1.0));
        }
        for tick in &self.y_ticks.major {
            graphic.line(horizontal(tick.share), Stroke::solid(GRID, 1.0));
        }
    }

    fn draw_areas(&self, graphic: &mut Graphic, shapes: &[SeriesShapes]) {
        for (series, look) in shapes.iter().zip(legend::looks(self.chart)) {
            for area in &series.areas {
                graphic.polygon(area.clone(), Fill::tint(look.paint, 0.22));
            }
        }
    }

    fn draw_series(&self, graphic: &mut Graphic, shapes: &[SeriesShapes]) {
        for (series, look) in shapes.iter().zip(legend::looks(self.chart)) {
            for line in &series.lines {
                graphic.line(line.clone(), look.stroke());
            }
            for bar in &series.bars {
                let stroke = Stroke::solid(look.paint, 1.4);
                graphic.line(vec![(bar.x, bar.top), (bar.x, bar.bottom)], stroke);
                for end in [bar.top, bar.bottom] {
                    graphic.line(vec![(bar.x - 3.5, end), (bar.x + 3.5, end)], stroke);
                }
            }
            let marker = look.marker.unwrap_or(legend::Marker::Circle);
            series.markers.iter().for_each(|place| marker.draw(graphic, *place, look.paint));
        }
    }

    /// Draws the reference lines and returns their names, which go on top of everything.
    fn draw_references(
        &self,
        graphic: &mut Graphic,
        frame: &Frame,
        shapes: &[SeriesShapes],
        shifted: &impl Fn(&Rect) -> Rect,
    ) -> Vec<Text> {
        let mut taken = match &self.legend {
            Legend::Inside(_, area) => vec![shifted(area)],
            Legend::Nowhere | Legend::Above(_) => Vec::new(),
        };
        let mut labels = Vec::new();
        for line in &self.chart.references {
            let side = if line.vertical { &frame.x } else { &frame.y };
            let Some(share) = side.share(line.value).filter(|share| (0.0..=1.0).contains(share)) else {
                continue;
            };
            let (place, plot) = (frame.at(share, share), &frame.plot);
            let (ends, position) = if line.vertical {
                (vec![(place.0, plot.y), (place.0, plot.bottom())], place.0)
            } else {
                (vec![(plot.x, place.1), (plot.right(), place.1)], place.1)
            };
            graphic.line(ends, Stroke::dashed(REFERENCE, 1.3, 5.0, 4.0));
            if let Some(label) = place::reference_label(line, position, plot, shapes, &taken) {
                taken.push(label.bounds());
                labels.push(label);
            }
        }
        labels
    }

    fn draw_axes(&self, graphic: &mut Graphic, frame: &Frame, (x, top): GraphicPoint) {
        let plot = &frame.plot;
        let axis = Stroke::solid(AXIS, 1.0);
        graphic.line(vec![(plot.x, plot.y), (plot.x, plot.bottom()), (plot.right(), plot.bottom())], axis);
        for tick in &self.x_ticks.major {
            let at = frame.at(tick.share, 0.0).0;
            graphic.line(vec![(at, plot.bottom()), (at, plot.bottom() + TICK_LENGTH)], axis);
            let baseline = plot.bottom() + TICK_LENGTH + TICK_SIZE + 2.0;
            // The outermost labels stay inside the panel.
            let half = tick_width(&tick.label) / 2.0;
            let at = at.clamp(x + half, (x + self.width - half).max(x + half));
            graphic.text(Text::new((at, baseline), &tick.label, TICK_SIZE, MUTED).anchored(Anchor::Middle));
        }
        for tick in &self.y_ticks.major {
            let at = frame.at(0.0, tick.share).1;
            graphic.line(vec![(plot.x - TICK_LENGTH, at), (plot.x, at)], axis);
            let place = (plot.x - TICK_LENGTH - 4.0, at + TICK_SIZE * 0.36);
            graphic.text(Text::new(place, &tick.label, TICK_SIZE, MUTED).anchored(Anchor::End));
        }
        let named = |label: &str, at: GraphicPoint, room: f64| {
            let label = crate::font::shorten(&crate::escape::clean(label), LABEL_SIZE, Weight::Regular, room);
            Text::new(at, &label, LABEL_SIZE, INK).anchored(Anchor::Middle)
        };
        let middle = plot.x + plot.width / 2.0;
        graphic.text(named(&self.chart.x.label, (middle, top + self.body_height - 3.0), plot.width));
        let middle = plot.y + plot.height / 2.0;
        let label = &self.chart.y.label;
        if stands_upright(label) {
            graphic
                .text(named(label, (x, middle + LABEL_SIZE * 0.36), UPRIGHT_WIDTH).anchored(Anchor::Start));
        } else {
            graphic.text(named(label, (x + LABEL_SIZE * 0.9, middle), plot.height).upwards());
        }
    }
}

fn tick_width(label: &str) -> f64 {
    width(label, TICK_SIZE, Weight::Regular)
}

fn label_width(label: &str) -> f64 {
    width(&crate::escape::clean(label), LABEL_SIZE, Weight::Regular)
}

/// Whether the name of the y axis is a symbol, which is hard to read when turned.
fn stands_upright(label: &str) -> bool {
    !label.trim().is_empty() && label_width(label) <= UPRIGHT_WIDTH
}

/// The plot within a panel's body, after room for the marks and names of the axes.
fn plot_area(chart: &Chart, width: f64, body_height: f64, y_ticks: &Ticks) -> Rect {
    let widest = y_ticks.major.iter().map(|tick| tick_width(&tick.label)).fold(0.0, f64::max);
    let name = |label: &str| if label.trim().is_empty() { 0.0 } else { LABEL_SIZE + 8.0 };
    let label = &chart.y.label;
    let y_name = if stands_upright(label) { label_width(label) + 8.0 } else { name(label) };
    let left = y_name + widest + TICK_LENGTH + 4.0;
    let bottom = TICK_LENGTH + TICK_SIZE + 6.0 + name(&chart.x.label);
    let top = TICK_SIZE * 0.5;
    let right = 10.0;
    Rect::new(left, top, (width - left - right).max(20.0), (body_height - top - bottom).max(20.0))
}

fn choose_legend(chart: &Chart, entries: Vec<LegendEntry>, frame: &Frame) -> Legend {
    if entries.is_empty() || chart.legend == LegendPlace::Hidden {
        return Legend::Nowhere;
    }
    let corner = place::corner(&entries, &frame.plot, &frame.shapes(chart));
    match (chart.legend, corner) {
        (LegendPlace::Auto, Some((area, 0))) | (LegendPlace::Corner, Some((area, _))) => {
            Legend::Inside(entries, area)
        }
        _ => Legend::Above(entries),
    }
}

/// What the reader should know about data that a chart does not show.
pub(crate) fn notes(chart: &Chart) -> Vec<String> {
    let skipped = skipped(chart);
    let plural = |count: usize, one: &str, many: &str| {
        if count == 1 { format!("1 value {one}") } else { format!("{count} values {many}") }
    };
    let mut notes = Vec::new();
    if skipped.not_positive > 0 {
        let count = plural(skipped.not_positive, "at or below zero is", "at or below zero are");
        notes.push(format!("{count} not drawn on the log axis."));
    }
    if skipped.without_place > 0 {
        let (one, many) = ("that is not finite or extreme is", "that are not finite or extreme are");
        notes.push(format!("{} not drawn.", plural(skipped.without_place, one, many)));
    }
    for (name, axis) in [("x", &chart.x), ("y", &chart.y)] {
        if axis.range.is_some() && given_range(axis).is_none() {
            notes.push(format!("The range asked for on the {name} axis is empty; the data's own is shown."));
        }
    }
    notes
}
