//! The transforms between positions and the sixteen planes of tiles. Each goes along one axis at a time, so that every loop reads a few
//! streams of contiguous channels.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::{POINTS, StartValue, Tiles};

/// The four lines of vectors that a transform passes through.
fn lines<S: Simd>(buffer: &mut [f32], len: usize) -> [&mut [S::f32s]; 4] {
    let mut parts = buffer.chunks_exact_mut(len);
    std::array::from_fn(|_| S::as_mut_simd_f32s(parts.next().expect("the buffer has room for four lines")).0)
}

/// The four neighbouring planes of one row of points, from number `start` on.
fn planes_of<S: Simd>(
    planes: &mut [f32],
    plane: usize,
    row: usize,
    start: usize,
    len: usize,
) -> [&mut [S::f32s]; 4] {
    let mut parts = planes[row * 4 * plane..].chunks_exact_mut(plane);
    std::array::from_fn(|_| {
        let part = parts.next().expect("every row of points has four planes");
        S::as_mut_simd_f32s(&mut part[start..][..len]).0
    })
}

/// Computes `B^T d B` for every tile of some rows of tiles.
pub(super) struct Spread<'a> {
    pub(super) tiles: Tiles,
    pub(super) channels: usize,
    pub(super) source: &'a [f32],
    /// The distance between items of the source.
    pub(super) item: usize,
    /// The rows of tiles, counted through all items.
    pub(super) rows: Range<usize>,
    pub(super) planes: &'a mut [f32],
    pub(super) plane: usize,
    pub(super) lines: &'a mut [f32],
}

impl Spread<'_> {
    pub(super) fn run(self) {
        Arch::new().dispatch(self);
    }
}

impl WithSimd for Spread<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { tiles, channels, source, planes, plane, .. } = self;
        let (height, width) = tiles.source;
        let columns = tiles.columns();
        let line = (2 * columns + 2) * channels;
        let (zeros, buffer) = self.lines.split_at_mut(width * channels);
        zeros.fill(0.0);
        // Columns in the padding stay zero, and the others are overwritten for every row of tiles.
        buffer[..4 * line].fill(0.0);
        let vectors = channels / S::F32_LANES;
        let inside = tiles.padding.1 * vectors..(tiles.padding.1 + width) * vectors;
        for (index, row) in self.rows.enumerate() {
            let (item, tile) = (row / tiles.rows(), row % tiles.rows());
            let [a, b, c, d] = std::array::from_fn(|r| {
                let y = (2 * tile + r).wrapping_sub(tiles.padding.0);
                let line = match y < height {
                    true => &source[item * self.item + y * width * channels..][..width * channels],
                    false => &*zeros,
                };
                S::as_simd_f32s(line).0
            });
            let mut along = lines::<S>(buffer, line);
            let [e0, e1, e2, e3] = along.each_mut().map(|line| &mut line[inside.clone()]);
            let n = e0.len();
            let (a, b, c, d) = (&a[..n], &b[..n], &c[..n], &d[..n]);
            let (e1, e2, e3) = (&mut e1[..n], &mut e2[..n], &mut e3[..n]);
            for k in 0..n {
                e0[k] = simd.sub_f32s(a[k], c[k]);
                e1[k] = simd.add_f32s(b[k], c[k]);
                e2[k] = simd.sub_f32s(c[k], b[k]);
                e3[k] = simd.sub_f32s(b[k], d[k]);
            }
            for (row, line) in along.iter().enumerate() {
                let start = index * columns * channels;
                let [v0, v1, v2, v3] = planes_of::<S>(planes, plane, row, start, columns * channels);
                for column in 0..columns {
                    let mut parts = line[2 * column * vectors..][..4 * vectors].chunks_exact(vectors);
                    let [a, b, c, d] =
                        std::array::from_fn(|_| parts.next().expect("a tile reads four columns"));
                    let (a, b, c, d) = (&a[..vectors], &b[..vectors], &c[..vectors], &d[..vectors]);
                    let range = column * vectors..(column + 1) * vectors;
                    let (v0, v1) = (&mut v0[range.clone()], &mut v1[range.clone()]);
                    let (v2, v3) = (&mut v2[range.clone()], &mut v3[range]);
                    for k in 0..vectors {
                        v0[k] = simd.sub_f32s(a[k], c[k]);
                        v1[k] = simd.add_f32s(b[k], c[k]);
                        v2[k] = simd.sub_f32s(c[k], b[k]);
                        v3[k] = simd.sub_f32s(b[k], d[k]);
                    }
                }
            }
        }
    }
}

/// Computes `A g A^T` for every tile of some rows of tiles of one item.
pub(super) struct Lift<'a> {
    pub(super) tiles: Tiles,
    pub(super) out: usize,
    pub(super) source: &'a [f32],
    pub(super) rows: Range<usize>,
    pub(super) planes: &'a mut [f32],
    pub(super) plane: usize,
    pub(super) lines: &'a mut [f32],
}

impl Lift<'_> {
    pub(super) fn run(self) {
        Arch::new().dispatch(self);
    }
}

impl WithSimd for Lift<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { tiles, out, source, planes, plane, .. } = self;
        let (height, width) = tiles.target;
        let columns = tiles.columns();
        let line = 2 * columns * out;
        let (zeros, buffer) = self.lines.split_at_mut(width * out);
        zeros.fill(0.0);
        buffer[..4 * line].fill(0.0);
        let vectors = out / S::F32_LANES;
        let zero = simd.splat_f32s(0.0);
        for (index, tile) in self.rows.enumerate() {
            let [a, b] = [2 * tile, 2 * tile + 1].map(|y| {
                let line = if y < height { &source[y * width * out..][..width * out] } else { &*zeros };
                S::as_simd_f32s(line).0
            });
            let mut along = lines::<S>(buffer, line);
            let n = width * vectors;
            let [e0, e1, e2, e3] = along.each_mut().map(|line| &mut line[..n]);
            let (a, b) = (&a[..n], &b[..n]);
            for k in 0..n {
                e0[k] = a[k];
                e1[k] = simd.add_f32s(a[k], b[k]);
                e2[k] = simd.sub_f32s(a[k], b[k]);
                e3[k] = simd.sub_f32s(zero, b[k]);
            }
            for (row, line) in along.iter().enumerate() {
                let start = index * columns * out;
                let [v0, v1, v2, v3] = planes_of::<S>(planes, plane, row, start, columns * out);
                for column in 0..columns {
                    let (a, b) = line[2 * column * vectors..][..2 * vectors].split_at(vectors);
                    let range = column * vectors..(column + 1) * vectors;
                    let (v0, v1) = (&mut v0[range.clone()], &mut v1[range.clone()]);
                    let (v2, v3) = (&mut v2[range.clone()], &mut v3[range]);
                    for k in 0..vectors {
                        v0[k] = a[k];
                        v1[k] = simd.add_f32s(a[k], b[k]);
                        v2[k] = simd.sub_f32s(a[k], b[k]);
                        v3[k] = simd.sub_f32s(zero, b[k]);
                    }
                }
            }
        }
    }
}

/// Computes `A^T m A` for every tile of some rows of tiles, each of which fills two rows of positions.
pub(super) struct Collect<'a> {
    pub(super) tiles: Tiles,
    pub(super) out: usize,
    pub(super) planes: &'a [f32],
    pub(super) plane: usize,
    /// The rows of tiles, counted through all items.
    pub(super) rows: Range<usize>,
    /// The row of tiles with which the target starts.
    pub(super) first: usize,
    pub(super) target: &'a mut [f32],
    /// The distance between items of the target.
    pub(super) item: usize,
    pub(super) start: StartValue<'a>,
    pub(super) relu: bool,
    pub(super) lines: &'a mut [f32],
}

impl Collect<'_> {
    pub(super) fn run(self) {
        Arch::new().dispatch(self);
    }
}

impl WithSimd for Collect<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { tiles, out, planes, plane, target, .. } = self;
        let (height, width) = tiles.target;
        let columns = tiles.columns();
        let vectors = out / S::F32_LANES;
        let place = |row: usize| (row / tiles.rows() * self.item, row % tiles.rows());
        let origin = place(self.first);
        let origin = origin.0 + origin.1 * 2 * width * out;
        let existing = matches!(self.start, StartValue::Existing);
        let zero = simd.splat_f32s(0.0);
        for (index, row) in self.rows.enumerate() {
            let mut along = lines::<S>(self.lines, 2 * columns * out);
            for (row, line) in along.iter_mut().enumerate() {
                let mut parts = planes[row * 4 * plane..].chunks_exact(plane);
                let [m0, m1, m2, m3] = std::array::from_fn(|_| {
                    let part = parts.next().expect("every row of points has four planes");
                    S::as_simd_f32s(&part[index * columns * out..][..columns * out]).0
                });
                for column in 0..columns {
                    let range = column * vectors..(column + 1) * vectors;
                    let (m0, m1) = (&m0[range.clone()], &m1[range.clone()]);
                    let (m2, m3) = (&m2[range.clone()], &m3[range]);
                    let (a, b) = line[2 * column * vectors..][..2 * vectors].split_at_mut(vectors);
                    for k in 0..vectors {
                        let odd = simd.sub_f32s(m1[k], m2[k]);
                        a[k] = simd.add_f32s(simd.add_f32s(m1[k], m2[k]), m0[k]);
                        b[k] = simd.sub_f32s(odd, m3[k]);
                    }
                }
            }
            let (base, tile) = place(row);
            let n = width * vectors;
            let [e0, e1, e2, e3] = along.map(|line| &line[..n]);
            for r in 0..2 {
                let y = 2 * tile + r;
                if y >= height {
                    continue;
                }
                let target = &mut target[base + y * width * out - origin..][..width * out];
                let target = &mut S::as_mut_simd_f32s(target).0[..n];
                // A closure here would lose the vector instructions of the function around it.
                let (sign, last) =
                    if r == 0 { (simd.splat_f32s(1.0), e0) } else { (simd.splat_f32s(-1.0), e3) };
                let last = &last[..n];
                for k in 0..n {
                    // This is e0 + e1 + e2 for the first row, and e1 - e2 - e3 for the second.
                    let rest = simd.add_f32s(e2[k], last[k]);
                    let value = simd.mul_add_e_f32s(sign, rest, e1[k]);
                    target[k] = if existing { simd.add_f32s(target[k], value) } else { value };
                }
                if let StartValue::Bias(bias) = self.start {
                    let bias = &S::as_simd_f32s(bias).0[..vectors];
                    for row in target.chunks_exact_mut(vectors) {
                        for (value, bias) in row.iter_mut().zip(bias) {
                            *value = simd.add_f32s(*value, *bias);
                        }
                    }
                }
                if self.relu {
                    for value in target.iter_mut() {
                        *value = simd.max_f32s(*value, zero);
                    }
                }
            }
        }
    }
}

/// Adds `G^T u G` of every filter to its nine taps: `[point, channel, out] -> [tap, channel, out]`.
pub(super) fn add_filters(points: &[f32], sum: &mut [f32]) {
    Arch::new().dispatch(AddFilters { points, sum });
}

struct AddFilters<'a> {
    points: &'a [f32],
    sum: &'a mut [f32],
}

impl WithSimd for AddFilters<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let size = self.points.len() / POINTS;
        let n = size / S::F32_LANES;
        let half = simd.splat_f32s(0.5);
        let mut points = self.points.chunks_exact(size);
        let points: [&[S::f32s]; POINTS] = std::array::from_fn(|_| {
            &S::as_simd_f32s(points.next().expect("the slice was cut into a part for each point")).0[..n]
        });
        let mut taps = self.sum.chunks_exact_mut(size);
        let taps: [&mut [S::f32s]; 9] = std::array::from_fn(|_| {
            &mut S::as_mut_simd_f32s(taps.next().expect("a sum has a part for each tap")).0[..n]
        });
        for k in 0..n {
            let mut rows = [[half; 3]; 4];
            for (row, folded) in rows.iter_mut().enumerate() {
                let [a, b, c, d] =
                    [points[4 * row], points[4 * row + 1], points[4 * row + 2], points[4 * row + 3]];
                *folded = fold(simd, half, [a[k], b[k], c[k], d[k]]);
            }
            for column in 0..3 {
                let [a, b, c, d] = rows;
                let folded = fold(simd, half, [a[column], b[column], c[column], d[column]]);
                for (row, value) in folded.into_iter().enumerate() {
                    let tap = &mut taps[3 * row + column][k];
                    *tap = simd.add_f32s(*tap, value);
                }
            }
        }
    }
}

/// `G^T` times four values.
#[inline(always)]
fn fold<S: Simd>(simd: S, half: S::f32s, [a, b, c, d]: [S::f32s; 4]) -> [S::f32s; 3] {
    let even = simd.mul_f32s(simd.add_f32s(b, c), half);
    [simd.add_f32s(even, a), simd.mul_f32s(simd.sub_f32s(b, c), half), simd.add_f32s(even, d)]
}
