//! Sums of outer products of rows: weight gradients.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::{Pair, TILE_ROWS, load, panel_vectors, store};

/// `out[i, j] += sum over items and pairs of left[i] right[j]`, for rows `i` of a range. The left side is the row that a pair's source
/// names, the right side the row its target names; or the other way round.
pub(crate) struct OuterProduct<'a> {
    /// Source values and target values of every item.
    pub(crate) items: &'a [(&'a [f32], &'a [f32])],
    pub(crate) pairs: &'a [Pair],
    /// Numbers between rows and first column of the left side.
    pub(crate) left: (usize, usize),
    pub(crate) right: (usize, usize),
    /// First row of `out` and number of rows, as columns of the left side.
    pub(crate) rows: (usize, usize),
    pub(crate) columns: usize,
    /// Row-major, `rows x columns`.
    pub(crate) out: &'a mut [f32],
    /// Whether the left side is the target rather than the source.
    pub(crate) swapped: bool,
}

impl OuterProduct<'_> {
    pub(crate) fn run(self) {
        if !self.items.is_empty() && !self.pairs.is_empty() {
            Arch::new().dispatch(self);
        }
    }
}

impl WithSimd for OuterProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        // Blocks of items and pairs whose rows stay in the second-level cache while all tiles read them. Long rows are taken in smaller
        // blocks: at strides of whole pages they would compete for a few cache sets.
        let longest = self.left.0.max(self.right.0).max(1);
        let block = (BLOCK / longest).clamp(64, 512);
        let block_pairs = self.pairs.len().min(block);
        let block_items = (block / block_pairs).max(1);
        let (all_items, all_pairs) = (self.items, self.pairs);
        for items in all_items.chunks(block_items) {
            for pairs in all_pairs.chunks(block_pairs) {
                self.items = items;
                self.pairs = pairs;
                for start in (0..self.columns).step_by(COLUMNS) {
                    self.block(simd, start..(start + COLUMNS).min(self.columns));
                }
            }
        }
    }
}

/// Numbers in all rows of a block of positions.
const BLOCK: usize = 64 * 1024;
/// Columns that are finished before the next: a page of every row.
const COLUMNS: usize = 1024;

impl OuterProduct<'_> {
    /// All rows of some columns.
    #[inline(always)]
    fn block<S: Simd>(&mut self, simd: S, columns: Range<usize>) {
        let total = self.rows.1;
        let mut row = 0;
        while row + TILE_ROWS <= total {
            self.row_of_tiles::<S, TILE_ROWS>(simd, row, &columns);
            row += TILE_ROWS;
        }
        while row + 4 <= total {
            self.row_of_tiles::<S, 4>(simd, row, &columns);
            row += 4;
        }
        while row < total {
            self.row_of_tiles::<S, 1>(simd, row, &columns);
            row += 1;
        }
    }

    #[inline(always)]
    fn row_of_tiles<S: Simd, const MR: usize>(&mut self, simd: S, row: usize, columns: &Range<usize>) {
        let lanes = S::F32_LANES;
        let panel = lanes * panel_vectors::<S>();
        let mut column = columns.start;
        while column < columns.end {
            let width = (columns.end - column).min(panel);
            match width.div_ceil(lanes) {
                4 if panel_vectors::<S>() == 4 => self.tile::<S, 4, MR>(simd, row, column, width),
                3 if panel_vectors::<S>() == 4 => self.tile::<S, 3, MR>(simd, row, column, width),
                2 => self.tile::<S, 2, MR>(simd, row, column, width),
                _ => self.tile::<S, 1, MR>(simd, row, column, width),
            }
            column += width;
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const NV: usize, const MR: usize>(
        &mut self,
        simd: S,
        row: usize,
        column: usize,
        width: usize,
    ) {
        let lanes = S::F32_LANES;
        let mut tile = [[simd.splat_f32s(0.0); NV]; MR];
        for (r, tile) in tile.iter_mut().enumerate() {
            *tile = load::<S, NV>(simd, &self.out[(row + r) * self.columns + column..][..width]);
        }
        let (left_row, left_column) = (self.left.0, self.left.1 + self.rows.0 + row);
        let (right_row, right_column) = (self.right.0, self.right.1 + column);
        for (source, target) in self.items {
            let (left, right) = if self.swapped { (target, source) } else { (source, target) };
            for pair in self.pairs {
                let (l, r) =
                    if self.swapped { (pair.target, pair.source) } else { (pair.source, pair.target) };
                let a = &left[l as usize * left_row + left_column..][..MR];
                let b = &right[r as usize * right_row + right_column..][..width];
                let b = if width == NV * lanes {
                    let (whole, _) = S::as_simd_f32s(b);
                    let mut vectors = [simd.splat_f32s(0.0); NV];
                    vectors.copy_from_slice(&whole[..NV]);
                    vectors
                } else {
                    load::<S, NV>(simd, b)
                };
                for r in 0..MR {
                    let a = simd.splat_f32s(a[r]);
                    for v in 0..NV {
                        tile[r][v] = simd.mul_add_e_f32s(a, b[v], tile[r][v]);
                    }
                }
            }
        }
        for (r, tile) in tile.into_iter().enumerate() {
            store::<S, NV>(simd, tile, &mut self.out[(row + r) * self.columns + column..][..width]);
        }
    }
}
