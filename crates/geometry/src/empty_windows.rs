//! The number of windows without a set pixel, for all window sizes at once.

use crate::{Mask, Size};

/// For every window size from a least one on, the number of places at which it holds no set pixel.
#[derive(Debug)]
pub(crate) struct EmptyWindows {
    least: Size,
    // [widths, heights]: entry (w - least width, h - least height)
    counts: Vec<u32>,
    heights: usize,
}

impl EmptyWindows {
    /// Counts the empty windows in O(pixels) time, with four bytes for each size.
    ///
    /// For each bottom row the empty heights above it form a histogram. Each node of its tree of maximal rectangles (an
    /// interval of `length` columns, empty up to `high`, with its surrounding interval empty up to `low`) holds
    /// `length - w + 1` windows of width w at each height in `(low, high]`. Nodes are recorded as differences, and
    /// running sums at the end turn them into counts. Columns empty for less than the least height count as full.
    ///
    /// The caller keeps `least` inside the mask.
    pub(crate) fn of(mask: &Mask, least: Size) -> Self {
        let (width, least_width) = (mask.size().width() as usize, least.width() as usize);
        let least_height = least.height();
        let widths = width - least_width + 1;
        let heights = (mask.size().height() - least_height + 1) as usize;
        // Arithmetic modulo 2^32: sums in between may leave the range, but a final count is at most the number of pixels,
        // which is below 2^32 for every mask.
        let mut counts = vec![0u32; widths * heights];
        let mut empty = vec![0u32; width];
        // Open intervals: (first column, empty height), heights strictly increasing.
        let mut open: Vec<(usize, u32)> = Vec::with_capacity(width);
        for row in mask.rows() {
            let mut tallest = 0;
            for (height, &pixel) in empty.iter_mut().zip(row) {
                *height = if pixel == 0 { *height + 1 } else { 0 };
                tallest = tallest.max(*height);
            }
            if tallest < least_height {
                continue;
            }
            for column in 0..=width {
                let here = empty.get(column).copied().filter(|&height| height >= least_height).unwrap_or(0);
                let mut start = column;
                while let Some(&(first, high)) = open.last().filter(|&&(_, high)| high > here) {
                    open.pop();
                    start = first;
                    if column - first >= least_width {
                        let low = open.last().map_or(0, |&(_, below)| below).max(here);
                        let line = &mut counts[(column - first - least_width) * heights..][..heights];
                        let top = &mut line[(high - least_height) as usize];
                        *top = top.wrapping_add(1);
                        if low > 0 {
                            let bottom = &mut line[(low - least_height) as usize];
                            *bottom = bottom.wrapping_sub(1);
                        }
                    }
                }
                if here > 0 && open.last().is_none_or(|&(_, high)| high < here) {
                    open.push((start, here));
                }
            }
        }
        // An interval of `length` holds length - w + 1 windows of width w: two running sums from the longest down.
        let mut intervals = vec![0u32; heights];
        let mut windows = vec![0u32; heights];
        for line in counts.chunks_exact_mut(heights).rev() {
            // A node at `high` counts for all heights at or below it.
            let mut above = 0u32;
            for slot in line.iter_mut().rev() {
                above = above.wrapping_add(*slot);
                *slot = above;
            }
            for ((slot, intervals), windows) in line.iter_mut().zip(&mut intervals).zip(&mut windows) {
                *intervals = intervals.wrapping_add(*slot);
                *windows = windows.wrapping_add(*intervals);
                *slot = *windows;
            }
        }
        Self { least, counts, heights }
    }

    /// Places at which a window of this size, not below the least one, is empty.
    pub(crate) fn count(&self, width: u32, height: u32) -> u64 {
        let line = (width - self.least.width()) as usize * self.heights;
        self.counts[line + (height - self.least.height()) as usize].into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::crops_that_see;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_sizes_agree_with_the_single_count(
            (size, bytes, least) in (1u32..14, 1u32..14).prop_flat_map(|(width, height)| (
                Just(Size::new(width, height).unwrap()),
                proptest::collection::vec(prop_oneof![9 => Just(0u8), 1 => Just(1u8)], (width * height) as usize),
                (1..=width, 1..=height),
            ))
        ) {
            let mask = Mask::from_bytes(size, bytes).unwrap();
            let table = EmptyWindows::of(&mask, Size::new(least.0, least.1).unwrap());
            for width in least.0..=size.width() {
                for height in least.1..=size.height() {
                    let crop = Size::new(width, height).unwrap();
                    let origins = u64::from(size.width() - width + 1) * u64::from(size.height() - height + 1);
                    prop_assert_eq!(origins - table.count(width, height), crops_that_see(&mask, crop));
                }
            }
        }
    }
}
