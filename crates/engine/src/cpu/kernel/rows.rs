//! Products of rows with weights, which are values and data gradients.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::{RowPair, TILE_ROWS, load, panel_vectors, store};

/// The right side of a row product, which has `inner x columns` for every tap.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Right<'a> {
    /// Panels as `pack` makes them, panel after panel, and in each panel tap after tap.
    Packed(&'a [f32]),
    /// A single tap, row-major with this row length. The columns must be whole vectors.
    Plain(&'a [f32], usize),
}

/// Target rows that are reached by the same taps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowClass {
    pub(crate) taps: Vec<u32>,
    /// The rows that are written, in ascending order.
    pub(crate) targets: Vec<u32>,
    /// The rows that are read: for every target, one for each tap.
    pub(crate) sources: Vec<u32>,
}

impl RowClass {
    /// Sorts the target rows of all taps into classes. Rows that no tap reaches form a class without taps.
    pub(crate) fn sort(taps: &[Vec<RowPair>], rows: usize) -> Vec<Self> {
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
pub(crate) enum StartValue<'a> {
    Existing,
    Zero,
    /// One value for each column.
    Bias(&'a [f32]),
}

/// `target[row] = start + sum over taps of source[row of the tap] right[tap]`, for every target row and every item.
pub(crate) struct RowProduct<'a> {
    pub(crate) source: RowSource<'a>,
    pub(crate) inner: usize,
    pub(crate) right: Right<'a>,
    pub(crate) taps: usize,
    pub(crate) columns: usize,
    pub(crate) start: StartValue<'a>,
    pub(crate) classes: &'a [RowClass],
    pub(crate) target: &'a mut [f32],
    pub(crate) target_shape: RowShape,
    /// The target rows to fill, the first of which lies at the start of `target`.
    pub(crate) rows: Range<u32>,
    pub(crate) items: usize,
}

/// How rows lie in a slice: the distance between items, the distance between rows, and the first column.
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

/// The rows to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowSource<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) shape: RowShape,
}

/// How many numbers of the right side one pass over the rows uses, so that they stay in the second-level cache.
const RIGHT_BLOCK: usize = 48 * 1024;
/// An unpacked right side of more numbers than this is read in bands.
const BANDED: usize = 256 * 1024;

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
        // A large unpacked right side is read in bands of rows, so that every page of it is visited once.
        let band = match self.right {
            Right::Plain(data, _) if data.len() > BANDED => 64,
            _ => self.inner,
        };
        for start in (0..self.inner).step_by(band) {
            self.band(simd, start..(start + band).min(self.inner));
        }
    }
}

/// A panel of columns of the right side.
struct WeightPanel<'a> {
    right: &'a [f32],
    /// The distance between its rows.
    step: usize,
    column: usize,
    width: usize,
}

/// Where a tile starts: an item, and a position in a class.
#[derive(Clone, Copy)]
struct ClassCursor {
    item: usize,
    index: usize,
}

/// One class of rows against a part of the right side.
struct RowPass<'a> {
    class: &'a RowClass,
    /// Which of the class's taps.
    taps: Range<usize>,
    /// Which of the class's rows.
    indices: Range<usize>,
    /// Which rows of each tap's right side.
    depth: Range<usize>,
    panel: &'a WeightPanel<'a>,
    first: bool,
}

impl RowProduct<'_> {
    /// Multiplies by some rows of the right side, panel by panel.
    #[inline(always)]
    fn band<S: Simd>(&mut self, simd: S, depth: Range<usize>) {
        let lanes = S::F32_LANES;
        let widest = lanes * panel_vectors::<S>();
        let mut column = 0;
        while column < self.columns {
            let width = (self.columns - column).min(widest);
            let vectors = width.div_ceil(lanes);
            let (right, step) = match self.right {
                Right::Packed(data) => {
                    let block = vectors * lanes * self.inner * self.taps;
                    (&data[column * self.inner * self.taps..][..block], vectors * lanes)
                }
                Right::Plain(data, row) => (&data[column..], row),
            };
            let panel = WeightPanel { right, step, column, width };
            match vectors {
                4 if panel_vectors::<S>() == 4 => self.panel::<S, 4>(simd, &panel, &depth),
                3 if panel_vectors::<S>() == 4 => self.panel::<S, 3>(simd, &panel, &depth),
                2 => self.panel::<S, 2>(simd, &panel, &depth),
                _ => self.panel::<S, 1>(simd, &panel, &depth),
            }
            column += width;
        }
    }

    /// Multiplies all rows by one panel of the right side, in blocks that stay in the second-level cache.
    #[inline(always)]
    fn panel<S: Simd, const NV: usize>(&mut self, simd: S, panel: &WeightPanel<'_>, depth: &Range<usize>) {
        let block_depth = RIGHT_BLOCK / (NV * S::F32_LANES);
        let block_taps = (block_depth / self.inner).max(1);
        for start in depth.clone().step_by(block_depth) {
            let part = start..depth.end.min(start + block_depth);
            for tap in (0..self.taps).step_by(block_taps) {
                for class in self.classes {
                    let inside = |bound: usize| class.taps.partition_point(|&t| (t as usize) < bound);
                    let at = |row: u32| class.targets.partition_point(|&target| target < row);
                    let taps = inside(tap)..inside(tap + block_taps);
                    let indices = at(self.rows.start)..at(self.rows.end);
                    let first = tap == 0 && start == 0;
                    if !taps.is_empty() || first {
                        let pass = RowPass { class, taps, indices, depth: part.clone(), panel, first };
                        self.pass::<S, NV>(simd, &pass);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn pass<S: Simd, const NV: usize>(&mut self, simd: S, pass: &RowPass<'_>) {
        let total = pass.indices.len() * self.items;
        let mut cursor = ClassCursor { item: 0, index: pass.indices.start };
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
        pass: &RowPass<'_>,
        cursor: &mut ClassCursor,
    ) {
        let lanes = S::F32_LANES;
        let WeightPanel { right, step, column, width } = *pass.panel;
        let class = pass.class;
        let (start, inner) = (pass.depth.start, pass.depth.len());
        let mut places = [(0usize, 0usize); MR];
        let mut targets = [0usize; MR];
        for r in 0..MR {
            places[r] = (self.source.shape.offset(cursor.item, 0), cursor.index * class.taps.len());
            let row = class.targets[cursor.index] - self.rows.start;
            targets[r] = self.target_shape.offset(cursor.item, row) + column;
            cursor.index += 1;
            if cursor.index == pass.indices.end {
                cursor.index = pass.indices.start;
                cursor.item += 1;
            }
        }
        let mut tile = [[simd.splat_f32s(0.0); NV]; MR];
        match self.start {
            StartValue::Zero if pass.first => {}
            StartValue::Bias(bias) if pass.first => {
                tile = [load::<S, NV>(simd, &bias[column..][..width]); MR];
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
                rows[r] = &self.source.data[places[r].0 + source * self.source.shape.row + start..][..inner];
            }
            if step == NV * lanes {
                // In a packed panel the whole tap is one run of vectors.
                let (vectors, _) =
                    S::as_simd_f32s(&right[(tap * self.inner + start) * step..][..inner * step]);
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
                for (k, b) in right[start * step..].chunks(step).take(inner).enumerate() {
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
