//! The two matrix products that everything else is made of, as register-tiled kernels over unpacked activations.
//!
//! Activations are stored channels-last, so a position is a row of contiguous channels. A convolution is then, for every tap of its
//! window, a product of the rows that the tap reads with that tap's weights, added to the rows that the tap writes: no copy of the
//! image into columns is ever made. Positions are sorted by the taps that reach them, so that padding costs no multiplication and a
//! stride leaves no gaps. [`RowProduct`] does this for values and for data gradients, [`OuterProduct`] for weight gradients.
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

/// The right side of a row product: for every tap, `inner x columns`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Right<'a> {
    /// Panels made by [`pack`], panel after panel, in each tap after tap.
    Packed(&'a [f32]),
    /// One tap, row-major with this row length; the columns must be whole vectors.
    Plain(&'a [f32], usize),
}

/// Target rows that are reached by the same taps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) taps: Vec<u32>,
    /// Rows written, ascending.
    pub(crate) targets: Vec<u32>,
    /// Rows read: for every target, one per tap.
    pub(crate) sources: Vec<u32>,
}

impl Class {
    /// Sorts the target rows of all taps into classes; rows that no tap reaches form a class without taps.
    pub(crate) fn sort(taps: &[Vec<Pair>], rows: usize) -> Vec<Self> {
        let mut reached: Vec<Vec<(u32, u32)>> = vec![Vec::new(); rows];
        for (tap, pairs) in taps.iter().enumerate() {
            for pair in pairs {
                reached[pair.target as usize].push((tap as u32, pair.source));
            }
        }
        let mut classes: Vec<Self> = Vec::new();
        for (row, reached) in reached.iter().enumerate() {
            let taps: Vec<u32> = reached.iter().map(|(tap, _)| *tap).collect();
            let index = classes.iter().position(|class| class.taps == taps).unwrap_or_else(|| {
                classes.push(Self { taps, targets: Vec::new(), sources: Vec::new() });
                classes.len() - 1
            });
            classes[index].targets.push(row as u32);
            classes[index].sources.extend(reached.iter().map(|(_, source)| *source));
        }
        classes
    }
}

/// What the target rows hold before the product is added.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Start<'a> {
    Existing,
    Zero,
    /// One value per column.
    Bias(&'a [f32]),
}

/// `target[row] = start + sum over taps of source[row of the tap] right[tap]`, for every target row and every item.
pub(crate) struct RowProduct<'a> {
    pub(crate) source: Rows<'a>,
    pub(crate) inner: usize,
    pub(crate) right: Right<'a>,
    pub(crate) taps: usize,
    pub(crate) columns: usize,
    pub(crate) start: Start<'a>,
    pub(crate) classes: &'a [Class],
    pub(crate) target: &'a mut [f32],
    pub(crate) target_shape: RowShape,
    /// Target rows to fill; the first lies at the start of `target`.
    pub(crate) rows: std::ops::Range<u32>,
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

/// Numbers of the right side that one pass over the rows uses, so that they stay in the second-level cache.
const RIGHT_BLOCK: usize = 48 * 1024;

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
                    let block = vectors * lanes * self.inner * self.taps;
                    (&data[column * self.inner * self.taps..][..block], vectors * lanes)
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

/// Where a tile starts: an item, and a position in a class.
#[derive(Clone, Copy)]
struct Cursor {
    item: usize,
    index: usize,
}

/// One panel of the right side, and the taps of one class that a pass covers.
struct Pass<'a> {
    class: &'a Class,
    taps: std::ops::Range<usize>,
    indices: std::ops::Range<usize>,
    right: &'a [f32],
    step: usize,
    column: usize,
    width: usize,
    first: bool,
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
        let block = (RIGHT_BLOCK / (self.inner * NV * S::F32_LANES)).max(1);
        let mut tap = 0;
        while tap < self.taps {
            let end = (tap + block).min(self.taps);
            for class in self.classes {
                let inside = |bound: usize| class.taps.partition_point(|&t| (t as usize) < bound);
                let at = |row: u32| class.targets.partition_point(|&target| target < row);
                let taps = inside(tap)..inside(end);
                let indices = at(self.rows.start)..at(self.rows.end);
                let first = tap == 0;
                if !taps.is_empty() || first {
                    let pass = Pass { class, taps, indices, right, step, column, width, first };
                    self.pass::<S, NV>(simd, &pass);
                }
            }
            tap = end;
        }
    }

    #[inline(always)]
    fn pass<S: Simd, const NV: usize>(&mut self, simd: S, pass: &Pass<'_>) {
        let total = pass.indices.len() * self.items;
        let mut cursor = Cursor { item: 0, index: pass.indices.start };
        let mut done = 0;
        while done + TILE_ROWS <= total {
            self.tile::<S, NV, TILE_ROWS>(simd, pass, &mut cursor);
            done += TILE_ROWS;
        }
        while done + 3 <= total {
            self.tile::<S, NV, 3>(simd, pass, &mut cursor);
            done += 3;
        }
        while done < total {
            self.tile::<S, NV, 1>(simd, pass, &mut cursor);
            done += 1;
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const NV: usize, const MR: usize>(
        &mut self,
        simd: S,
        pass: &Pass<'_>,
        cursor: &mut Cursor,
    ) {
        let lanes = S::F32_LANES;
        let (class, inner, width) = (pass.class, self.inner, pass.width);
        let mut places = [(0usize, 0usize); MR];
        let mut targets = [0usize; MR];
        for r in 0..MR {
            places[r] = (self.source.shape.offset(cursor.item, 0), cursor.index * class.taps.len());
            let row = class.targets[cursor.index] - self.rows.start;
            targets[r] = self.target_shape.offset(cursor.item, row) + pass.column;
            cursor.index += 1;
            if cursor.index == pass.indices.end {
                cursor.index = pass.indices.start;
                cursor.item += 1;
            }
        }
        let mut tile = [[simd.splat_f32s(0.0); NV]; MR];
        match self.start {
            Start::Zero if pass.first => {}
            Start::Bias(bias) if pass.first => {
                tile = [load::<S, NV>(simd, &bias[pass.column..][..width]); MR];
            }
            _ => {
                for r in 0..MR {
                    tile[r] = load::<S, NV>(simd, &self.target[targets[r]..][..width]);
                }
            }
        }
        for index in pass.taps.clone() {
            let tap = class.taps[index] as usize;
            let empty: &[f32] = &[];
            let mut rows = [empty; MR];
            for r in 0..MR {
                let source = class.sources[places[r].1 + index] as usize;
                rows[r] = &self.source.data[places[r].0 + source * self.source.shape.row..][..inner];
            }
            if pass.step == NV * lanes {
                // A packed panel: the whole tap is one run of vectors.
                let (vectors, _) =
                    S::as_simd_f32s(&pass.right[tap * inner * pass.step..][..inner * pass.step]);
                let (vectors, _) = vectors.as_chunks::<NV>();
                let vectors = &vectors[..inner];
                for k in 0..inner {
                    let b = vectors[k];
                    for r in 0..MR {
                        let a = simd.splat_f32s(rows[r][k]);
                        for v in 0..NV {
                            tile[r][v] = simd.mul_add_e_f32s(a, b[v], tile[r][v]);
                        }
                    }
                }
            } else {
                for (k, b) in pass.right.chunks(pass.step).take(inner).enumerate() {
                    let (b, _) = S::as_simd_f32s(&b[..NV * lanes]);
                    for r in 0..MR {
                        let a = simd.splat_f32s(rows[r][k]);
                        for v in 0..NV {
                            tile[r][v] = simd.mul_add_e_f32s(a, b[v], tile[r][v]);
                        }
                    }
                }
            }
        }
        for r in 0..MR {
            store::<S, NV>(simd, tile[r], &mut self.target[targets[r]..][..width]);
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
        while row + 4 <= total {
            self.tile::<S, NV, 4>(simd, row, column, width);
            row += 4;
        }
        while row < total {
            self.tile::<S, NV, 1>(simd, row, column, width);
            row += 1;
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

/// Packs `inner x columns` for every tap into panels: `source[tap * strides.0 + k * strides.1 + j * strides.2]`, columns padded with
/// zeros to whole vectors.
pub(crate) fn pack(
    lanes: Lanes,
    (taps, inner, columns): (usize, usize, usize),
    source: &[f32],
    strides: (usize, usize, usize),
    packed: &mut [f32],
) {
    let panels = packed[..taps * inner * lanes.padded(columns)].chunks_mut(taps * inner * lanes.panel);
    for (panel, packed) in panels.enumerate() {
        pack_panel(lanes, (taps, inner, columns), source, strides, panel, packed);
    }
}

/// Packs one panel.
pub(crate) fn pack_panel(
    lanes: Lanes,
    (taps, inner, columns): (usize, usize, usize),
    source: &[f32],
    strides: (usize, usize, usize),
    panel: usize,
    packed: &mut [f32],
) {
    let first = panel * lanes.panel;
    let width = (columns - first).min(lanes.panel);
    let padded = lanes.padded(width);
    // A few rows of all taps at a time: where taps are neighbours in the source, a cache line is used up before it is left.
    for start in (0..inner).step_by(8) {
        for tap in 0..taps {
            for k in start..inner.min(start + 8) {
                let packed = &mut packed[(tap * inner + k) * padded..][..padded];
                let from = tap * strides.0 + k * strides.1 + first * strides.2;
                if strides.2 == 1 {
                    packed[..width].copy_from_slice(&source[from..][..width]);
                } else {
                    for (value, source) in
                        packed[..width].iter_mut().zip(source[from..].iter().step_by(strides.2))
                    {
                        *value = *source;
                    }
                }
                packed[width..].fill(0.0);
            }
        }
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
            pack(lanes, (1, k, n), &b, (0, n, 1), &mut packed);
            let mut rows = start.clone();
            RowProduct {
                source: Rows { data: &a, shape: RowShape { item: 0, row: k, column: 0 } },
                inner: k,
                right: Right::Packed(&packed),
                taps: 1,
                columns: n,
                start: Start::Existing,
                classes: &Class::sort(&[identity(m)], m),
                target: &mut rows,
                target_shape: RowShape { item: 0, row: n, column: 0 },
                rows: 0..m as u32,
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
