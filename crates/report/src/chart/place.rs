//! Finding room for the legend and for the names of reference lines.

use super::{ReferenceLine, geometry::SeriesShapes, legend};
use crate::{
    font::{Weight, shorten},
    graphic::{Anchor, Rect, Text},
    paint::{MUTED, PAPER},
};

const INSET: f64 = 8.0;
const LABEL_SIZE: f64 = 11.5;

/// How much of the data lies within a box.
fn data_within(shapes: &[SeriesShapes], area: &Rect) -> usize {
    shapes.iter().map(|series| series.within(area)).sum()
}

/// The corner of the plot with the least data beneath a legend, and how much data that is; `None` if the
/// legend would fill most of the plot.
pub(crate) fn corner(
    entries: &[legend::LegendEntry],
    plot: &Rect,
    shapes: &[SeriesShapes],
) -> Option<(Rect, usize)> {
    let (width, height) = legend::box_size(entries);
    if width > 0.65 * plot.width || height > 0.65 * plot.height {
        return None;
    }
    let (left, right) = (plot.x + INSET, plot.right() - INSET - width);
    let (top, bottom) = (plot.y + INSET / 2.0, plot.bottom() - INSET - height);
    [(right, top), (right, bottom), (left, bottom), (left, top)]
        .map(|(x, y)| Rect::new(x, y, width, height))
        .map(|area| (area, data_within(shapes, &area)))
        .into_iter()
        .min_by_key(|(_, data)| *data)
}

/// Where the name of a reference line can stand with the least in its way; nothing if there is no room.
pub(crate) fn reference_label(
    line: &ReferenceLine,
    position: f64,
    plot: &Rect,
    shapes: &[SeriesShapes],
    taken: &[Rect],
) -> Option<Text> {
    let room = if line.vertical { plot.width * 0.6 } else { plot.width - 2.0 * INSET };
    let words = shorten(&crate::escape::clean(&line.label), LABEL_SIZE, Weight::Regular, room);
    let label = |x: f64, y: f64, anchor: Anchor| {
        Text::new((x, y), &words, LABEL_SIZE, MUTED).anchored(anchor).halo(PAPER)
    };
    let mut candidates = Vec::new();
    if line.vertical {
        for step in 0..8 {
            let y = plot.y + LABEL_SIZE + 2.0 + f64::from(step) / 8.0 * plot.height;
            candidates.push(label(position + 6.0, y, Anchor::Start));
            candidates.push(label(position - 6.0, y, Anchor::End));
        }
    } else {
        for (x, anchor) in [
            (plot.right() - INSET, Anchor::End),
            (plot.x + INSET, Anchor::Start),
            (plot.x + plot.width / 2.0, Anchor::Middle),
            (plot.x + plot.width / 4.0, Anchor::Middle),
            (plot.x + plot.width * 0.75, Anchor::Middle),
        ] {
            candidates.push(label(x, position - 5.0, anchor));
            candidates.push(label(x, position + LABEL_SIZE + 2.0, anchor));
        }
    }
    candidates
        .into_iter()
        .filter(|text| {
            let area = text.bounds();
            area.x >= plot.x
                && area.right() <= plot.right()
                && area.y >= plot.y - 2.0
                && area.bottom() <= plot.bottom()
                && !taken.iter().any(|other| other.overlaps(&area))
        })
        .min_by_key(|text| data_within(shapes, &text.bounds().grown(4.0)))
}
