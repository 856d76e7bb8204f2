//! The data of a chart as shapes inside its plot.

use super::{
    Chart, SeriesMarks, clip,
    scale::{AxisScale, ScaleKind},
};
use crate::graphic::{GraphicPoint, Rect};

/// The plot's rectangle with the scales of its sides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) plot: Rect,
    pub(crate) x: AxisScale,
    pub(crate) y: AxisScale,
}

/// An error bar in the figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ErrorBar {
    pub(crate) x: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

/// What one series puts into the plot.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SeriesShapes {
    pub(crate) lines: Vec<Vec<GraphicPoint>>,
    pub(crate) markers: Vec<GraphicPoint>,
    pub(crate) bars: Vec<ErrorBar>,
    pub(crate) areas: Vec<Vec<GraphicPoint>>,
}

/// How many values could not be drawn, and why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OmittedValues {
    pub(crate) without_place: usize,
    pub(crate) not_positive: usize,
}

impl Frame {
    pub(crate) fn at(&self, x_share: f64, y_share: f64) -> GraphicPoint {
        (self.plot.x + x_share * self.plot.width, self.plot.bottom() - y_share * self.plot.height)
    }

    fn point(&self, x: f64, y: f64) -> Option<GraphicPoint> {
        Some(self.at(self.x.share(x)?, self.y.share(y)?))
    }

    /// The shapes of every series, in order.
    pub(crate) fn shapes(&self, chart: &Chart) -> Vec<SeriesShapes> {
        chart.series.iter().map(|series| self.series_shapes(&series.marks)).collect()
    }

    fn series_shapes(&self, marks: &SeriesMarks) -> SeriesShapes {
        let mut shapes = SeriesShapes::default();
        match marks {
            SeriesMarks::Line(points) | SeriesMarks::LinePoints(points) => {
                let drawn: Vec<Option<GraphicPoint>> =
                    points.iter().map(|(x, y)| self.point(*x, *y)).collect();
                for run in drawn.split(Option::is_none) {
                    let run: Vec<GraphicPoint> = run.iter().flatten().copied().collect();
                    shapes.lines.extend(clip::polyline(&run, &self.plot));
                    // A point alone between gaps would vanish without a marker.
                    if run.len() == 1 && matches!(marks, SeriesMarks::Line(_)) {
                        shapes.markers.extend(run.into_iter().filter(|point| self.plot.contains(*point)));
                    }
                }
                if matches!(marks, SeriesMarks::LinePoints(_)) {
                    shapes
                        .markers
                        .extend(drawn.into_iter().flatten().filter(|point| self.plot.contains(*point)));
                }
            }
            SeriesMarks::Points(points) => {
                for point in points {
                    let Some(place) = self.point(point.x, point.y) else { continue };
                    if !self.plot.contains(place) {
                        continue;
                    }
                    shapes.markers.push(place);
                    let ends = (self.y.bounded_share(point.lower), self.y.bounded_share(point.upper));
                    if let (Some(lower), Some(upper)) = ends
                        && lower < upper
                    {
                        let (top, bottom) = (self.at(0.0, upper).1, self.at(0.0, lower).1);
                        shapes.bars.push(ErrorBar { x: place.0, top, bottom });
                    }
                }
            }
            SeriesMarks::Band(points) => {
                let drawn: Vec<Option<(f64, f64, f64)>> = points
                    .iter()
                    .map(|point| {
                        let x = self.x.share(point.x)?;
                        Some((x, self.y.bounded_share(point.lower)?, self.y.bounded_share(point.upper)?))
                    })
                    .collect();
                shapes.areas = drawn.split(Option::is_none).filter_map(|run| self.area(run)).collect();
            }
        }
        shapes
    }

    /// The outline of one unbroken stretch of a band, cut at the left and right side.
    fn area(&self, run: &[Option<(f64, f64, f64)>]) -> Option<Vec<GraphicPoint>> {
        let mut columns: Vec<(f64, f64, f64)> = Vec::new();
        let run: Vec<(f64, f64, f64)> = run.iter().flatten().copied().collect();
        for pair in run.windows(2) {
            let ((x0, low0, high0), (x1, low1, high1)) = (pair[0], pair[1]);
            let edge = |x: f64| {
                let t = if x1 == x0 { 0.0 } else { (x - x0) / (x1 - x0) };
                (x, (low0 + t * (low1 - low0)).clamp(0.0, 1.0), (high0 + t * (high1 - high0)).clamp(0.0, 1.0))
            };
            if x0.max(x1) < 0.0 || x0.min(x1) > 1.0 {
                continue;
            }
            columns.push(edge(x0.clamp(0.0, 1.0)));
            columns.push(edge(x1.clamp(0.0, 1.0)));
        }
        columns.dedup();
        if columns.len() < 2 {
            return None;
        }
        let upper = columns.iter().map(|(x, _, high)| self.at(*x, *high));
        let lower = columns.iter().rev().map(|(x, low, _)| self.at(*x, *low));
        Some(upper.chain(lower).collect())
    }
}

/// Counts the values that have no place on their axis; the ends of brackets always have one.
pub(crate) fn skipped(chart: &Chart) -> OmittedValues {
    let mut skipped = OmittedValues::default();
    let mut count = |kind: ScaleKind, value: f64| {
        if AxisScale::measure(kind, value).is_none() {
            match kind {
                ScaleKind::Log if value <= 0.0 && value.is_finite() => skipped.not_positive += 1,
                ScaleKind::Log | ScaleKind::Linear => skipped.without_place += 1,
            }
        }
    };
    for series in &chart.series {
        match &series.marks {
            SeriesMarks::Line(points) | SeriesMarks::LinePoints(points) => {
                for (x, y) in points {
                    count(chart.x.kind, *x);
                    count(chart.y.kind, *y);
                }
            }
            SeriesMarks::Points(points) => {
                for point in points {
                    count(chart.x.kind, point.x);
                    count(chart.y.kind, point.y);
                }
            }
            SeriesMarks::Band(points) => points.iter().for_each(|point| count(chart.x.kind, point.x)),
        }
    }
    skipped
}

impl SeriesShapes {
    /// How much of this series lies within a box.
    pub(crate) fn within(&self, rect: &Rect) -> usize {
        let hits = |points: &[GraphicPoint]| {
            points.windows(2).filter(|pair| clip::segment(pair[0], pair[1], rect).is_some()).count()
        };
        let lines: usize = self.lines.iter().map(|line| hits(line)).sum();
        let markers = self.markers.iter().filter(|point| rect.contains(**point)).count();
        let bars = self
            .bars
            .iter()
            .filter(|bar| clip::segment((bar.x, bar.top), (bar.x, bar.bottom), rect).is_some());
        let areas: usize = self
            .areas
            .iter()
            .map(|area| {
                let half = area.len() / 2;
                // The outline and the verticals between its upper and lower half.
                hits(area) + (0..half).map(|i| hits(&[area[i], area[area.len() - 1 - i]])).sum::<usize>()
            })
            .sum();
        lines + markers + bars.count() + areas
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, BandPoint, ErrorPoint, Series};

    fn frame() -> Frame {
        let scale = AxisScale { kind: ScaleKind::Linear, low: 0.0, high: 10.0 };
        Frame { plot: Rect::new(0.0, 0.0, 100.0, 100.0), x: scale, y: scale }
    }

    #[test]
    fn a_value_that_cannot_be_drawn_leaves_a_gap() {
        let points = [
            (1.0, 1.0),
            (2.0, 2.0),
            (3.0, f64::NAN),
            (4.0, 4.0),
            (5.0, 5.0),
            (6.0, f64::INFINITY),
            (7.0, 7.0),
        ];
        let shapes = frame().series_shapes(&Series::line("", points).marks);
        assert_eq!(shapes.lines.len(), 2);
        assert_eq!(shapes.markers, [(70.0, 30.0)]);
    }

    #[test]
    fn zero_on_a_log_axis_is_counted() {
        let chart = Chart::new("")
            .y(Axis::log(""))
            .series(Series::line("", [(1.0, 0.0), (2.0, -1.0), (3.0, f64::NAN), (4.0, 1.0)]));
        assert_eq!(skipped(&chart), OmittedValues { without_place: 1, not_positive: 2 });
    }

    #[test]
    fn bands_and_bars_end_at_the_edge() {
        let band = [(-5.0, 1.0, 3.0), (5.0, 1.0, f64::INFINITY)].map(|(x, lower, upper)| BandPoint {
            x,
            lower,
            upper,
        });
        let shapes = frame().series_shapes(&Series::band("", band).marks);
        assert!(shapes.areas[0].iter().all(|point| frame().plot.contains(*point)));
        let bars = [ErrorPoint { x: 5.0, y: 5.0, lower: f64::NEG_INFINITY, upper: 6.0 }];
        let shapes = frame().series_shapes(&Series::error_points("", bars).marks);
        assert_eq!(shapes.bars, [ErrorBar { x: 50.0, top: 40.0, bottom: 100.0 }]);
    }
}
