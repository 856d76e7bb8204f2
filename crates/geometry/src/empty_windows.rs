//! The number of windows without a set pixel, for all window sizes at once.

use crate::{Error, Mask};

/// For every window size, the number of places at which it holds no set pixel.
#[derive(Debug)]
pub(crate) struct EmptyWindows {
    height: usize,
    // [width, height]: entry (w - 1, h - 1)
    counts: Vec<u64>,
}

impl EmptyWindows {
    /// O(pixels) time, eight bytes a pixel.
    ///
    /// For each bottom row the empty heights above it form a histogram. Each node of its tree of maximal rectangles (an
    /// interval of `length` columns, empty up to `high`, with its surrounding interval empty up to `low`) holds
    /// `length - w + 1` windows of width w at each height in `(low, high]`. Nodes are recorded as differences, and
    /// three running sums at the end turn them into counts.
    pub(crate) fn of(mask: &Mask) -> Result<Self, Error> {
        let (width, height) = (mask.size().width() as usize, mask.size().height() as usize);
        // Differences may dip below zero in between: arithmetic modulo 2^64, every final count is exact.
        let mut counts = vec![0u64; mask.size().buffer_length()?];
        let mut heights = vec![0u32; width];
        // Open intervals: (first column, empty height), heights strictly increasing.
        let mut open: Vec<(usize, u32)> = Vec::with_capacity(width);
        for row in mask.rows() {
            for (empty, &pixel) in heights.iter_mut().zip(row) {
                *empty = if pixel == 0 { *empty + 1 } else { 0 };
            }
            for column in 0..=width {
                let here = heights.get(column).copied().unwrap_or(0);
                let mut start = column;
                while let Some(&(first, high)) = open.last().filter(|&&(_, high)| high > here) {
                    open.pop();
                    let low = open.last().map_or(0, |&(_, below)| below).max(here);
                    let length = &mut counts[(column - first - 1) * height..][..height];
                    length[high as usize - 1] = length[high as usize - 1].wrapping_add(1);
                    if low > 0 {
                        length[low as usize - 1] = length[low as usize - 1].wrapping_sub(1);
                    }
                    start = first;
                }
                if here > 0 && open.last().is_none_or(|&(_, high)| high < here) {
                    open.push((start, here));
                }
            }
        }
        // A node at `high` counts for all heights at or below it.
        for line in counts.chunks_exact_mut(height) {
            for index in (0..height - 1).rev() {
                line[index] = line[index].wrapping_add(line[index + 1]);
            }
        }
        // An interval of `length` holds length - w + 1 windows of width w: two running sums from the longest down.
        for _ in 0..2 {
            for index in (0..(width - 1) * height).rev() {
                counts[index] = counts[index].wrapping_add(counts[index + height]);
            }
        }
        Ok(Self { height, counts })
    }

    /// Places at which a window of this size is empty.
    pub(crate) fn count(&self, width: u32, height: u32) -> u64 {
        self.counts[(width as usize - 1) * self.height + height as usize - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;
    use crate::count::crops_that_see;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_sizes_agree_with_the_single_count(
            (size, bytes) in (1u32..14, 1u32..14).prop_flat_map(|(width, height)| (
                Just(Size::new(width, height).unwrap()),
                proptest::collection::vec(prop_oneof![9 => Just(0u8), 1 => Just(1u8)], (width * height) as usize),
            ))
        ) {
            let mask = Mask::from_bytes(size, bytes).unwrap();
            let table = EmptyWindows::of(&mask).unwrap();
            for width in 1..=size.width() {
                for height in 1..=size.height() {
                    let crop = Size::new(width, height).unwrap();
                    let origins = u64::from(size.width() - width + 1) * u64::from(size.height() - height + 1);
                    prop_assert_eq!(origins - table.count(width, height), crops_that_see(&mask, crop));
                }
            }
        }
    }
}
