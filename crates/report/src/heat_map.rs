//! How often each class was taken for each other, as a heat map.

use crate::{
    ReportError,
    font::{Weight, shorten},
    graphic::{Anchor, Fill, Graphic, Rect, Stroke, Text},
    paint::{AXIS, GRID, INK, MUTED, PALETTE},
};

const MARGIN: f64 = 16.0;
/// The width of the cells of all classes together, where there is a choice.
const BODY: f64 = 460.0;
const SMALLEST_CELL: f64 = 5.0;
const LARGEST_CELL: f64 = 56.0;
/// The longest name that is written in full.
const NAME: f64 = 120.0;
/// The smallest cell that has a name beside it, and the smallest that has a number in it.
const NAMED: f64 = 9.0;
const NUMBERED: f64 = 24.0;
/// A full cell is covered by half, so that its number can be told from it on light and on dark paper.
const COVERED: f64 = 0.5;

/// A heat map of how often records of each class (a row) were said to be of which class (a column). Colours and numbers are shares of the
/// row, in percent.
///
/// # Errors
/// Rows that are not as long as there are rows, or names that are not as many.
pub fn confusion_map(names: &[String], counts: &[Vec<u64>]) -> Result<Graphic, ReportError> {
    let classes = names.len();
    let square = counts.len() == classes && counts.iter().all(|row| row.len() == classes);
    if !square || classes == 0 {
        let found = counts.iter().map(Vec::len).find(|found| *found != classes).unwrap_or(counts.len());
        return Err(ReportError::RowLength { row: 0, found, expected: classes });
    }
    let cell = (BODY / classes as f64).clamp(SMALLEST_CELL, LARGEST_CELL);
    let size = (cell * 0.62).clamp(7.0, 12.0);
    let named = cell >= NAMED;
    let label = |name: &str| Text::new((0.0, 0.0), &shorten(name, size, Weight::Regular, NAME), size, INK);
    let longest = names.iter().map(|name| label(name).length()).fold(0.0, f64::max);
    let side = if named { longest + 10.0 } else { 4.0 };
    let (left, top) = (MARGIN + side + 18.0, MARGIN + side + 18.0);
    let body = cell * classes as f64;
    let description = describe(names, counts);
    let mut graphic = Graphic::new(
        (left + body + MARGIN).ceil(),
        (top + body + MARGIN).ceil(),
        "What was taken for what",
        &description,
    );
    graphic.text(Text::new((left + body / 2.0, MARGIN + 10.0), "said", 12.0, MUTED).anchored(Anchor::Middle));
    graphic.text(
        Text::new((MARGIN + 8.0, top + body / 2.0), "is", 12.0, MUTED).anchored(Anchor::Middle).upwards(),
    );
    for (index, (name, row)) in names.iter().zip(counts).enumerate() {
        let y = top + index as f64 * cell;
        if named {
            let middle = y + cell / 2.0 + size * 0.35;
            graphic.text(Text { at: (left - 6.0, middle), ..label(name).anchored(Anchor::End) });
            let across = left + (index as f64 + 0.5) * cell + size * 0.35;
            graphic.text(Text { at: (across, top - 6.0), ..label(name).upwards() });
        }
        let all: u64 = row.iter().sum();
        for (said, &count) in row.iter().enumerate() {
            let share = if all == 0 { 0.0 } else { count as f64 / all as f64 };
            let frame = Rect::new(left + said as f64 * cell, y, cell, cell);
            if share > 0.0 {
                graphic.rect(frame, 0.0, Some(Fill::tint(PALETTE[0], share * COVERED)), None);
            }
            // Less than half a percent is left to the colour.
            if cell >= NUMBERED && share >= 0.005 {
                let at = (frame.x + cell / 2.0, frame.y + cell / 2.0 + size * 0.35);
                let text =
                    Text::new(at, &format!("{:.0}", 100.0 * share), size, INK).anchored(Anchor::Middle);
                graphic.text(if said == index { text.semibold() } else { text });
            }
        }
    }
    for line in 1..classes {
        let at = line as f64 * cell;
        graphic.line(vec![(left + at, top), (left + at, top + body)], Stroke::solid(GRID, 0.6));
        graphic.line(vec![(left, top + at), (left + body, top + at)], Stroke::solid(GRID, 0.6));
    }
    graphic.rect(Rect::new(left, top, body, body), 0.0, None, Some(Stroke::solid(AXIS, 1.0)));
    Ok(graphic)
}

/// The diagonal, in words.
fn describe(names: &[String], counts: &[Vec<u64>]) -> String {
    let found = names.iter().zip(counts).enumerate().filter_map(|(class, (name, row))| {
        let all: u64 = row.iter().sum();
        (all > 0).then(|| format!("{name} {:.0}", 100.0 * row[class] as f64 / all as f64))
    });
    format!("Found of each class, in percent: {}.", found.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Theme;

    #[test]
    fn shares_are_those_of_a_row() {
        let names = ["cat", "dog", "<owl>"].map(str::to_owned);
        let counts = vec![vec![3, 1, 0], vec![0, 0, 0], vec![1, 1, 1]];
        let svg = confusion_map(&names, &counts).expect("three rows").to_svg(Theme::Auto);
        // 3 of 4, 1 of 4 and 1 of 3; a class without records has no share.
        for (text, times) in [(">75<", 1), (">25<", 1), (">33<", 3)] {
            assert_eq!(svg.matches(text).count(), times, "{text}");
        }
        assert!(svg.contains("cat 75") && svg.contains("&lt;owl&gt;") && !svg.contains("NaN"));
    }

    #[test]
    fn many_classes_fit_and_other_shapes_are_refused() {
        let names: Vec<String> = (0..150).map(|class| format!("class {class}")).collect();
        let graphic = confusion_map(&names, &vec![vec![1; 150]; 150]).expect("square");
        assert!(graphic.width < 900.0 && graphic.height < 900.0);
        assert!(confusion_map(&names, &[]).is_err());
        assert!(confusion_map(&names[..2], &[vec![1, 2], vec![1]]).is_err());
        assert!(confusion_map(&[], &[]).is_err());
    }
}
