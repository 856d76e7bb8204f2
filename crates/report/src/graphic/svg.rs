//! The SVG writer.
//!
//! Every shape carries its light colour as an attribute and a class that refers to a style variable, so that
//! viewers without style variables still show the light version. There are no element ids: several figures
//! can stand in one HTML page.

use super::{Anchor, Fill, Graphic, GraphicPoint, GraphicShape, Rect, Stroke, Text, Weight};
use crate::{
    Theme,
    escape::escape,
    paint::{PAPER, Paint},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use std::fmt::Write as _;

/// Fonts that look like the one the layout was measured with, and are no wider.
const FONT_STACK: &str = "Inter,-apple-system,'Segoe UI',Roboto,'Helvetica Neue','Noto Sans','Liberation Sans',Arial,system-ui,sans-serif";

pub(super) fn write(graphic: &Graphic, theme: Theme) -> String {
    let mut out = String::new();
    let (width, height) = (number(graphic.width), number(graphic.height));
    // Writing into a String cannot fail, so the results of write! are dropped throughout.
    let _ = write!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" class="dapple-figure" font-family="{FONT_STACK}">"#
    );
    let _ = write!(
        out,
        "\n<title>{}</title>\n<desc>{}</desc>\n",
        escape(&graphic.title),
        escape(&graphic.description)
    );
    out.push_str(&style(graphic, theme));
    let sheet = GraphicShape::Rect {
        rect: Rect::new(0.0, 0.0, graphic.width, graphic.height),
        radius: 0.0,
        fill: Some(Fill::solid(PAPER)),
        stroke: None,
    };
    for shape in std::iter::once(&sheet).chain(&graphic.shapes) {
        write_shape(&mut out, shape, theme);
        out.push('\n');
    }
    out.push_str("</svg>\n");
    out
}

/// The colour variables in use, their dark values, and the classes that apply them.
fn style(graphic: &Graphic, theme: Theme) -> String {
    let paints = paints_of(graphic);
    let variables = |theme: Theme| -> String {
        paints.iter().map(|paint| format!("--{}:{};", paint.name, paint.under(theme).hex())).collect()
    };
    let mut out = format!("<style>\n.dapple-figure{{{}}}\n", variables(theme));
    if theme == Theme::Auto {
        // Restricted to screens: paper is white.
        let _ = writeln!(
            out,
            "@media screen and (prefers-color-scheme:dark){{.dapple-figure{{{}}}}}",
            variables(Theme::Dark)
        );
    }
    for Paint { name, .. } in &paints {
        let _ = writeln!(
            out,
            ".dapple-figure .f-{name}{{fill:var(--{name})}}.dapple-figure .s-{name}{{stroke:var(--{name})}}"
        );
    }
    out.push_str("</style>\n");
    out
}

/// Every paint of the graphic once, in order of appearance.
fn paints_of(graphic: &Graphic) -> Vec<Paint> {
    let mut paints = vec![PAPER];
    let mut add = |paint: Paint| {
        if !paints.contains(&paint) {
            paints.push(paint);
        }
    };
    for shape in &graphic.shapes {
        match shape {
            GraphicShape::Line { stroke, .. } => add(stroke.paint),
            GraphicShape::Polygon { fill, stroke, .. }
            | GraphicShape::Rect { fill, stroke, .. }
            | GraphicShape::Circle { fill, stroke, .. } => {
                fill.iter().for_each(|fill| add(fill.paint));
                stroke.iter().for_each(|stroke| add(stroke.paint));
            }
            GraphicShape::Photograph { .. } => {}
            GraphicShape::Text(text) => {
                add(text.paint);
                text.halo.iter().for_each(|halo| add(*halo));
            }
        }
    }
    paints
}

fn write_shape(out: &mut String, shape: &GraphicShape, theme: Theme) {
    match shape {
        GraphicShape::Line { points, stroke } => {
            let _ = write!(
                out,
                r#"<polyline points="{}" {}/>"#,
                corners(points),
                look(None, Some(stroke), theme)
            );
        }
        GraphicShape::Polygon { points, fill, stroke } => {
            let look = look(fill.as_ref(), stroke.as_ref(), theme);
            let _ = write!(out, r#"<polygon points="{}" {look}/>"#, corners(points));
        }
        GraphicShape::Rect { rect, radius, fill, stroke } => {
            let [x, y, width, height] = [rect.x, rect.y, rect.width, rect.height].map(number);
            let _ = write!(out, r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" "#);
            if *radius > 0.0 {
                let _ = write!(out, r#"rx="{}" "#, number(*radius));
            }
            let _ = write!(out, "{}/>", look(fill.as_ref(), stroke.as_ref(), theme));
        }
        GraphicShape::Circle { center, radius, fill, stroke } => {
            let [x, y, radius] = [center.0, center.1, *radius].map(number);
            let look = look(fill.as_ref(), stroke.as_ref(), theme);
            let _ = write!(out, r#"<circle cx="{x}" cy="{y}" r="{radius}" {look}/>"#);
        }
        GraphicShape::Photograph { rect, picture } => {
            let [x, y, width, height] = [rect.x, rect.y, rect.width, rect.height].map(number);
            // What the encoder refuses is a picture without pixels, which there is none of.
            if let Ok(bytes) = picture.to_png() {
                let data = STANDARD.encode(bytes);
                let _ = write!(
                    out,
                    r#"<image x="{x}" y="{y}" width="{width}" height="{height}" preserveAspectRatio="none" href="data:image/png;base64,{data}"/>"#
                );
            }
        }
        GraphicShape::Text(text) => write_text(out, text, theme),
    }
}

fn write_text(out: &mut String, text: &Text, theme: Theme) {
    let [x, y, size] = [text.at.0, text.at.1, text.size].map(number);
    let _ = write!(out, r#"<text x="{x}" y="{y}" font-size="{size}" "#);
    match text.anchor {
        Anchor::Start => {}
        Anchor::Middle => out.push_str(r#"text-anchor="middle" "#),
        Anchor::End => out.push_str(r#"text-anchor="end" "#),
    }
    if text.weight == Weight::Semibold {
        out.push_str(r#"font-weight="600" "#);
    }
    if text.upwards {
        let _ = write!(out, r#"transform="rotate(-90 {x} {y})" "#);
    }
    let halo = text.halo.map(|paint| Stroke::solid(paint, halo_width(text.size)));
    if halo.is_some() {
        out.push_str(r#"paint-order="stroke" "#);
    }
    let look = look(Some(&Fill::solid(text.paint)), halo.as_ref(), theme);
    let _ = write!(out, "{look}>{}</text>", escape(&text.text));
}

/// Width of the outline around a text, half of which lies outside the letters.
pub(super) fn halo_width(size: f64) -> f64 {
    size * 0.35
}

/// Class and attributes for a fill and a stroke.
fn look(fill: Option<&Fill>, stroke: Option<&Stroke>, theme: Theme) -> String {
    let mut classes = Vec::new();
    let mut attributes = String::new();
    match fill {
        Some(fill) => {
            classes.push(format!("f-{}", fill.paint.name));
            let _ = write!(attributes, r#" fill="{}""#, fill.paint.under(theme).hex());
            if fill.opacity < 1.0 {
                let _ = write!(attributes, r#" fill-opacity="{}""#, number(fill.opacity));
            }
        }
        None => attributes.push_str(r#" fill="none""#),
    }
    if let Some(stroke) = stroke {
        classes.push(format!("s-{}", stroke.paint.name));
        let _ = write!(
            attributes,
            r#" stroke="{}" stroke-width="{}" stroke-linejoin="round""#,
            stroke.paint.under(theme).hex(),
            number(stroke.width)
        );
        if let Some((dash, gap)) = stroke.dash {
            let _ = write!(attributes, r#" stroke-dasharray="{} {}""#, number(dash), number(gap));
        } else {
            attributes.push_str(r#" stroke-linecap="round""#);
        }
    }
    format!(r#"class="{}"{attributes}"#, classes.join(" "))
}

fn corners(points: &[GraphicPoint]) -> String {
    points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect::<Vec<_>>().join(" ")
}

/// At most two decimals, no trailing zeros, never `-0`: a hundredth of a unit is below what can be seen.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paint::INK;

    #[test]
    fn numbers_are_short_and_plain() {
        assert_eq!(number(1.0), "1");
        assert_eq!(number(-0.001), "0");
        assert_eq!(number(12.345), "12.35");
        assert_eq!(number(100.0), "100");
    }

    #[test]
    fn only_the_automatic_theme_asks_the_reader() {
        let mut graphic = Graphic::new(100.0, 50.0, "a <title>", "b & c");
        graphic.text(Text::new((10.0, 20.0), "1 < 2 & \"3\"", 12.0, INK).halo(PAPER));
        let auto = graphic.to_svg(Theme::Auto);
        assert!(auto.contains("prefers-color-scheme:dark"));
        assert!(auto.contains("a &lt;title&gt;") && auto.contains("1 &lt; 2 &amp; &quot;3&quot;"));
        let dark = graphic.to_svg(Theme::Dark);
        assert!(!dark.contains("prefers-color-scheme"));
        assert!(dark.contains(&INK.dark.hex()) && !dark.contains(&INK.light.hex()));
    }
}
