//! The number of crops that see a region, for all placements at once.
//!
//! A crop with window (a, b) sees the region S placed at t iff `A(a - t_x, b - t_y) = 1`, where A marks the windows that meet S
//! at rest. So the count over all crops is a box sum of A, and the box moves with t. A is never stored: its rows are made
//! twice, once when they enter the box and once when they leave it, so that memory is a few counters for each column.

use crate::segments::{Family, Segment};
use crate::{Mask, Size};

/// Calls `row(t_y, hits)` for every t_y, with the number of crops that see the region placed at (t_x, t_y) for every t_x.
pub(crate) fn for_each_placement(
    region: &Mask,
    image: Size,
    along_x: &[Segment],
    along_y: &[Segment],
    mut row: impl FnMut(u32, &[u64]),
) {
    let last_x = i64::from(image.width() - region.size().width());
    let last_y = i64::from(image.height() - region.size().height());
    let mut layers: Vec<BoxLayer<'_>> = Vec::new();
    for x in along_x {
        for y in along_y {
            layers.extend(BoxLayer::new(region, *x, *y, last_x, last_y));
        }
    }
    let mut hits = vec![0u64; last_x as usize + 1];
    for t_y in (0..=last_y).rev() {
        // While all of A's rows are inside the box (or all are outside), moving it changes nothing.
        let moved = layers.iter_mut().fold(t_y == last_y, |moved, layer| layer.move_box(t_y) | moved);
        if moved {
            hits.fill(0);
            for layer in &mut layers {
                layer.add_hits(&mut hits);
            }
        }
        row(t_y as u32, &hits);
    }
}

/// The box sum for one segment along x and one along y.
struct BoxLayer<'a> {
    x: Segment,
    y: Segment,
    /// First and last position b - t_y at which A has a row that is not zero.
    rows: (i64, i64),
    /// Position a - t_x of the first column.
    start: i64,
    /// For each column, the number of marked positions inside the box.
    column_sums: Vec<u32>,
    /// Running sums of the column sums, one longer.
    totals: Vec<u64>,
    entering: RowCursor<'a>,
    leaving: RowCursor<'a>,
}

impl<'a> BoxLayer<'a> {
    fn new(region: &'a Mask, x: Segment, y: Segment, last_x: i64, last_y: i64) -> Option<Self> {
        let reach = |segment: Segment, last: i64, extent: u32| {
            let (first, last) = (segment.first - last, segment.last);
            match segment.family {
                Family::Sliding(length) => (first.max(1 - length), last.min(i64::from(extent) - 1)),
                Family::AllBut(_) => (first, last),
            }
        };
        let (start, end) = reach(x, last_x, region.size().width());
        let rows = reach(y, last_y, region.size().height());
        if start > end || rows.0 > rows.1 {
            return None;
        }
        let columns = (end - start + 1) as usize;
        let cursor = RowCursor::new(region, x.family, y.family, start, columns, rows.0);
        Some(Self {
            x,
            y,
            rows,
            start,
            column_sums: vec![0; columns],
            totals: vec![0; columns + 1],
            leaving: cursor.clone(),
            entering: cursor,
        })
    }

    /// Moves the box to the positions `first - t_y ..= last - t_y`; t_y falls, so the box only moves on. Returns whether the
    /// sums changed.
    fn move_box(&mut self, t_y: i64) -> bool {
        let before = (self.entering.position, self.leaving.position);
        while self.entering.position <= (self.y.last - t_y).min(self.rows.1) {
            self.entering.next_row(&mut self.column_sums, 1);
        }
        while self.leaving.position < (self.y.first - t_y).min(self.rows.1 + 1) {
            // Adding -1 modulo 2^32 takes the row out again.
            self.leaving.next_row(&mut self.column_sums, u32::MAX);
        }
        before != (self.entering.position, self.leaving.position)
    }

    /// At t_x the box covers the positions `first - t_x ..= last - t_x`.
    fn add_hits(&mut self, hits: &mut [u64]) {
        let mut total = 0u64;
        for (slot, &count) in self.totals[1..].iter_mut().zip(&self.column_sums) {
            total += u64::from(count);
            *slot = total;
        }
        let weight = self.x.weight * self.y.weight;
        self.add_totals(hits, self.x.last + 1 - self.start, weight);
        self.add_totals(hits, self.x.first - self.start, weight.wrapping_neg());
    }

    /// `hits[t] += weight * totals[index - t]`, with the index held inside the totals.
    fn add_totals(&self, hits: &mut [u64], index: i64, weight: u64) {
        let columns = self.column_sums.len() as i64;
        let placements = hits.len() as i64;
        // Left of `flat` the index is beyond the last total; from `zero` on it is at totals[0] = 0.
        let flat = (index - columns).clamp(0, placements);
        let zero = index.clamp(flat, placements);
        let whole = self.totals[columns as usize].wrapping_mul(weight);
        hits[..flat as usize].iter_mut().for_each(|slot| *slot = slot.wrapping_add(whole));
        let falling = &self.totals[(index - zero + 1).max(0) as usize..][..(zero - flat) as usize];
        for (slot, total) in hits[flat as usize..zero as usize].iter_mut().zip(falling.iter().rev()) {
            *slot = slot.wrapping_add(total.wrapping_mul(weight));
        }
    }
}

/// Makes the rows of A in ascending order.
#[derive(Clone)]
struct RowCursor<'a> {
    region: &'a Mask,
    along_x: Family,
    start: i64,
    /// The next row of A.
    position: i64,
    vertical: Vertical,
}

/// What is known about each column of A. Rows of the region are counted from 1; 0 means none.
#[derive(Clone)]
enum Vertical {
    /// The last row, among those that have entered the window, with a pixel in the column's window.
    Sliding { length: i64, entered: i64, last: Vec<u32> },
    /// The first and the last row of the region with a pixel in the column's window.
    AllBut { gap: i64, first: Vec<u32>, last: Vec<u32> },
}

impl<'a> RowCursor<'a> {
    fn new(region: &'a Mask, x: Family, y: Family, start: i64, columns: usize, position: i64) -> Self {
        let vertical = match y {
            Family::Sliding(length) => Vertical::Sliding { length, entered: 0, last: vec![0; columns] },
            Family::AllBut(gap) => {
                let (mut first, mut last) = (vec![0; columns], vec![0; columns]);
                for (number, pixels) in (1u32..).zip(region.rows()) {
                    mark(pixels, x, start, &mut last, number);
                }
                for (number, pixels) in (1..=region.size().height()).rev().zip(region.rows().rev()) {
                    mark(pixels, x, start, &mut first, number);
                }
                Vertical::AllBut { gap, first, last }
            }
        };
        Self { region, along_x: x, start, position, vertical }
    }

    /// Adds `step` to each counter whose column is marked in the next row of A.
    fn next_row(&mut self, counters: &mut [u32], step: u32) {
        match &mut self.vertical {
            Vertical::Sliding { length, entered, last } => {
                let height = i64::from(self.region.size().height());
                while *entered < (self.position + *length).min(height) {
                    let row = self.region.row(*entered as u32);
                    *entered += 1;
                    mark(row, self.along_x, self.start, last, *entered as u32);
                }
                // The window starts at the region's row `position`, which has the number position + 1.
                let threshold = (self.position + 1).max(1) as u32;
                for (counter, &row) in counters.iter_mut().zip(last.iter()) {
                    *counter = counter.wrapping_add(if row >= threshold { step } else { 0 });
                }
            }
            Vertical::AllBut { gap, first, last } => {
                // Row numbers at most `before`, or at least `behind`, lie outside the gap.
                let before = self.position.clamp(0, i64::from(u32::MAX)) as u32;
                let behind = (self.position + *gap + 1).clamp(1, i64::from(u32::MAX)) as u32;
                for ((counter, &first), &last) in counters.iter_mut().zip(first.iter()).zip(last.iter()) {
                    let marked = (first != 0 && first <= before) || last >= behind;
                    *counter = counter.wrapping_add(if marked { step } else { 0 });
                }
            }
        }
        self.position += 1;
    }
}

/// Sets `marks[i] = number` where the window at position `start + i` holds a pixel of the row.
fn mark(pixels: &[u8], family: Family, start: i64, marks: &mut [u32], number: u32) {
    let columns = marks.len() as i64;
    let mut fill = |from: i64, to: i64| {
        let (from, to) = ((from - start).clamp(0, columns), (to + 1 - start).clamp(0, columns));
        if from < to {
            marks[from as usize..to as usize].fill(number);
        }
    };
    match family {
        Family::Sliding(length) => {
            let mut done = i64::MIN;
            let mut column = 0;
            while let Some(step) = pixels[column..].iter().position(|&pixel| pixel != 0) {
                let first = column + step;
                let run =
                    pixels[first..].iter().position(|&pixel| pixel == 0).unwrap_or(pixels.len() - first);
                let last = (first + run - 1) as i64;
                fill((first as i64 - length + 1).max(done), last);
                done = last + 1;
                column = first + run;
            }
        }
        Family::AllBut(gap) => {
            let first = pixels.iter().position(|&pixel| pixel != 0);
            let last = pixels.iter().rposition(|&pixel| pixel != 0);
            if let (Some(first), Some(last)) = (first, last) {
                fill(first as i64 + 1, i64::MAX / 4);
                fill(i64::MIN / 4, last as i64 - gap);
            }
        }
    }
}
