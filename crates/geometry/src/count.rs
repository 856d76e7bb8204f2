//! Counting the crops that see a mask, in one pass with one counter for each column.

use crate::{Mask, Size};

/// Number of origins at which a crop of this size contains at least one set pixel; the caller keeps the crop inside.
///
/// A crop sees the set iff one of its rows holds a set pixel within its columns. For each row and each origin column that
/// depends on the next set pixel to the right; for each origin column, the last row seen in this way decides all origins.
pub(crate) fn crops_that_see(mask: &Mask, crop: Size) -> u64 {
    let width = mask.size().width();
    let (crop_width, crop_height) = (crop.width(), crop.height());
    let columns = (width - crop_width + 1) as usize;
    // Rows are counted from 1, so that 0 means "never".
    let mut last_seen = vec![0u32; columns];
    let mut hits = 0u64;
    for (row, pixels) in (1u32..).zip(mask.rows()) {
        mark_row(pixels, crop_width as usize, &mut last_seen, row);
        if row >= crop_height {
            let first_row = row - crop_height + 1;
            let seen: u32 = last_seen.iter().map(|&last| u32::from(last >= first_row)).sum();
            hits += u64::from(seen);
        }
    }
    hits
}

/// Sets `marks[u] = value` for every origin column `u` whose window `[u, u + crop)` holds a set pixel of the row.
fn mark_row(pixels: &[u8], crop: usize, marks: &mut [u32], value: u32) {
    let origins = marks.len();
    let mut done = 0;
    let mut column = 0;
    while done < origins {
        // Set pixels left of `done` concern only origins that are decided already.
        let Some(step) = pixels[column..].iter().position(|&pixel| pixel != 0) else { break };
        let first = column + step;
        let run = pixels[first..].iter().position(|&pixel| pixel == 0).unwrap_or(pixels.len() - first);
        let start = (first + 1).saturating_sub(crop).max(done);
        let end = (first + run).min(origins);
        if start < end {
            marks[start..end].fill(value);
        }
        done = done.max(end);
        column = first + run;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn brute_force(mask: &Mask, crop: Size) -> u64 {
        let size = mask.size();
        let mut hits = 0;
        for v in 0..=size.height() - crop.height() {
            for u in 0..=size.width() - crop.width() {
                let sees = (v..v + crop.height()).any(|y| (u..u + crop.width()).any(|x| mask.get(x, y)));
                hits += u64::from(sees);
            }
        }
        hits
    }

    proptest! {
        #[test]
        fn equals_brute_force(
            (size, bytes, crop) in (1u32..14, 1u32..14).prop_flat_map(|(width, height)| (
                Just(Size::new(width, height).unwrap()),
                proptest::collection::vec(prop_oneof![6 => Just(0u8), 1 => Just(1u8)], (width * height) as usize),
                (1..=width, 1..=height),
            ))
        ) {
            let mask = Mask::from_bytes(size, bytes).unwrap();
            let crop = Size::new(crop.0, crop.1).unwrap();
            prop_assert_eq!(crops_that_see(&mask, crop), brute_force(&mask, crop));
        }
    }
}
