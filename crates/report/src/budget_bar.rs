//! How much of a budget is spent, as bars.

use crate::{
    font::{Weight, shorten},
    graphic::{Fill, Graphic, Rect, Text},
    paint::{GRID, INK, MUTED, series_paint},
};

/// So narrow that the words can be read where the drawing is as wide as a telephone.
const WIDTH: f64 = 480.0;
const MARGIN: f64 = 12.0;
const ROW: f64 = 72.0;
const HEIGHT: f64 = 14.0;
/// From the top of a row to its name, its bar and its words.
const PLACES: [f64; 3] = [13.0, 22.0, 54.0];

/// One bar: what is spent of what may be.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetBar {
    /// What is protected, in a word or two.
    pub name: String,
    /// The colour of the palette.
    pub color: usize,
    /// The share that is spent, from 0 to 1.
    pub share: f64,
    /// Both numbers in words, rounded to the safe side.
    pub words: String,
}

/// Bars beneath each other.
#[must_use]
pub fn budget_bars(bars: &[BudgetBar]) -> Graphic {
    let description: String = bars.iter().map(|bar| format!("{}: {}. ", bar.name, bar.words)).collect();
    let height = 2.0 * MARGIN + bars.len() as f64 * ROW - 12.0;
    let mut graphic = Graphic::new(WIDTH, height.max(2.0 * MARGIN), "The budget", &description);
    let length = WIDTH - 2.0 * MARGIN;
    for (index, bar) in bars.iter().enumerate() {
        let top = MARGIN + index as f64 * ROW;
        let [name, place, words] = PLACES.map(|place| top + place);
        let shown = shorten(&bar.name, 14.0, Weight::Semibold, length);
        graphic.text(Text::new((MARGIN, name), &shown, 14.0, INK).semibold());
        let shown = shorten(&bar.words, 14.0, Weight::Regular, length);
        graphic.text(Text::new((MARGIN, words), &shown, 14.0, MUTED));
        let (y, radius) = (place, HEIGHT / 2.0);
        graphic.rect(Rect::new(MARGIN, y, length, HEIGHT), radius, Some(Fill::solid(GRID)), None);
        let filled = length * bar.share.clamp(0.0, 1.0);
        if filled > 0.0 {
            // A share that is small stays to be seen.
            let frame = Rect::new(MARGIN, y, filled.max(HEIGHT), HEIGHT);
            graphic.rect(frame, radius, Some(Fill::solid(series_paint(bar.color))), None);
        }
    }
    graphic
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graphic::GraphicShape;

    #[test]
    fn bars_are_as_long_as_their_shares() {
        let bar = |share| BudgetBar { name: "patch".to_owned(), color: 0, share, words: "1 of 2".to_owned() };
        let widths = |bars: &[BudgetBar]| -> Vec<f64> {
            let width = |shape: &GraphicShape| match shape {
                GraphicShape::Rect { rect, .. } => Some(rect.width),
                _ => None,
            };
            budget_bars(bars).shapes.iter().filter_map(width).collect()
        };
        let whole = WIDTH - 2.0 * MARGIN;
        assert_eq!(widths(&[bar(0.5)]), [whole, whole / 2.0]);
        assert_eq!(widths(&[bar(2.0)]), [whole, whole]);
        assert_eq!(widths(&[bar(0.0)]), [whole]);
    }
}
