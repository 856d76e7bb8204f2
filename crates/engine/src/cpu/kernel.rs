//! The two matrix products that everything else is made of, as register-tiled kernels over unpacked activations.
//!
//! Activations are stored channels-last, so a position is a row of contiguous channels. A convolution is then, for every tap of its
//! window, a product of the rows that the tap reads with that tap's weights, added to the rows that the tap writes: no copy of the
//! image into columns is ever made. [`RowProduct`] does this for values and for data gradients, [`OuterProduct`] for weight gradients.
//!
//! Both keep a tile of at most six rows by four vectors in registers and walk the inner dimension in a fixed order, starting from what
//! the destination holds. So a sum does not depend on how it was split into calls, and the results do not depend on threads.

use pulp::{Arch, Simd, WithSimd};

/// Rows of a register tile.
const TILE_ROWS: usize = 6;

/// A row read and a row written, by one tap of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) source: u32,
    pub(crate) target: u32,
}

/// Lanes of a vector and columns of a full panel on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lanes {
    pub(crate) lanes: usize,
    pub(crate) panel: usize,
}

impl Lanes {
    pub(crate) fn detect() -> Self {
        struct Detect;
        impl WithSimd for Detect {
            type Output = Lanes;
            fn with_simd<S: Simd>(self, _: S) -> Lanes {
                Lanes { lanes: S::F32_LANES, panel: S::F32_LANES * panel_vectors::<S>() }
            }
        }
        Arch::new().dispatch(Detect)
    }

    /// Columns after padding to whole vectors.
    pub(crate) fn padded(self, columns: usize) -> usize {
        columns.next_multiple_of(self.lanes)
    }
}

/// Vectors of a full panel: what fits beside six accumulators each in the register file.
const fn panel_vectors<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { 4 } else { 2 }
}

/// The right side of a row product, `inner x columns`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Right<'a> {
    /// Panels made by [`pack`].
    Packed(&'a [f32]),
    /// Row-major with this row length; the columns must be whole vectors.
    Plain(&'a [f32], usize),
}

/// `target[row] += source[row] right`, for every pair of rows and every item.
pub(crate) struct RowProduct<'a> {
    pub(crate) source: Rows<'a>,
    pub(crate) inner: usize,
    pub(crate) right: Right<'a>,
    pub(crate) columns: usize,
    pub(crate) target: &'a mut [f32],
    /// Numbers between items, numbers between rows, first column.
    pub(crate) target_shape: RowShape,
    pub(crate) pairs: &'a [Pair],
    /// Target row that lies at the start of `target`.
    pub(crate) first_row: u32,
    pub(crate) items: usize,
}

/// How rows lie in a slice: numbers between items, numbers between rows, first column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowShape {
    pub(crate) item: usize,
    pub(crate) row: usize,
    pub(crate) column: usize,
}

impl RowShape {
    #[inline(always)]
    fn offset(self, item: usize, row: u32) -> usize {
        item * self.item + row as usize * self.row + self.column
    }
}

/// Rows to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) shape: RowShape,
}

impl RowProduct<'_> {
    pub(crate) fn run(self) {
        if self.inner > 0 && self.columns > 0 {
            Arch::new().dispatch(self);
        }
    }
}

impl WithSimd for RowProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let lanes = S::F32_LANES;
        let panel = lanes * panel_vectors::<S>();
        let mut column = 0;
        while column < self.columns {
            let width = (self.columns - column).min(panel);
            let vectors = width.div_ceil(lanes);
            let (right, step) = match self.right {
                Right::Packed(data) => {
                    (&data[column * self.inner..][..vectors * lanes * self.inner], vectors * lanes)
                }
                Right::Plain(data, row) => (&data[column..], row),
            };
            match vectors {
                4 if panel_vectors::<S>() == 4 => self.panel::<S, 4>(simd, right, step, column, width),
                3 if panel_vectors::<S>() == 4 => self.panel::<S, 3>(simd, right, step, column, width),
                2 => self.panel::<S, 2>(simd, right, step, column, width),
                _ => self.panel::<S, 1>(simd, right, step, column, width),
            }
            column += width;
        }
    }
}

impl RowProduct<'_> {
    /// All rows against one panel of the right side.
    #[inline(always)]
    fn panel<S: Simd, const NV: usize>(
        &mut self,
        simd: S,
        right: &[f32],
        step: usize,
        column: usize,
        width: usize,
    ) {
        let total = self.pairs.len() * self.items;
        let mut cursor = Cursor { item: 0, pair: 0 };
        let mut done = 0;
        while done + TILE_ROWS <= total {
            self.tile::<S, NV, TILE_ROWS>(simd, right, step, column, width, &mut cursor);
            done += TILE_ROWS;
        }
        if total - done >= 4 {
            self.tile::<S, NV, 4>(simd, right, step, column, width, &mut cursor);
            done += 4;
        }
        if total - done >= 2 {
            self.tile::<S, NV, 2>(simd, right, step, column, width, &mut cursor);
            done += 2;
        }
        if total > done {
            self.tile::<S, NV, 1>(simd, right, step, column, width, &mut cursor);
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const NV: usize, const MR: usize>(
        &mut self,
        simd: S,
        right: &[f32],
        step: usize,
        column: usize,
        width: usize,
        cursor: &mut Cursor,
    ) {
        let lanes = S::F32_LANES;
        let empty: &[f32] = &[];
        let mut rows = [empty; MR];
        let mut targets = [0usize; MR];
        for r in 0..MR {
            let pair = self.pairs[cursor.pair];
            rows[r] = &self.source.data[self.source.shape.offset(cursor.item, pair.source)..][..self.inner];
            targets[r] = self.target_shape.offset(cursor.item, pair.target - self.first_row) + column;
            cursor.advance(self.pairs.len());
        }
        let mut tile = [[simd.splat_f32s(0.0); NV]; MR];
        for r in 0..MR {
            tile[r] = load::<S, NV>(simd, &self.target[targets[r]..][..width]);
        }
        if step == NV * lanes {
            // A packed panel: the whole block is one run of vectors.
            let (vectors, _) = S::as_simd_f32s(right);
            let (vectors, _) = vectors.as_chunks::<NV>();
            let vectors = &vectors[..self.inner];
            for k in 0..self.inner {
                let b = vectors[k];
                for r in 0..MR {
                    let a = simd.splat_f32s(rows[r][k]);
                    for v in 0..NV {
                        tile[r][v] = simd.mul_add_e_f32s(a, b[v], tile[r][v]);
                    }
                }
            }
        } else {
            for k in 0..self.inner {
                let (b, _) = S::as_simd_f32s(&right[k * step..][..NV * lanes]);
                for r in 0..MR {
                    let a = simd.splat_f32s(rows[r][k]);
                    for v in 0..NV {
                        tile[r][v] = simd.mul_add_e_f32s(a, b[v], tile[r][v]);
                    }
                }
            }
        }
        for r in 0..MR {
            store::<S, NV>(simd, tile[r], &mut self.target[targets[r]..][..width]);
        }
    }
}

struct Cursor {
    item: usize,
    pair: usize,
}

impl Cursor {
    #[inline(always)]
    fn advance(&mut self, pairs: usize) {
        self.pair += 1;
        if self.pair == pairs {
            self.pair = 0;
            self.item += 1;
        }
    }
}

/// Loads up to `NV` vectors, the last one partly if the slice ends inside it.
#[inline(always)]
fn load<S: Simd, const NV: usize>(simd: S, slice: &[f32]) -> [S::f32s; NV] {
    let (whole, rest) = S::as_simd_f32s(slice);
    let mut vectors = [simd.splat_f32s(0.0); NV];
    if whole.len() == NV {
        vectors.copy_from_slice(whole);
    } else {
        vectors[..whole.len()].copy_from_slice(whole);
        vectors[whole.len()] = simd.partial_load_f32s(rest);
    }
    vectors
}

#[inline(always)]
fn store<S: Simd, const NV: usize>(simd: S, vectors: [S::f32s; NV], slice: &mut [f32]) {
    let (whole, rest) = S::as_mut_simd_f32s(slice);
    if whole.len() == NV {
        whole.copy_from_slice(&vectors);
    } else {
        let count = whole.len();
        whole.copy_from_slice(&vectors[..count]);
        simd.partial_store_f32s(rest, vectors[count]);
    }
}

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
        let lanes = S::F32_LANES;
        let panel = lanes * panel_vectors::<S>();
        // Blocks of items and pairs whose rows stay in the second-level cache while all tiles of a panel read them.
        let block_pairs = self.pairs.len().min(512);
        let block_items = (512 / block_pairs).max(1);
        let (all_items, all_pairs) = (self.items, self.pairs);
        for items in all_items.chunks(block_items) {
            for pairs in all_pairs.chunks(block_pairs) {
                self.items = items;
                self.pairs = pairs;
                let mut column = 0;
                while column < self.columns {
                    let width = (self.columns - column).min(panel);
                    match width.div_ceil(lanes) {
                        4 if panel_vectors::<S>() == 4 => self.panel::<S, 4>(simd, column, width),
                        3 if panel_vectors::<S>() == 4 => self.panel::<S, 3>(simd, column, width),
                        2 => self.panel::<S, 2>(simd, column, width),
                        _ => self.panel::<S, 1>(simd, column, width),
                    }
                    column += width;
                }
            }
        }
    }
}

impl OuterProduct<'_> {
    #[inline(always)]
    fn panel<S: Simd, const NV: usize>(&mut self, simd: S, column: usize, width: usize) {
        let total = self.rows.1;
        let mut row = 0;
        while row + TILE_ROWS <= total {
            self.tile::<S, NV, TILE_ROWS>(simd, row, column, width);
            row += TILE_ROWS;
        }
        if total - row >= 4 {
            self.tile::<S, NV, 4>(simd, row, column, width);
            row += 4;
        }
        if total - row >= 2 {
            self.tile::<S, NV, 2>(simd, row, column, width);
            row += 2;
        }
        if total > row {
            self.tile::<S, NV, 1>(simd, row, column, width);
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

/// Packs `inner x columns` into panels: `source[k * strides.0 + j * strides.1]`, columns padded with zeros to whole vectors.
pub(crate) fn pack(
    lanes: Lanes,
    inner: usize,
    columns: usize,
    source: &[f32],
    strides: (usize, usize),
    packed: &mut [f32],
) {
    let mut start = 0;
    let mut column = 0;
    while column < columns {
        let width = (columns - column).min(lanes.panel);
        let padded = lanes.padded(width);
        for k in 0..inner {
            let row = &mut packed[start + k * padded..][..padded];
            for (j, value) in row[..width].iter_mut().enumerate() {
                *value = source[k * strides.0 + (column + j) * strides.1];
            }
            row[width..].fill(0.0);
        }
        start += inner * padded;
        column += width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f32 / 504.5 - 1.0).collect()
    }

    fn identity(rows: usize) -> Vec<Pair> {
        (0..rows as u32).map(|row| Pair { source: row, target: row }).collect()
    }

    #[test]
    fn products_equal_the_definition() {
        let lanes = Lanes::detect();
        for (m, k, n) in [(1, 1, 1), (5, 3, 7), (13, 9, 64), (7, 20, 80), (23, 4, 129), (6, 33, 48)] {
            let (a, b) = (values(m * k, 1), values(k * n, 2));
            let start = values(m * n, 3);
            let mut packed = vec![0.0; k * lanes.padded(n)];
            pack(lanes, k, n, &b, (n, 1), &mut packed);
            let mut rows = start.clone();
            RowProduct {
                source: Rows { data: &a, shape: RowShape { item: 0, row: k, column: 0 } },
                inner: k,
                right: Right::Packed(&packed),
                columns: n,
                target: &mut rows,
                target_shape: RowShape { item: 0, row: n, column: 0 },
                pairs: &identity(m),
                first_row: 0,
                items: 1,
            }
            .run();
            let mut outer = values(k * n, 4);
            let outer_start = outer.clone();
            let c = values(m * n, 5);
            OuterProduct {
                items: &[(&a, &c)],
                pairs: &identity(m),
                left: (k, 0),
                right: (n, 0),
                rows: (0, k),
                columns: n,
                out: &mut outer,
                swapped: false,
            }
            .run();
            for i in 0..m {
                for j in 0..n {
                    let want: f64 = (0..k).map(|l| f64::from(a[i * k + l]) * f64::from(b[l * n + j])).sum();
                    let want = want + f64::from(start[i * n + j]);
                    // At most 33 terms of size one, each rounded by 6e-8.
                    assert!((f64::from(rows[i * n + j]) - want).abs() < 1e-5);
                }
            }
            for i in 0..k {
                for j in 0..n {
                    let want: f64 = (0..m).map(|l| f64::from(a[l * k + i]) * f64::from(c[l * n + j])).sum();
                    let want = want + f64::from(outer_start[i * n + j]);
                    assert!((f64::from(outer[i * n + j]) - want).abs() < 1e-5);
                }
            }
        }
    }
}
