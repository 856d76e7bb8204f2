//! What each crop origin reads along one axis, and in how many ways a placed interval is hit.

use std::collections::VecDeque;

use crate::axis::AxisReads;

/// Hull of the intervals in each of the ranges, whose ends never decrease: two monotone queues, O(1) amortised.
pub(crate) fn hulls(
    intervals: &[Option<(i64, i64)>],
    ranges: impl Iterator<Item = (usize, usize)>,
) -> Vec<Option<(i64, i64)>> {
    let mut lowest: VecDeque<(usize, i64)> = VecDeque::new();
    let mut highest: VecDeque<(usize, i64)> = VecDeque::new();
    let mut entered = 0;
    ranges
        .map(|(first, last)| {
            for (index, interval) in intervals.iter().enumerate().take(last + 1).skip(entered) {
                if let Some((low, high)) = *interval {
                    while lowest.back().is_some_and(|&(_, value)| value >= low) {
                        lowest.pop_back();
                    }
                    lowest.push_back((index, low));
                    while highest.back().is_some_and(|&(_, value)| value <= high) {
                        highest.pop_back();
                    }
                    highest.push_back((index, high));
                }
            }
            entered = entered.max(last + 1);
            while lowest.front().is_some_and(|&(index, _)| index < first) {
                lowest.pop_front();
            }
            while highest.front().is_some_and(|&(index, _)| index < first) {
                highest.pop_front();
            }
            Some((lowest.front()?.1, highest.front()?.1))
        })
        .collect()
}

/// The original pixels that one crop origin reads along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AxisWindow {
    /// None: the crop lies in constant padding.
    Empty,
    /// The pixels from the first to the last, inclusive.
    Span(i64, i64),
    /// All pixels but those from the first to the last, inclusive (a crop across the seam of wrapped padding).
    AllBut(i64, i64),
}

/// The window of every crop origin `0 ..= length - crop`; the caller keeps `1 <= crop <= length`.
pub(crate) fn windows(reads: &AxisReads, crop: u32) -> Vec<AxisWindow> {
    let crop = crop as usize;
    let origins = (reads.intervals.len() + 1).saturating_sub(crop);
    let source = i64::from(reads.source);
    hulls(&reads.intervals, (0..origins).map(|origin| (origin, origin + crop - 1)))
        .into_iter()
        .map(|hull| match hull {
            None => AxisWindow::Empty,
            Some((first, last)) if !reads.cyclic => AxisWindow::Span(first, last),
            Some((first, last)) => {
                let length = last - first + 1;
                let start = first.rem_euclid(source);
                if length >= source {
                    AxisWindow::Span(0, source - 1)
                } else if start + length <= source {
                    AxisWindow::Span(start, start + length - 1)
                } else {
                    AxisWindow::AllBut(start + length - source, start - 1)
                }
            }
        })
        .collect()
}

/// For each placement `t` of an interval of `extent` pixels (`0 <= t <= source - extent`), the number of windows that
/// contain at least one of its pixels. O(source + windows): each window is missed on at most two ranges of `t`.
pub(crate) fn interval_hits(windows: &[AxisWindow], source: u32, extent: u32) -> Vec<u32> {
    let placements = i64::from(source) - i64::from(extent) + 1;
    let extent = i64::from(extent);
    let mut change = vec![0i64; placements.max(0) as usize + 1];
    let mut miss = |first: i64, last: i64| {
        let (first, last) = (first.max(0), last.min(placements - 1));
        if first <= last {
            change[first as usize] += 1;
            change[last as usize + 1] -= 1;
        }
    };
    for window in windows {
        match *window {
            AxisWindow::Empty => miss(0, placements - 1),
            AxisWindow::Span(first, last) => {
                miss(0, first - extent);
                miss(last + 1, placements - 1);
            }
            AxisWindow::AllBut(first, last) => miss(first, last - extent + 1),
        }
    }
    let mut missed = 0;
    change.pop();
    change
        .into_iter()
        .map(|step| {
            missed += step;
            (windows.len() as i64 - missed) as u32
        })
        .collect()
}

/// Index of the largest value; among equals the one nearest to the middle.
pub(crate) fn central_maximum(values: &[u32]) -> (usize, u32) {
    let middle = values.len().saturating_sub(1) / 2;
    let mut best = (middle, values.get(middle).copied().unwrap_or(0));
    for (index, &value) in values.iter().enumerate() {
        if value > best.1 || (value == best.1 && index.abs_diff(middle) < best.0.abs_diff(middle)) {
            best = (index, value);
        }
    }
    best
}
