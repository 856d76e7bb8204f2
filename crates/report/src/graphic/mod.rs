//! A figure as a flat list of shapes, drawn alike by the SVG and the PNG writer.

mod pdf;
mod png;
mod svg;
mod text;

pub use crate::font::Weight;
use crate::{Picture, ReportError, Theme, escape::clean, font, paint::Paint};

/// A point in the figure's units, y downwards.
pub type GraphicPoint = (f64, f64);

/// An upright rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rect {
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// Width, not negative.
    pub width: f64,
    /// Height, not negative.
    pub height: f64,
}

impl Rect {
    /// A rectangle from its left upper corner and its size.
    #[must_use]
    pub const fn new(x: f64, y: f64, width: f64, height: f64) -> Self {
        Self { x, y, width, height }
    }

    /// Right edge.
    #[must_use]
    pub fn right(&self) -> f64 {
        self.x + self.width
    }

    /// Lower edge.
    #[must_use]
    pub fn bottom(&self) -> f64 {
        self.y + self.height
    }

    /// The rectangle with a border of this width around it.
    #[must_use]
    pub fn grown(&self, border: f64) -> Self {
        Self::new(self.x - border, self.y - border, self.width + 2.0 * border, self.height + 2.0 * border)
    }

    /// Whether two rectangles share an inner point.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.x < other.right() && other.x < self.right() && self.y < other.bottom() && other.y < self.bottom()
    }

    /// Whether a point lies inside or on the edge.
    #[must_use]
    pub fn contains(&self, (x, y): GraphicPoint) -> bool {
        x >= self.x && x <= self.right() && y >= self.y && y <= self.bottom()
    }
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stroke {
    /// Colour role.
    pub paint: Paint,
    /// Width of the line.
    pub width: f64,
    /// Lengths of a dash and a gap, or none for a solid line.
    pub dash: Option<(f64, f64)>,
}

impl Stroke {
    /// A solid line.
    #[must_use]
    pub const fn solid(paint: Paint, width: f64) -> Self {
        Self { paint, width, dash: None }
    }

    /// A dashed line.
    #[must_use]
    pub const fn dashed(paint: Paint, width: f64, dash: f64, gap: f64) -> Self {
        Self { paint, width, dash: Some((dash, gap)) }
    }
}

/// How an area is filled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fill {
    /// Colour role.
    pub paint: Paint,
    /// From 0 (invisible) to 1 (covering).
    pub opacity: f64,
}

impl Fill {
    /// A covering fill.
    #[must_use]
    pub const fn solid(paint: Paint) -> Self {
        Self { paint, opacity: 1.0 }
    }

    /// A see-through fill.
    #[must_use]
    pub const fn tint(paint: Paint, opacity: f64) -> Self {
        Self { paint, opacity }
    }
}

/// Which end of a text its position names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// The left end.
    Start,
    /// The middle.
    Middle,
    /// The right end.
    End,
}

/// One line of text.
#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    /// Position of the anchor on the baseline.
    pub at: GraphicPoint,
    /// What is written; control characters have been removed.
    pub text: String,
    /// Font size.
    pub size: f64,
    /// Font weight.
    pub weight: Weight,
    /// Which end `at` names.
    pub anchor: Anchor,
    /// Colour role.
    pub paint: Paint,
    /// Whether it is turned to read from bottom to top.
    pub upwards: bool,
    /// The colour of its outline, which keeps lines beneath from disturbing.
    pub halo: Option<Paint>,
}

impl Text {
    /// A line of text in the regular weight, starting at `at`.
    #[must_use]
    pub fn new(at: GraphicPoint, text: &str, size: f64, paint: Paint) -> Self {
        Self {
            at,
            text: clean(text),
            size,
            weight: Weight::Regular,
            anchor: Anchor::Start,
            paint,
            upwards: false,
            halo: None,
        }
    }

    /// This text with another anchor.
    #[must_use]
    pub fn anchored(mut self, anchor: Anchor) -> Self {
        self.anchor = anchor;
        self
    }

    /// This text in the heavier weight.
    #[must_use]
    pub fn semibold(mut self) -> Self {
        self.weight = Weight::Semibold;
        self
    }

    /// This text, reading from bottom to top.
    #[must_use]
    pub fn upwards(mut self) -> Self {
        self.upwards = true;
        self
    }

    /// This text with an outline in the colour of what lies behind it.
    #[must_use]
    pub fn halo(mut self, paint: Paint) -> Self {
        self.halo = Some(paint);
        self
    }

    /// Length of the text along its baseline.
    #[must_use]
    pub fn length(&self) -> f64 {
        font::width(&self.text, self.size, self.weight)
    }

    /// How far before `at` the text starts, along its baseline.
    pub(crate) fn offset(&self) -> f64 {
        match self.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => self.length() / 2.0,
            Anchor::End => self.length(),
        }
    }

    /// The box that the text fills.
    #[must_use]
    pub fn bounds(&self) -> Rect {
        let (x, y) = self.at;
        let (length, offset) = (self.length(), self.offset());
        let (ascent, height) = (self.size * 0.8, self.size);
        if self.upwards {
            Rect::new(x - ascent, y + offset - length, height, length)
        } else {
            Rect::new(x - offset, y - ascent, length, height)
        }
    }
}

/// One thing that is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum GraphicShape {
    /// Connected straight lines.
    Line {
        /// The corners.
        points: Vec<GraphicPoint>,
        /// How they are drawn.
        stroke: Stroke,
    },
    /// A closed area.
    Polygon {
        /// The corners.
        points: Vec<GraphicPoint>,
        /// Its inside.
        fill: Option<Fill>,
        /// Its edge.
        stroke: Option<Stroke>,
    },
    /// A rectangle, possibly with round corners.
    Rect {
        /// Where it is.
        rect: Rect,
        /// Radius of the corners.
        radius: f64,
        /// Its inside.
        fill: Option<Fill>,
        /// Its edge.
        stroke: Option<Stroke>,
    },
    /// A circle.
    Circle {
        /// Its middle.
        center: GraphicPoint,
        /// Its radius.
        radius: f64,
        /// Its inside.
        fill: Option<Fill>,
        /// Its edge.
        stroke: Option<Stroke>,
    },
    /// A photograph, stretched over a rectangle.
    Photograph {
        /// Where it is.
        rect: Rect,
        /// Its pixels.
        picture: Picture,
    },
    /// A line of text.
    Text(Text),
}

/// Shapes on a sheet, with the words a screen reader speaks.
#[derive(Debug, Clone, PartialEq)]
pub struct Graphic {
    /// Width of the sheet.
    pub width: f64,
    /// Height of the sheet.
    pub height: f64,
    /// Short name of the picture.
    pub title: String,
    /// What the picture shows, for readers who cannot see it.
    pub description: String,
    /// What is drawn, from back to front.
    pub shapes: Vec<GraphicShape>,
}

impl Graphic {
    /// An empty sheet.
    #[must_use]
    pub fn new(width: f64, height: f64, title: &str, description: &str) -> Self {
        Self {
            width,
            height,
            title: title.to_owned(),
            description: description.to_owned(),
            shapes: Vec::new(),
        }
    }

    /// Draws connected lines.
    pub fn line(&mut self, points: Vec<GraphicPoint>, stroke: Stroke) {
        self.shapes.push(GraphicShape::Line { points, stroke });
    }

    /// Draws a filled polygon.
    pub fn polygon(&mut self, points: Vec<GraphicPoint>, fill: Fill) {
        self.shapes.push(GraphicShape::Polygon { points, fill: Some(fill), stroke: None });
    }

    /// Draws a rectangle.
    pub fn rect(&mut self, rect: Rect, radius: f64, fill: Option<Fill>, stroke: Option<Stroke>) {
        self.shapes.push(GraphicShape::Rect { rect, radius, fill, stroke });
    }

    /// Draws a circle.
    pub fn circle(&mut self, center: GraphicPoint, radius: f64, fill: Option<Fill>, stroke: Option<Stroke>) {
        self.shapes.push(GraphicShape::Circle { center, radius, fill, stroke });
    }

    /// Lays a photograph over a rectangle.
    pub fn photograph(&mut self, rect: Rect, picture: Picture) {
        self.shapes.push(GraphicShape::Photograph { rect, picture });
    }

    /// Writes a line of text; an empty one is left out.
    pub fn text(&mut self, text: Text) {
        if !text.text.trim().is_empty() {
            self.shapes.push(GraphicShape::Text(text));
        }
    }

    /// The graphic as an SVG document, which may also stand inside an HTML page.
    #[must_use]
    pub fn to_svg(&self, theme: Theme) -> String {
        svg::write(self, theme)
    }

    /// The graphic as a PDF file of one page in light colours. Its texts are outlines, so that it needs no fonts.
    ///
    /// # Errors
    /// A build whose embedded font does not parse.
    pub fn to_pdf(&self) -> Result<Vec<u8>, ReportError> {
        pdf::encode(self)
    }

    /// The graphic as a PNG file of `scale` pixels a unit.
    ///
    /// # Errors
    /// When the picture would be larger than 16384 pixels a side or the encoder fails.
    pub fn to_png(&self, theme: Theme, scale: f64) -> Result<Vec<u8>, ReportError> {
        png::encode(self, theme, scale)
    }
}
