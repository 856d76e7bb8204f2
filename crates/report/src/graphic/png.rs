//! The PNG writer: the same shapes through a software rasteriser, text as outlines of the embedded font.

use super::text::{TextPen, outline};
use super::{Fill, Graphic, GraphicPoint, GraphicShape, Rect, Stroke, Text, svg::halo_width};
use crate::{
    Picture, ReportError, Rgb, Theme,
    paint::{PAPER, Paint},
};
use tiny_skia::{
    FillRule, FilterQuality, LineCap, LineJoin, Paint as Ink, Path, PathBuilder, Pixmap, PixmapPaint,
    Stroke as Pen, StrokeDash, Transform,
};

/// Largest side of a picture: at four bytes a pixel a square one needs a gigabyte, more is a mistake.
const LIMIT: u64 = 16_384;

pub(super) fn encode(graphic: &Graphic, theme: Theme, scale: f64) -> Result<Vec<u8>, ReportError> {
    let pixels = |length: f64| (length * scale).round().max(0.0) as u64;
    let (width, height) = (pixels(graphic.width), pixels(graphic.height));
    let too_large = ReportError::PixelSize { width, height, limit: LIMIT };
    if width > LIMIT || height > LIMIT {
        return Err(too_large);
    }
    let (Ok(columns), Ok(rows)) = (u32::try_from(width), u32::try_from(height)) else {
        return Err(too_large);
    };
    let mut sheet = Sheet {
        pixels: Pixmap::new(columns, rows).ok_or(too_large)?,
        theme,
        transform: Transform::from_scale(scale as f32, scale as f32),
    };
    let paper = PAPER.under(theme);
    sheet.pixels.fill(tiny_skia::Color::from_rgba8(paper.0, paper.1, paper.2, 255));
    for shape in &graphic.shapes {
        sheet.draw(shape)?;
    }
    sheet.pixels.encode_png().map_err(|error| ReportError::Encode(error.to_string()))
}

struct Sheet {
    pixels: Pixmap,
    theme: Theme,
    transform: Transform,
}

impl Sheet {
    fn draw(&mut self, shape: &GraphicShape) -> Result<(), ReportError> {
        match shape {
            GraphicShape::Line { points, stroke } => {
                self.outline(&polygon(points, false), None, Some(stroke))
            }
            GraphicShape::Polygon { points, fill, stroke } => {
                self.outline(&polygon(points, true), fill.as_ref(), stroke.as_ref());
            }
            GraphicShape::Rect { rect, radius, fill, stroke } => {
                self.outline(&rounded(*rect, *radius), fill.as_ref(), stroke.as_ref());
            }
            GraphicShape::Circle { center, radius, fill, stroke } => {
                let path = PathBuilder::from_circle(center.0 as f32, center.1 as f32, *radius as f32);
                self.outline(&path, fill.as_ref(), stroke.as_ref());
            }
            GraphicShape::Photograph { rect, picture } => self.lay(*rect, picture)?,
            GraphicShape::Text(text) => {
                let path = glyphs(text)?;
                if let Some(halo) = text.halo {
                    self.outline(&path, None, Some(&Stroke::solid(halo, halo_width(text.size))));
                }
                self.outline(&path, Some(&Fill::solid(text.paint)), None);
            }
        }
        Ok(())
    }

    /// Stretches a photograph over a rectangle.
    fn lay(&mut self, rect: Rect, picture: &Picture) -> Result<(), ReportError> {
        let (width, height) = picture.size();
        let bytes =
            picture.pixels().iter().flat_map(|&Rgb(red, green, blue)| [red, green, blue, 255]).collect();
        let size = tiny_skia::IntSize::from_wh(width, height);
        let pixels = size.and_then(|size| Pixmap::from_vec(bytes, size));
        let found = picture.pixels().len();
        let pixels = pixels.ok_or(ReportError::Pixels { width, height, found })?;
        let stretched = Transform::from_scale(
            (rect.width / f64::from(width)) as f32,
            (rect.height / f64::from(height)) as f32,
        );
        let placed = stretched.post_translate(rect.x as f32, rect.y as f32).post_concat(self.transform);
        let paint = PixmapPaint { quality: FilterQuality::Bilinear, ..PixmapPaint::default() };
        self.pixels.draw_pixmap(0, 0, pixels.as_ref(), &paint, placed, None);
        Ok(())
    }

    /// Draws a path; a shape too small to have one is left out.
    fn outline(&mut self, path: &Option<Path>, fill: Option<&Fill>, stroke: Option<&Stroke>) {
        let Some(path) = path else { return };
        if let Some(fill) = fill {
            let ink = self.ink(fill.paint, fill.opacity);
            self.pixels.fill_path(path, &ink, FillRule::Winding, self.transform, None);
        }
        if let Some(stroke) = stroke {
            let ink = self.ink(stroke.paint, 1.0);
            let dash =
                stroke.dash.and_then(|(dash, gap)| StrokeDash::new(vec![dash as f32, gap as f32], 0.0));
            let pen = Pen {
                width: stroke.width as f32,
                line_cap: if dash.is_some() { LineCap::Butt } else { LineCap::Round },
                line_join: LineJoin::Round,
                dash,
                ..Pen::default()
            };
            self.pixels.stroke_path(path, &ink, &pen, self.transform, None);
        }
    }

    fn ink(&self, paint: Paint, opacity: f64) -> Ink<'static> {
        let color = paint.under(self.theme);
        let mut ink = Ink { anti_alias: true, ..Ink::default() };
        ink.set_color_rgba8(color.0, color.1, color.2, (opacity.clamp(0.0, 1.0) * 255.0).round() as u8);
        ink
    }
}

fn polygon(points: &[GraphicPoint], closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (index, (x, y)) in points.iter().enumerate() {
        let (x, y) = (*x as f32, *y as f32);
        if index == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
    }
    if closed {
        path.close();
    }
    path.finish()
}

fn rounded(rect: Rect, radius: f64) -> Option<Path> {
    let radius = radius.min(rect.width / 2.0).min(rect.height / 2.0).max(0.0) as f32;
    let [left, top, right, bottom] = [rect.x, rect.y, rect.right(), rect.bottom()].map(|value| value as f32);
    // A quarter circle is nearly a cubic curve whose handles are 0.5523 of the radius long.
    let handle = radius * (1.0 - 0.552_285);
    let mut path = PathBuilder::new();
    path.move_to(left + radius, top);
    path.line_to(right - radius, top);
    path.cubic_to(right - handle, top, right, top + handle, right, top + radius);
    path.line_to(right, bottom - radius);
    path.cubic_to(right, bottom - handle, right - handle, bottom, right - radius, bottom);
    path.line_to(left + radius, bottom);
    path.cubic_to(left + handle, bottom, left, bottom - handle, left, bottom - radius);
    path.line_to(left, top + radius);
    path.cubic_to(left, top + handle, left + handle, top, left + radius, top);
    path.close();
    path.finish()
}

/// The outlines of a line of text at its place in the figure.
fn glyphs(text: &Text) -> Result<Option<Path>, ReportError> {
    let mut pen = PathPen(PathBuilder::new());
    outline(text, &mut pen)?;
    Ok(pen.0.finish())
}

struct PathPen(PathBuilder);

impl TextPen for PathPen {
    fn move_to(&mut self, at: GraphicPoint) {
        self.0.move_to(at.0 as f32, at.1 as f32);
    }

    fn line_to(&mut self, to: GraphicPoint) {
        self.0.line_to(to.0 as f32, to.1 as f32);
    }

    fn cubic_to(&mut self, first: GraphicPoint, second: GraphicPoint, to: GraphicPoint) {
        let [(a, b), (c, d), (x, y)] = [first, second, to].map(|(x, y)| (x as f32, y as f32));
        self.0.cubic_to(a, b, c, d, x, y);
    }

    fn close(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paint::INK;

    #[test]
    fn size_follows_the_scale_and_has_a_limit() {
        let mut graphic = Graphic::new(40.0, 30.0, "t", "d");
        graphic.text(Text::new((5.0, 20.0), "ε", 12.0, INK).halo(PAPER));
        let bytes = graphic.to_png(Theme::Dark, 2.0).expect("drawn");
        // The IHDR chunk holds width and height as big-endian words at bytes 16 and 20.
        assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
        assert_eq!(bytes[16..24], [0, 0, 0, 80, 0, 0, 0, 60]);
        for scale in [1e6, f64::INFINITY, f64::NAN, 0.0, -1.0] {
            assert!(
                matches!(graphic.to_png(Theme::Light, scale), Err(ReportError::PixelSize { .. })),
                "{scale}"
            );
        }
    }
}
