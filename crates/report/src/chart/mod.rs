//! Charts described by what they show; the layout is worked out when they are drawn.

mod clip;
mod draw;
mod geometry;
mod legend;
mod place;
mod scale;
mod ticks;

pub(crate) use draw::{FittedChart, Heading, notes};
pub(crate) use legend::{draw_rows, entries, rows_height};
pub use scale::ScaleKind;

/// One axis of a chart: what it measures, and on which scale.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    pub(crate) label: String,
    pub(crate) kind: ScaleKind,
    pub(crate) range: Option<(f64, f64)>,
}

impl Axis {
    /// An axis on which equal steps are equal differences.
    #[must_use]
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), kind: ScaleKind::Linear, range: None }
    }

    /// An axis on which equal steps are equal ratios; values that are not positive are left out with a note.
    #[must_use]
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), kind: ScaleKind::Log, range: None }
    }

    /// Shows exactly this range instead of the one of the data; lines are clipped to it.
    #[must_use]
    pub fn range(mut self, low: f64, high: f64) -> Self {
        self.range = Some((low, high));
        self
    }
}

/// How the line of a series is broken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dash {
    /// Unbroken.
    #[default]
    Solid,
    /// Long dashes.
    Dashed,
    /// Short dots.
    Dotted,
}

impl Dash {
    pub(crate) fn lengths(self) -> Option<(f64, f64)> {
        match self {
            Self::Solid => None,
            Self::Dashed => Some((7.0, 4.0)),
            Self::Dotted => Some((2.0, 3.0)),
        }
    }
}

/// A measured value with the ends of its error bar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorPoint {
    /// Place on the x axis.
    pub x: f64,
    /// The value.
    pub y: f64,
    /// Lower end of the bar; `y` itself where there is no bar.
    pub lower: f64,
    /// Upper end of the bar; `y` itself where there is no bar.
    pub upper: f64,
}

/// Both ends of a bracket at one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BandPoint {
    /// Place on the x axis.
    pub x: f64,
    /// Lower end; on a log axis a value that is not positive reaches down to the axis.
    pub lower: f64,
    /// Upper end; an infinite value reaches up to the edge.
    pub upper: f64,
}

/// An upright bar from zero to a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// The place of its middle on the x axis.
    pub x: f64,
    /// Its width on the x axis.
    pub width: f64,
    /// The value.
    pub height: f64,
}

/// What a series looks like.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SeriesMarks {
    Line(Vec<(f64, f64)>),
    LinePoints(Vec<(f64, f64)>),
    Points(Vec<ErrorPoint>),
    Band(Vec<BandPoint>),
}

/// Data under one label.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub(crate) label: String,
    pub(crate) marks: SeriesMarks,
    pub(crate) dash: Dash,
    pub(crate) color: Option<usize>,
}

impl Series {
    fn new(label: impl Into<String>, marks: SeriesMarks) -> Self {
        Self { label: label.into(), marks, dash: Dash::Solid, color: None }
    }

    /// A line through points; a value that cannot be drawn leaves a gap.
    #[must_use]
    pub fn line(label: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::new(label, SeriesMarks::Line(points.into_iter().collect()))
    }

    /// A line with a marker on each point.
    #[must_use]
    pub fn line_points(label: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::new(label, SeriesMarks::LinePoints(points.into_iter().collect()))
    }

    /// Markers alone.
    #[must_use]
    pub fn points(label: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::error_points(label, points.into_iter().map(|(x, y)| ErrorPoint { x, y, lower: y, upper: y }))
    }

    /// Markers with error bars.
    #[must_use]
    pub fn error_points(label: impl Into<String>, points: impl IntoIterator<Item = ErrorPoint>) -> Self {
        Self::new(label, SeriesMarks::Points(points.into_iter().collect()))
    }

    /// The area between the two ends of a bracket.
    #[must_use]
    pub fn band(label: impl Into<String>, points: impl IntoIterator<Item = BandPoint>) -> Self {
        Self::new(label, SeriesMarks::Band(points.into_iter().collect()))
    }

    /// How the line is broken up.
    #[must_use]
    pub fn dash(mut self, dash: Dash) -> Self {
        self.dash = dash;
        self
    }

    /// Takes this colour of the palette, so that series which belong together look alike.
    #[must_use]
    pub fn color(mut self, index: usize) -> Self {
        self.color = Some(index);
        self
    }
}

/// A line across the plot at a value the reader compares with.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferenceLine {
    pub(crate) value: f64,
    pub(crate) label: String,
    pub(crate) vertical: bool,
}

impl ReferenceLine {
    /// A line at a value of the y axis.
    #[must_use]
    pub fn horizontal(value: f64, label: impl Into<String>) -> Self {
        Self { value, label: label.into(), vertical: false }
    }

    /// A line at a value of the x axis.
    #[must_use]
    pub fn vertical(value: f64, label: impl Into<String>) -> Self {
        Self { value, label: label.into(), vertical: true }
    }
}

/// Where the legend goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LegendPlace {
    /// In the emptiest corner if one is free of data, else above the plot; panels with equal legends share one.
    #[default]
    Auto,
    /// In the emptiest corner, even if data lies beneath.
    Corner,
    /// In rows above the plot.
    Above,
    /// Not drawn.
    Hidden,
}

/// One plot: axes, series and reference lines.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    pub(crate) references: Vec<ReferenceLine>,
    pub(crate) legend: LegendPlace,
}

impl Chart {
    /// An empty chart on linear axes.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            subtitle: String::new(),
            x: Axis::linear(""),
            y: Axis::linear(""),
            series: Vec::new(),
            references: Vec::new(),
            legend: LegendPlace::Auto,
        }
    }

    /// A line of explanation beneath the title.
    #[must_use]
    pub fn subtitle(mut self, subtitle: impl Into<String>) -> Self {
        self.subtitle = subtitle.into();
        self
    }

    /// The horizontal axis.
    #[must_use]
    pub fn x(mut self, axis: Axis) -> Self {
        self.x = axis;
        self
    }

    /// The vertical axis.
    #[must_use]
    pub fn y(mut self, axis: Axis) -> Self {
        self.y = axis;
        self
    }

    /// Adds a series.
    #[must_use]
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Adds bars of one label and colour of the palette.
    #[must_use]
    pub fn bars(self, label: impl Into<String>, color: usize, bars: impl IntoIterator<Item = Bar>) -> Self {
        let mut label = Some(label.into());
        bars.into_iter().fold(self, |chart, Bar { x, width, height }| {
            let side = |x: f64| BandPoint { x, lower: height.min(0.0), upper: height.max(0.0) };
            let bar = Series::band(
                label.take().unwrap_or_default(),
                [side(x - width / 2.0), side(x + width / 2.0)],
            );
            chart.series(bar.color(color))
        })
    }

    /// Adds a reference line.
    #[must_use]
    pub fn reference(mut self, reference: ReferenceLine) -> Self {
        self.references.push(reference);
        self
    }

    /// Where the legend goes.
    #[must_use]
    pub fn legend(mut self, place: LegendPlace) -> Self {
        self.legend = place;
        self
    }

    /// What a screen reader says about the chart.
    pub(crate) fn description(&self) -> String {
        let labels: Vec<&str> = self
            .series
            .iter()
            .map(|series| series.label.as_str())
            .filter(|label| !label.is_empty())
            .collect();
        let mut text = format!("Chart of {} against {}", self.y.label, self.x.label);
        if !self.title.is_empty() {
            text = format!("{}: {text}", self.title);
        }
        if !labels.is_empty() {
            text = format!("{text}, showing {}", labels.join("; "));
        }
        text + "."
    }
}
