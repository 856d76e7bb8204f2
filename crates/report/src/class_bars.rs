//! How well each class was found, as lying bars with names.

use crate::{
    font::{Weight, shorten},
    graphic::{Anchor, Fill, Graphic, Rect, Text},
    paint::{GRID, INK, MUTED, PALETTE},
};

const WIDTH: f64 = 460.0;
const MARGIN: f64 = 16.0;
const ROW: f64 = 21.0;
const BAR: f64 = 11.0;
const SIZE: f64 = 12.0;
/// The longest name that is written in full.
const NAME: f64 = 130.0;
/// Room for a value behind its bar.
const VALUE: f64 = 44.0;

/// A bar for each class, whose value lies between 0 and 1; a class without a value has none.
#[must_use]
pub fn class_bars(measure: &str, names: &[String], values: &[Option<f64>]) -> Graphic {
    let label = |name: &str| Text::new((0.0, 0.0), &shorten(name, SIZE, Weight::Regular, NAME), SIZE, INK);
    let longest = names.iter().map(|name| label(name).length()).fold(0.0, f64::max);
    let left = MARGIN + longest + 10.0;
    let length = WIDTH - MARGIN - VALUE - left;
    let title = format!("{measure} of each class");
    let told = names.iter().zip(values).filter_map(|(name, value)| Some(format!("{name} {:.2}", (*value)?)));
    let description = format!("{title}: {}.", told.collect::<Vec<_>>().join(", "));
    let head = MARGIN + 26.0;
    let height = head + names.len() as f64 * ROW + MARGIN;
    let mut graphic = Graphic::new(WIDTH, height, &title, &description);
    graphic.text(Text::new((MARGIN, MARGIN + 12.0), &title, 14.0, INK).semibold());
    for (index, (name, value)) in names.iter().zip(values).enumerate() {
        let middle = head + (index as f64 + 0.5) * ROW;
        graphic.text(Text { at: (left - 8.0, middle + SIZE * 0.35), ..label(name).anchored(Anchor::End) });
        let frame = |length: f64| Rect::new(left, middle - BAR / 2.0, length, BAR);
        graphic.rect(frame(length), 2.0, Some(Fill::solid(GRID)), None);
        let words = match value {
            Some(value) => {
                let filled = length * value.clamp(0.0, 1.0);
                if filled > 0.0 {
                    graphic.rect(frame(filled), 2.0, Some(Fill::solid(PALETTE[0])), None);
                }
                format!("{value:.2}")
            }
            None => "none".to_owned(),
        };
        let at = (WIDTH - MARGIN, middle + SIZE * 0.35);
        graphic.text(Text::new(at, &words, SIZE, MUTED).anchored(Anchor::End));
    }
    graphic
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graphic::GraphicShape;

    #[test]
    fn a_bar_is_as_long_as_its_share_of_the_whole() {
        let names = ["road", "person"].map(str::to_owned);
        let widths = |values: &[Option<f64>]| -> Vec<f64> {
            let width = |shape: &GraphicShape| match shape {
                GraphicShape::Rect { rect, .. } => Some(rect.width),
                _ => None,
            };
            class_bars("IoU", &names, values).shapes.iter().filter_map(width).collect()
        };
        let found = widths(&[Some(0.25), None]);
        assert_eq!(found.len(), 3, "two grounds and one bar");
        assert!((found[1] - found[0] / 4.0).abs() < 1e-9 && found[2] == found[0]);
    }
}
