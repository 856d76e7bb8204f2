//! Brings filters into the form that the products read.

use pulp::Arch;
use rayon::prelude::*;

use super::super::super::kernel::Lanes;
use super::POINTS;

/// How many rows and columns the blocks have that are moved through the first-level cache.
const BLOCK: usize = 16;

/// The distances between neighbouring taps, rows and columns of the weights.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct WeightStrides {
    pub(in super::super) tap: usize,
    pub(in super::super) row: usize,
    pub(in super::super) column: usize,
}

/// Computes `G w G^T` of all filters, for a product with `rows x columns` at each point. The result comes in panels of columns, and in each
/// panel point after point. With `turned`, the windows are turned around.
pub(in super::super) fn arrange(
    lanes: Lanes,
    (rows, columns): (usize, usize),
    weight: &[f32],
    strides: WeightStrides,
    turned: bool,
    packed: &mut Vec<f32>,
) {
    packed.resize(POINTS * rows * columns, 0.0);
    packed.par_chunks_mut(POINTS * rows * lanes.panel).enumerate().for_each(|(panel, packed)| {
        let weight = &weight[panel * lanes.panel * strides.column..];
        Arch::new().dispatch(
            #[inline(always)]
            || arrange_panel(rows, weight, strides, turned, packed),
        );
    });
}

/// Computes the four points from `4 row` on, point after point, of a panel of filters that is stored as taps. With `turned`, the windows
/// are turned around.
pub(super) fn expand(row: usize, taps: &[f32], turned: bool, points: &mut [f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || match row {
            0 => expand_row::<0>(taps, turned, points),
            1 => expand_row::<1>(taps, turned, points),
            2 => expand_row::<2>(taps, turned, points),
            _ => expand_row::<3>(taps, turned, points),
        },
    );
}

#[inline(always)]
fn expand_row<const ROW: usize>(taps: &[f32], turned: bool, points: &mut [f32]) {
    let size = taps.len() / 9;
    let tap = |index: usize| &taps[(if turned { 8 - index } else { index }) * size..][..size];
    let (top, middle, bottom) =
        ([tap(0), tap(1), tap(2)], [tap(3), tap(4), tap(5)], [tap(6), tap(7), tap(8)]);
    let (a, rest) = points.split_at_mut(size);
    let (b, rest) = rest.split_at_mut(size);
    let (c, rest) = rest.split_at_mut(size);
    let d = &mut rest[..size];
    for i in 0..size {
        let first = spread(top[0][i], middle[0][i], bottom[0][i])[ROW];
        let second = spread(top[1][i], middle[1][i], bottom[1][i])[ROW];
        let third = spread(top[2][i], middle[2][i], bottom[2][i])[ROW];
        [a[i], b[i], c[i], d[i]] = spread(first, second, third);
    }
}

#[inline(always)]
fn arrange_panel(rows: usize, weight: &[f32], strides: WeightStrides, turned: bool, packed: &mut [f32]) {
    let width = packed.len() / (POINTS * rows);
    let mut block = [[[0.0; BLOCK]; 9]; BLOCK];
    let mut points = [[0.0; BLOCK]; POINTS];
    for row in (0..rows).step_by(BLOCK) {
        for column in (0..width).step_by(BLOCK) {
            // Panels are narrower than a block only on machines without vectors.
            let columns = BLOCK.min(width - column);
            read(&weight[row * strides.row + column * strides.column..], strides, columns, &mut block);
            for (r, taps) in block.iter().enumerate() {
                filter(taps, &mut points);
                for (point, values) in points.iter().enumerate() {
                    // Turning the window around exchanges the first and the last point of each axis.
                    let point = if turned { TURNED[point] } else { point };
                    let to = &mut packed[(point * rows + row + r) * width + column..][..columns];
                    match to.first_chunk_mut() {
                        Some(to) => *to = *values,
                        None => to.copy_from_slice(&values[..columns]),
                    }
                }
            }
        }
    }
}

const TURNED: [usize; POINTS] = [15, 13, 14, 12, 7, 5, 6, 4, 11, 9, 10, 8, 3, 1, 2, 0];

/// Reads one block of the weights into `block[row][tap][column]`.
#[inline(always)]
fn read(weight: &[f32], strides: WeightStrides, columns: usize, block: &mut [[[f32; BLOCK]; 9]; BLOCK]) {
    if strides.column == 1 && columns == BLOCK {
        for (row, taps) in block.iter_mut().enumerate() {
            for (tap, values) in taps.iter_mut().enumerate() {
                values.copy_from_slice(&weight[row * strides.row + tap * strides.tap..][..BLOCK]);
            }
        }
        return;
    }
    for column in 0..columns {
        for (row, taps) in block.iter_mut().enumerate() {
            let window = &weight[column * strides.column + row * strides.row..];
            for (values, value) in taps.iter_mut().zip(window.iter().step_by(strides.tap)) {
                values[column] = *value;
            }
        }
    }
}

/// Computes `G w G^T` of as many filters as a block is wide.
#[inline(always)]
fn filter(taps: &[[f32; BLOCK]; 9], points: &mut [[f32; BLOCK]; POINTS]) {
    let mut rows = [[[0.0; BLOCK]; 3]; 4];
    for column in 0..3 {
        for i in 0..BLOCK {
            let [a, b, c, d] = spread(taps[column][i], taps[3 + column][i], taps[6 + column][i]);
            rows[0][column][i] = a;
            rows[1][column][i] = b;
            rows[2][column][i] = c;
            rows[3][column][i] = d;
        }
    }
    for (row, [left, middle, right]) in rows.iter().enumerate() {
        for i in 0..BLOCK {
            let [a, b, c, d] = spread(left[i], middle[i], right[i]);
            points[4 * row][i] = a;
            points[4 * row + 1][i] = b;
            points[4 * row + 2][i] = c;
            points[4 * row + 3][i] = d;
        }
    }
}

/// `G` times three values.
#[inline(always)]
fn spread(a: f32, b: f32, c: f32) -> [f32; 4] {
    let even = 0.5 * (a + c);
    [a, even + 0.5 * b, even - 0.5 * b, c]
}

#[cfg(test)]
mod tests {
    use super::super::super::super::kernel::pack;
    use super::*;

    /// Points that are made from packed taps are the same, to the last bit, as those made from the weight directly.
    #[test]
    fn points_are_the_same_either_way() {
        let (lanes, rows, columns) = (Lanes::detect(), 48, 80);
        let weight: Vec<f32> =
            (0..9 * rows * columns).map(|i| ((i * 7919) % 1013) as f32 / 506.5 - 1.0).collect();
        let strides = WeightStrides { tap: 1, row: 9, column: 9 * rows };
        let mut taps = vec![0.0; weight.len()];
        pack(lanes, (9, rows, columns), &weight, (strides.tap, strides.row, strides.column), &mut taps);
        for turned in [false, true] {
            let mut want = Vec::new();
            arrange(lanes, (rows, columns), &weight, strides, turned, &mut want);
            let mut got = vec![0.0; want.len()];
            let panels = got.chunks_mut(POINTS * rows * lanes.panel).zip(taps.chunks(9 * rows * lanes.panel));
            for (got, taps) in panels {
                let size = taps.len() / 9;
                for (row, points) in got.chunks_exact_mut(4 * size).enumerate() {
                    expand(row, taps, turned, points);
                }
            }
            assert_eq!(got, want);
        }
    }
}
