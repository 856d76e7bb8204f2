//! From data values to places along an axis.

use super::{Axis, Chart, SeriesMarks};

/// How an axis spreads its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScaleKind {
    /// Equal steps are equal differences.
    Linear,
    /// Equal steps are equal ratios.
    Log,
}

/// Values beyond this, and on a log scale those below its inverse, would overflow when subtracted or padded.
const LARGEST: f64 = 1e300;

/// Shares so far outside look alike in a figure; larger ones would cost the precision of a cut at the edge.
const FAR: f64 = 1e6;

/// A scale with the range it shows; on a log scale the ends are decimal logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AxisScale {
    pub(crate) kind: ScaleKind,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl AxisScale {
    /// The scale's own measure of a value, if the value can be drawn at all.
    pub(crate) fn measure(kind: ScaleKind, value: f64) -> Option<f64> {
        match kind {
            ScaleKind::Linear => (value.abs() <= LARGEST).then_some(value),
            ScaleKind::Log => (1.0 / LARGEST..=LARGEST).contains(&value).then(|| value.log10()),
        }
    }

    /// Place of a value as a share of the axis: 0 at its start, 1 at its end, possibly beyond both.
    pub(crate) fn share(&self, value: f64) -> Option<f64> {
        let share = (Self::measure(self.kind, value)? - self.low) / (self.high - self.low);
        Some(share.clamp(-FAR, FAR))
    }

    /// As [`share`](Self::share), with everything too small to be drawn (zero on a log axis, minus infinity) at
    /// the start and everything too large at the end.
    pub(crate) fn bounded_share(&self, value: f64) -> Option<f64> {
        if value.is_nan() {
            return None;
        }
        Some(self.share(value).unwrap_or(if value > LARGEST { 1.0 } else { 0.0 }).clamp(0.0, 1.0))
    }
}

/// Which of a chart's two axes is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AxisDirection {
    X,
    Y,
}

/// The scale of an axis: the caller's range where it makes sense, else that of the data with some air.
pub(crate) fn scale(chart: &Chart, direction: AxisDirection) -> AxisScale {
    let axis = match direction {
        AxisDirection::X => &chart.x,
        AxisDirection::Y => &chart.y,
    };
    if let Some((low, high)) = given_range(axis) {
        return AxisScale { kind: axis.kind, low, high };
    }
    let measured =
        values(chart, direction).into_iter().filter_map(|value| AxisScale::measure(axis.kind, value));
    let (low, high) = measured
        .fold(None, |ends: Option<(f64, f64)>, value| {
            Some(ends.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
        })
        .unwrap_or((0.0, 1.0));
    let (low, high) = widened(low, high, axis.kind);
    let (low, high) = match (direction, axis.kind) {
        (AxisDirection::X, _) if only_lines(chart) => (low, high),
        (_, ScaleKind::Linear) => padded_linear(low, high, direction),
        (_, ScaleKind::Log) => {
            let pad = (0.04 * (high - low)).min(1.0);
            (low - pad, high + pad)
        }
    };
    AxisScale { kind: axis.kind, low, high }
}

/// The caller's range in the scale's measure, if it is one.
pub(crate) fn given_range(axis: &Axis) -> Option<(f64, f64)> {
    let (low, high) = axis.range?;
    let (low, high) = (AxisScale::measure(axis.kind, low)?, AxisScale::measure(axis.kind, high)?);
    (high - low > 1e-9 * low.abs().max(high.abs())).then_some((low, high))
}

/// Lines may touch the sides of the plot; markers would be cut there.
fn only_lines(chart: &Chart) -> bool {
    chart.series.iter().all(|series| match &series.marks {
        SeriesMarks::Line(points) => points.len() > 1,
        SeriesMarks::Band(_) => true,
        SeriesMarks::LinePoints(_) | SeriesMarks::Points(_) => false,
    })
}

/// Gives a range that is a point, or too narrow for f64 to tell its ticks apart, a width.
fn widened(low: f64, high: f64, kind: ScaleKind) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    if high - low > 1e-9 * size {
        return (low, high);
    }
    let half = match kind {
        ScaleKind::Linear if size == 0.0 => 1.0,
        ScaleKind::Linear => size * 0.1,
        // A measure of log10(2) and more: 1 to 2 either way.
        ScaleKind::Log => 0.301_f64.max(1e-8 * size),
    };
    (low - half, high + half)
}

/// Air at both ends, but no crossing of zero, and zero itself where the data comes near it.
fn padded_linear(low: f64, high: f64, direction: AxisDirection) -> (f64, f64) {
    let span = high - low;
    let pad = span * if direction == AxisDirection::X { 0.03 } else { 0.06 };
    let near_zero = direction == AxisDirection::Y || low == 0.0;
    let start = if low >= 0.0 && (low < 0.35 * span && near_zero || low < pad) {
        if low == 0.0 && direction == AxisDirection::X { -pad } else { 0.0 }
    } else {
        low - pad
    };
    let end = if high <= 0.0 && -high < 0.35 * span { 0.0 } else { high + pad };
    (start, end)
}

/// Everything that should be seen along one direction.
fn values(chart: &Chart, direction: AxisDirection) -> Vec<f64> {
    let x = direction == AxisDirection::X;
    let mut values: Vec<f64> = Vec::new();
    for series in &chart.series {
        match &series.marks {
            SeriesMarks::Line(points) | SeriesMarks::LinePoints(points) => {
                values.extend(points.iter().map(|point| if x { point.0 } else { point.1 }));
            }
            SeriesMarks::Points(points) if x => values.extend(points.iter().map(|point| point.x)),
            SeriesMarks::Points(points) => values.extend(points.iter().flat_map(|p| [p.y, p.lower, p.upper])),
            SeriesMarks::Band(points) if x => values.extend(points.iter().map(|point| point.x)),
            SeriesMarks::Band(points) => {
                values.extend(points.iter().flat_map(|point| [point.lower, point.upper]))
            }
        }
    }
    values.extend(chart.references.iter().filter(|line| line.vertical == x).map(|line| line.value));
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Series;

    fn chart(points: &[(f64, f64)]) -> Chart {
        Chart::new("").series(Series::line_points("", points.iter().copied()))
    }

    #[test]
    fn a_range_near_zero_starts_there() {
        let scale = scale(&chart(&[(1.0, 0.1), (2.0, 4.0)]), AxisDirection::Y);
        assert_eq!(scale.low, 0.0);
        assert!(scale.high > 4.0 && scale.high < 4.5);
    }

    #[test]
    fn a_single_point_gets_a_width() {
        for value in [0.0, 1e-12, -5.0, 1e300] {
            let scale = scale(&chart(&[(value, value)]), AxisDirection::Y);
            assert!(scale.low < scale.high && (scale.high - scale.low).is_finite(), "{value}");
            assert!((0.0..=1.0).contains(&scale.share(value).expect("drawable")));
        }
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        for (low, high) in [(f64::MAX, f64::MAX), (f64::MIN_POSITIVE, 1.0), (1e-300, 1e300)] {
            let chart = Chart::new("").y(Axis::log("")).series(Series::points("", [(0.0, low), (1.0, high)]));
            let scale = scale(&chart, AxisDirection::Y);
            assert!(scale.low < scale.high && 10f64.powf(scale.high).is_finite(), "{low} {high}");
        }
    }

    #[test]
    fn senseless_ranges_are_not_taken() {
        assert_eq!(given_range(&Axis::linear("").range(2.0, 1.0)), None);
        assert_eq!(given_range(&Axis::log("").range(0.0, 1.0)), None);
        assert_eq!(given_range(&Axis::linear("").range(f64::NAN, 1.0)), None);
        assert_eq!(given_range(&Axis::log("").range(0.1, 100.0)), Some((-1.0, 2.0)));
    }

    #[test]
    fn bounds_beyond_the_drawable_end_at_the_edge() {
        let scale = AxisScale { kind: ScaleKind::Log, low: -6.0, high: 0.0 };
        assert_eq!(scale.bounded_share(0.0), Some(0.0));
        assert_eq!(scale.bounded_share(f64::MIN_POSITIVE), Some(0.0));
        assert_eq!(scale.bounded_share(f64::INFINITY), Some(1.0));
        assert_eq!(scale.bounded_share(f64::NEG_INFINITY), Some(0.0));
        assert_eq!(scale.bounded_share(f64::NAN), None);
        assert_eq!(scale.share(-1.0), None);
    }
}
