//! The PDF writer: the same shapes as page operators, text as outlines of the embedded font.
//!
//! One page in light colours, without fonts, scripts or a date, so that equal figures give equal files.

use super::text::{TextPen, outline};
use super::{Fill, Graphic, GraphicPoint, GraphicShape, Rect, Stroke, Text, svg::halo_width};
use crate::{
    Picture, ReportError, Rgb, Theme,
    paint::{PAPER, Paint},
};
use std::fmt::Write as _;

/// Points of a page for each unit of a figure: 96 units are an inch, as on screens.
const POINTS: f64 = 0.75;
/// How far the handles of a quarter circle of radius 1 reach.
const HANDLE: f64 = 0.552_285;

pub(super) fn encode(graphic: &Graphic) -> Result<Vec<u8>, ReportError> {
    let mut page = PageContent::default();
    let (width, height) = (graphic.width * POINTS, graphic.height * POINTS);
    // From here on units are the figure's, with y downwards.
    page.line(&format!("{POINTS} 0 0 -{POINTS} 0 {} cm 1 J 1 j", number(height)));
    let sheet = Rect::new(0.0, 0.0, graphic.width, graphic.height);
    page.shape(&rounded(sheet, 0.0), Some(&Fill::solid(PAPER)), None);
    for shape in &graphic.shapes {
        page.draw(shape)?;
    }
    Ok(page.file(width, height))
}

/// The operators of a page, and what they refer to.
#[derive(Debug, Default)]
struct PageContent {
    operators: String,
    /// Opacities in percent, each a state that operators name.
    opacities: Vec<u8>,
    pictures: Vec<Picture>,
}

impl PageContent {
    fn line(&mut self, operators: &str) {
        self.operators.push_str(operators);
        self.operators.push('\n');
    }

    fn draw(&mut self, shape: &GraphicShape) -> Result<(), ReportError> {
        match shape {
            GraphicShape::Line { points, stroke } => self.shape(&polygon(points, false), None, Some(stroke)),
            GraphicShape::Polygon { points, fill, stroke } => {
                self.shape(&polygon(points, true), fill.as_ref(), stroke.as_ref());
            }
            GraphicShape::Rect { rect, radius, fill, stroke } => {
                self.shape(&rounded(*rect, *radius), fill.as_ref(), stroke.as_ref());
            }
            GraphicShape::Circle { center, radius, fill, stroke } => {
                let frame = Rect::new(center.0 - radius, center.1 - radius, 2.0 * radius, 2.0 * radius);
                self.shape(&rounded(frame, *radius), fill.as_ref(), stroke.as_ref());
            }
            GraphicShape::Photograph { rect, picture } => {
                let name = self.pictures.len();
                self.pictures.push(picture.clone());
                // A picture fills the unit square, whose second axis leads upwards.
                let [x, y, width, height] = [rect.x, rect.bottom(), rect.width, rect.height].map(number);
                self.line(&format!("q {width} 0 0 -{height} {x} {y} cm /P{name} Do Q"));
            }
            GraphicShape::Text(text) => {
                let path = letters(text)?;
                if let Some(halo) = text.halo {
                    self.shape(&path, None, Some(&Stroke::solid(halo, halo_width(text.size))));
                }
                self.shape(&path, Some(&Fill::solid(text.paint)), None);
            }
        }
        Ok(())
    }

    /// Fills and strokes a path; a shape too small to have one is left out.
    fn shape(&mut self, path: &str, fill: Option<&Fill>, stroke: Option<&Stroke>) {
        if path.is_empty() {
            return;
        }
        if let Some(fill) = fill {
            let state = self.state(fill.opacity);
            self.line(&format!("{state} {} rg {path}f", colour(fill.paint)));
        }
        if let Some(stroke) = stroke {
            let state = self.state(1.0);
            let dash = stroke.dash.map_or_else(
                || "[] 0 d 1 J".to_owned(),
                |(dash, gap)| format!("[{} {}] 0 d 0 J", number(dash), number(gap)),
            );
            let width = number(stroke.width);
            self.line(&format!("{state} {} RG {width} w {dash} {path}S", colour(stroke.paint)));
        }
    }

    /// The operator that sets an opacity.
    fn state(&mut self, opacity: f64) -> String {
        let percent = (opacity.clamp(0.0, 1.0) * 100.0).round() as u8;
        let place = self.opacities.iter().position(|known| *known == percent).unwrap_or_else(|| {
            self.opacities.push(percent);
            self.opacities.len() - 1
        });
        format!("/O{place} gs")
    }

    /// The whole file.
    fn file(&self, width: f64, height: f64) -> Vec<u8> {
        let state = |(place, percent): (usize, &u8)| {
            format!("/O{place} <</ca {}>> ", number(f64::from(*percent) / 100.0))
        };
        let states: String = self.opacities.iter().enumerate().map(state).collect();
        let first_picture = 5;
        let pictures: String = (0..self.pictures.len())
            .map(|place| format!("/P{place} {} 0 R ", first_picture + place))
            .collect();
        let mut objects: Vec<Vec<u8>> = vec![
            b"<</Type /Catalog /Pages 2 0 R>>".to_vec(),
            b"<</Type /Pages /Kids [3 0 R] /Count 1>>".to_vec(),
            format!(
                "<</Type /Page /Parent 2 0 R /MediaBox [0 0 {} {}] /Contents 4 0 R /Resources <</ExtGState <<{states}>> /XObject <<{pictures}>>>>>>",
                number(width),
                number(height)
            )
            .into_bytes(),
            stream("", self.operators.as_bytes()),
        ];
        objects.extend(self.pictures.iter().map(|picture| {
            let (width, height) = picture.size();
            let bytes: Vec<u8> =
                picture.pixels().iter().flat_map(|&Rgb(red, green, blue)| [red, green, blue]).collect();
            let head = format!(
                "/Type /XObject /Subtype /Image /Width {width} /Height {height} /ColorSpace /DeviceRGB /BitsPerComponent 8 "
            );
            stream(&head, &bytes)
        }));
        let mut out = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n".to_vec();
        let mut places = Vec::new();
        for (index, object) in objects.iter().enumerate() {
            places.push(out.len());
            out.extend_from_slice(format!("{} 0 obj\n", index + 1).as_bytes());
            out.extend_from_slice(object);
            out.extend_from_slice(b"\nendobj\n");
        }
        let table = out.len();
        let count = objects.len() + 1;
        let mut tail = format!("xref\n0 {count}\n0000000000 65535 f \n");
        places.iter().for_each(|place| tail.push_str(&format!("{place:010} 00000 n \n")));
        tail.push_str(&format!("trailer\n<</Size {count} /Root 1 0 R>>\nstartxref\n{table}\n%%EOF\n"));
        out.extend_from_slice(tail.as_bytes());
        out
    }
}

/// An object that holds bytes.
fn stream(head: &str, bytes: &[u8]) -> Vec<u8> {
    let mut out = format!("<<{head}/Length {}>>\nstream\n", bytes.len()).into_bytes();
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\nendstream");
    out
}

fn colour(paint: Paint) -> String {
    let Rgb(red, green, blue) = paint.under(Theme::Light);
    [red, green, blue].map(|value| number(f64::from(value) / 255.0)).join(" ")
}

/// A number with up to three decimals, as the format has them: never an exponent.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn polygon(points: &[GraphicPoint], closed: bool) -> String {
    let mut pen = OperatorPen::default();
    for (index, point) in points.iter().enumerate() {
        if index == 0 { pen.move_to(*point) } else { pen.line_to(*point) }
    }
    if closed && !points.is_empty() {
        pen.close();
    }
    pen.0
}

fn rounded(rect: Rect, radius: f64) -> String {
    let radius = radius.min(rect.width / 2.0).min(rect.height / 2.0).max(0.0);
    let (left, top, right, bottom) = (rect.x, rect.y, rect.right(), rect.bottom());
    if radius == 0.0 {
        return polygon(&[(left, top), (right, top), (right, bottom), (left, bottom)], true);
    }
    let near = radius * (1.0 - HANDLE);
    let mut pen = OperatorPen::default();
    pen.move_to((left + radius, top));
    pen.line_to((right - radius, top));
    pen.cubic_to((right - near, top), (right, top + near), (right, top + radius));
    pen.line_to((right, bottom - radius));
    pen.cubic_to((right, bottom - near), (right - near, bottom), (right - radius, bottom));
    pen.line_to((left + radius, bottom));
    pen.cubic_to((left + near, bottom), (left, bottom - near), (left, bottom - radius));
    pen.line_to((left, top + radius));
    pen.cubic_to((left, top + near), (left + near, top), (left + radius, top));
    pen.close();
    pen.0
}

fn letters(text: &Text) -> Result<String, ReportError> {
    let mut pen = OperatorPen::default();
    outline(text, &mut pen)?;
    Ok(pen.0)
}

/// Writes a path as operators.
#[derive(Debug, Default)]
struct OperatorPen(String);

impl OperatorPen {
    fn write(&mut self, points: &[GraphicPoint], operator: char) {
        for (x, y) in points {
            let _ = write!(self.0, "{} {} ", number(*x), number(*y));
        }
        let _ = write!(self.0, "{operator} ");
    }
}

impl TextPen for OperatorPen {
    fn move_to(&mut self, at: GraphicPoint) {
        self.write(&[at], 'm');
    }

    fn line_to(&mut self, to: GraphicPoint) {
        self.write(&[to], 'l');
    }

    fn cubic_to(&mut self, first: GraphicPoint, second: GraphicPoint, to: GraphicPoint) {
        self.write(&[first, second, to], 'c');
    }

    fn close(&mut self) {
        self.0.push_str("h ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paint::{INK, PALETTE};

    /// The table at the end of a file must lead to its objects, or readers refuse or repair it.
    #[test]
    fn the_table_leads_to_every_object() {
        let mut graphic = Graphic::new(40.0, 30.0, "t", "d");
        graphic.text(Text::new((5.0, 20.0), "\u{3b5} (1)", 12.0, INK).halo(PAPER));
        graphic.circle(
            (10.0, 10.0),
            4.0,
            Some(Fill::tint(PALETTE[0], 0.25)),
            Some(Stroke::dashed(INK, 1.0, 2.0, 3.0)),
        );
        let picture = Picture::new(1, 2, vec![Rgb(1, 2, 3), Rgb(4, 5, 6)]).expect("two pixels");
        graphic.photograph(Rect::new(20.0, 5.0, 10.0, 20.0), picture);
        let bytes = graphic.to_pdf().expect("drawn");
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.starts_with("%PDF-1.4") && text.ends_with("%%EOF\n"));
        // 40 x 30 units at 96 to the inch are 30 x 22.5 points at 72.
        assert!(text.contains("/MediaBox [0 0 30 22.5]"));
        let find = |part: &[u8]| bytes.windows(part.len()).rposition(|window| window == part).expect("there");
        let table = String::from_utf8_lossy(&bytes[find(b"xref\n0 ")..]).into_owned();
        let places: Vec<usize> =
            table.lines().filter_map(|line| line.strip_suffix(" 00000 n ")?.parse().ok()).collect();
        assert_eq!(places.len(), 5, "catalog, pages, page, content, photograph");
        for (index, place) in places.iter().enumerate() {
            assert!(bytes[*place..].starts_with(format!("{} 0 obj\n", index + 1).as_bytes()));
        }
        assert!(!text.contains("NaN") && !text.contains("inf"));
    }
}
