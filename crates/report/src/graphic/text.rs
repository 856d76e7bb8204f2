//! Texts as outlines of the embedded font.

use super::{GraphicPoint, Text};
use crate::{
    ReportError,
    font::{advance, face},
};
use ttf_parser::OutlineBuilder;

/// Draws the outlines of letters, in the figure's units.
pub(super) trait TextPen {
    /// Begins an outline.
    fn move_to(&mut self, at: GraphicPoint);
    /// Draws a straight line.
    fn line_to(&mut self, to: GraphicPoint);
    /// Draws a cubic curve.
    fn cubic_to(&mut self, first: GraphicPoint, second: GraphicPoint, to: GraphicPoint);
    /// Ends an outline where it began.
    fn close(&mut self);
}

/// Draws the outlines of a line of text at its place in the figure.
pub(super) fn outline(text: &Text, pen: &mut dyn TextPen) -> Result<(), ReportError> {
    let face = face(text.weight).ok_or(ReportError::Font)?;
    let scale = text.size / f64::from(face.units_per_em());
    let mut placing =
        PlacingPen { pen, scale, along: -text.offset(), at: text.at, upwards: text.upwards, last: text.at };
    for character in text.text.chars() {
        face.outline_glyph(face.glyph_index(character).unwrap_or_default(), &mut placing);
        placing.along += advance(character, text.weight) * text.size;
    }
    Ok(())
}

/// Moves glyph outlines (y upwards, font units) to where they belong in the figure.
struct PlacingPen<'a> {
    pen: &'a mut dyn TextPen,
    scale: f64,
    along: f64,
    at: GraphicPoint,
    upwards: bool,
    last: GraphicPoint,
}

impl PlacingPen<'_> {
    fn place(&self, x: f32, y: f32) -> GraphicPoint {
        let (along, above) = (self.along + f64::from(x) * self.scale, f64::from(y) * self.scale);
        match self.upwards {
            true => (self.at.0 - above, self.at.1 - along),
            false => (self.at.0 + along, self.at.1 - above),
        }
    }
}

impl OutlineBuilder for PlacingPen<'_> {
    fn move_to(&mut self, x: f32, y: f32) {
        self.last = self.place(x, y);
        self.pen.move_to(self.last);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.last = self.place(x, y);
        self.pen.line_to(self.last);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let (control, to) = (self.place(x1, y1), self.place(x, y));
        // A quadratic curve is the cubic one whose handles lie two thirds of the way to its control point.
        let handle = |end: GraphicPoint| {
            (end.0 + 2.0 / 3.0 * (control.0 - end.0), end.1 + 2.0 / 3.0 * (control.1 - end.1))
        };
        self.pen.cubic_to(handle(self.last), handle(to), to);
        self.last = to;
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let to = self.place(x, y);
        self.pen.cubic_to(self.place(x1, y1), self.place(x2, y2), to);
        self.last = to;
    }

    fn close(&mut self) {
        self.pen.close();
    }
}
