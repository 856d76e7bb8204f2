//! Sums of outer products of rows, which are weight gradients.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::{RowPair, TILE_ROWS, load, panel_vectors, store};

/// `out[i, j] += sum over items and pairs of left[i] right[j]`, for rows `i` of a range. The left side is the row that a pair's source
/// names and the right side the row that its target names, or the other way round if the shape is swapped.
pub(crate) struct OuterProduct<'a> {
    /// The source values and target values of every item. [`OuterTarget::Counted`] has samples instead.
    pub(crate) items: &'a [(&'a [f32], &'a [f32])],
    pub(crate) pairs: &'a [RowPair],
    pub(crate) shape: OuterShape,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) out: OuterTarget<'a>,
}

/// Where the sides of an outer product lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OuterShape {
    /// The distance between rows, and the first column, of the left side.
    pub(crate) left: (usize, usize),
    pub(crate) right: (usize, usize),
    /// The first row of `out`, as a column of the left side.
    pub(crate) first_row: usize,
    /// Whether the left side is the target rather than the source.
    pub(crate) swapped: bool,
}

/// Where outer products go, which is row-major, `rows x columns`.
pub(crate) enum OuterTarget<'a> {
    /// They are added to what is there.
    Added(&'a mut [f32]),
    /// Each sample's sum is made in registers, in single precision and in one order, and turned into whole numbers, which are added. So
    /// what a sample adds depends on nothing else.
    Counted { out: &'a mut [u32], samples: &'a [Sample<'a>] },
}

/// One sample's part of a sum in whole numbers: `round(factor value)`, or with filters, column by column, `round(factors (value - means))`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sample<'a> {
    /// The source values from the first item on, and the distance from one item to the next.
    pub(crate) sources: (&'a [f32], usize),
    pub(crate) targets: (&'a [f32], usize),
    pub(crate) items: usize,
    pub(crate) factor: f32,
    pub(crate) filters: Option<Filters<'a>>,
}

impl<'a> Sample<'a> {
    #[inline(always)]
    pub(crate) fn items(self) -> impl Iterator<Item = (&'a [f32], &'a [f32])> {
        let Self { sources, targets, items, .. } = self;
        (0..items).map(move |item| (&sources.0[item * sources.1..], &targets.0[item * targets.1..]))
    }
}

/// The factors by which the columns of a standardised layer are multiplied, and the means that are taken off before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filters<'a> {
    pub(crate) factors: &'a [f32],
    pub(crate) means: &'a [f32],
}

impl OuterProduct<'_> {
    pub(crate) fn run(self) {
        // Without pairs there is nothing to add, but a counted gradient still has its means taken off.
        if !self.pairs.is_empty() || matches!(self.out, OuterTarget::Counted { .. }) {
            Arch::new().dispatch(self);
        }
    }
}

impl WithSimd for OuterProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        // Take items and pairs in blocks whose rows stay in the second-level cache while all tiles read them. Long rows come in smaller
        // blocks, because at strides of whole pages they would compete for a few cache sets.
        let longest = self.shape.left.0.max(self.shape.right.0).max(1);
        let block = (BLOCK / longest).clamp(64, 512);
        if let OuterTarget::Counted { samples: all, .. } = self.out {
            // A sample's sum must not be cut, since it is turned into whole numbers once.
            let items = all.iter().map(|sample| sample.items).max().unwrap_or(0);
            for part in all.chunks((block / (items * self.pairs.len()).max(1)).max(1)) {
                if let OuterTarget::Counted { samples, .. } = &mut self.out {
                    *samples = part;
                }
                self.all_columns(simd);
            }
            return;
        }
        let block_pairs = self.pairs.len().min(block);
        let block_items = (block / block_pairs).max(1);
        let (all_items, all_pairs) = (self.items, self.pairs);
        for items in all_items.chunks(block_items) {
            for pairs in all_pairs.chunks(block_pairs) {
                self.items = items;
                self.pairs = pairs;
                self.all_columns(simd);
            }
        }
    }
}

/// How many numbers all rows of a block of positions have.
const BLOCK: usize = 64 * 1024;
/// How many columns are finished before the next ones begin, which is a page of every row.
const COLUMNS: usize = 1024;

/// The number 1.5 2^23. Every number of single precision within 2^22 of it is whole, so adding it rounds to whole numbers.
pub(crate) const MAGIC: f32 = 12_582_912.0;

impl OuterProduct<'_> {
    #[inline(always)]
    fn all_columns<S: Simd>(&mut self, simd: S) {
        for start in (0..self.columns).step_by(COLUMNS) {
            self.block(simd, start..(start + COLUMNS).min(self.columns));
        }
    }

    /// Computes all rows of some columns.
    #[inline(always)]
    fn block<S: Simd>(&mut self, simd: S, columns: Range<usize>) {
        let total = self.rows;
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
        let place = (row, column, width);
        match &mut self.out {
            OuterTarget::Added(out) => {
                let mut tile = [[simd.splat_f32s(0.0); NV]; MR];
                for (r, tile) in tile.iter_mut().enumerate() {
                    *tile = load::<S, NV>(simd, &out[(row + r) * self.columns + column..][..width]);
                }
                let tile = self.shape.add(simd, tile, self.items.iter().copied(), self.pairs, place);
                for (r, tile) in tile.into_iter().enumerate() {
                    store::<S, NV>(simd, tile, &mut out[(row + r) * self.columns + column..][..width]);
                }
            }
            OuterTarget::Counted { out, samples } => {
                for sample in &**samples {
                    let zero = [[simd.splat_f32s(0.0); NV]; MR];
                    let tile = self.shape.add(simd, zero, sample.items(), self.pairs, place);
                    let filters = sample.filters.map(|filters| {
                        let part = |values: &[f32]| load::<S, NV>(simd, &values[column..][..width]);
                        (part(filters.factors), part(filters.means))
                    });
                    let factor = simd.splat_f32s(sample.factor);
                    for (r, mut tile) in tile.into_iter().enumerate() {
                        let mut factors = [factor; NV];
                        if let Some((own, means)) = filters {
                            for v in 0..NV {
                                tile[v] = simd.sub_f32s(tile[v], means[v]);
                            }
                            factors = own;
                        }
                        let out = &mut out[(row + r) * self.columns + column..][..width];
                        count::<S, NV>(simd, tile, factors, out);
                    }
                }
            }
        }
    }
}

impl OuterShape {
    /// Adds the outer products of all items and pairs to a tile, which lies at this row and column and has this width.
    #[inline(always)]
    fn add<'i, S: Simd, const NV: usize, const MR: usize>(
        &self,
        simd: S,
        mut tile: [[S::f32s; NV]; MR],
        items: impl Iterator<Item = (&'i [f32], &'i [f32])>,
        pairs: &[RowPair],
        (row, column, width): (usize, usize, usize),
    ) -> [[S::f32s; NV]; MR] {
        let lanes = S::F32_LANES;
        let (left_row, left_column) = (self.left.0, self.left.1 + self.first_row + row);
        let (right_row, right_column) = (self.right.0, self.right.1 + column);
        for (source, target) in items {
            let (left, right) = if self.swapped { (target, source) } else { (source, target) };
            for pair in pairs {
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
        tile
    }
}

/// Adds `round(factor value)` to whole numbers. A sum with [`MAGIC`] has no digits after the point, so the one rounding of the fused
/// product leaves the whole number in the low bits.
#[inline(always)]
fn count<S: Simd, const NV: usize>(simd: S, values: [S::f32s; NV], factors: [S::f32s; NV], out: &mut [u32]) {
    let (magic, bits) = (simd.splat_f32s(MAGIC), simd.splat_u32s(MAGIC.to_bits()));
    let (whole, rest) = S::as_mut_simd_u32s(out);
    for v in 0..NV {
        let counted = simd.transmute_u32s_f32s(simd.mul_add_f32s(values[v], factors[v], magic));
        let counted = simd.sub_u32s(counted, bits);
        match whole.get_mut(v) {
            Some(out) => *out = simd.add_u32s(*out, counted),
            None => {
                let out = simd.add_u32s(simd.partial_load_u32s(rest), counted);
                simd.partial_store_u32s(rest, out);
            }
        }
    }
}
