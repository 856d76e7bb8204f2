//! The windows of all crop origins along one axis, as a few families of windows that slide pixel by pixel.

use crate::windows::AxisWindow;

/// A family of windows over the same axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// `[a, a + length)`.
    Sliding(i64),
    /// All but `[a, a + length)`.
    AllBut(i64),
}

/// The windows of a family at the positions `first ..= last`, each read by `weight` crop origins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) family: Family,
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) weight: u64,
}

/// Decomposes the windows, or `None` if they differ in length in the interior (as behind a resize).
///
/// A region never leaves the image, so a window that reaches the image's border may be continued beyond it: windows cut
/// short by the border join the family of the interior ones. That makes plain padding one segment, and most reflected
/// padding too.
pub(crate) fn segments(windows: &[AxisWindow], source: u32) -> Option<Vec<Segment>> {
    let source = i64::from(source);
    let mut interior = None;
    for window in windows {
        if let AxisWindow::Span(first, last) = *window
            && first > 0
            && last < source - 1
        {
            let length = last - first + 1;
            if *interior.get_or_insert(length) != length {
                return None;
            }
        }
    }
    let length = interior.unwrap_or(source);
    let (mut sliding, mut all_but, mut full) = (Vec::new(), Vec::new(), 0u64);
    let mut gap = 0;
    for window in windows {
        match *window {
            AxisWindow::Empty => {}
            AxisWindow::Span(first, last) if first <= 0 && last >= source - 1 => full += 1,
            AxisWindow::Span(first, last) if last - first + 1 > length => return None,
            AxisWindow::Span(first, last) if first <= 0 => sliding.push(last - length + 1),
            AxisWindow::Span(first, _) => sliding.push(first),
            AxisWindow::AllBut(first, last) => {
                if !all_but.is_empty() && gap != last - first + 1 {
                    return None;
                }
                gap = last - first + 1;
                all_but.push(first);
            }
        }
    }
    let mut found = runs(Family::Sliding(length), sliding);
    found.extend(runs(Family::AllBut(gap), all_but));
    if full > 0 {
        // Longer than the image, so that it covers every placement.
        found.push(Segment {
            family: Family::Sliding(2 * source),
            first: -source,
            last: -source,
            weight: full,
        });
    }
    Some(found)
}

/// Consecutive positions of equal multiplicity.
fn runs(family: Family, mut positions: Vec<i64>) -> Vec<Segment> {
    positions.sort_unstable();
    let mut found: Vec<Segment> = Vec::new();
    for group in positions.chunk_by(|left, right| left == right) {
        let (position, weight) = (group[0], group.len() as u64);
        match found.last_mut() {
            Some(run) if run.last + 1 == position && run.weight == weight => run.last = position,
            _ => found.push(Segment { family, first: position, last: position, weight }),
        }
    }
    found
}
