//! Inner products of all rows with each other, in double precision.

use pulp::{Arch, Simd, WithSimd};

/// Rows are padded to a multiple of this many columns, which fills whole vectors on any machine.
const PADDED: usize = 8;
/// The rows and columns of a tile. Its eight sums, and what they are made of, fit into any register file.
const ROWS: usize = 4;
const COLUMNS: usize = 2;

/// The distance between rows of `inner` values.
pub(crate) fn pitch(inner: usize) -> usize {
    inner.next_multiple_of(PADDED)
}

/// Writes rows in double precision. If there are factors, each value is multiplied by its column's, which is exact for two numbers of single
/// precision.
pub(crate) fn widen(rows: &[f32], inner: usize, factors: Option<&[f32]>, to: &mut [f64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (row, to) in rows.chunks_exact(inner).zip(to.chunks_exact_mut(pitch(inner))) {
                let (values, rest) = to.split_at_mut(inner);
                match factors {
                    Some(factors) => {
                        for ((to, value), factor) in values.iter_mut().zip(row).zip(factors) {
                            *to = f64::from(*value) * f64::from(*factor);
                        }
                    }
                    None => values.iter_mut().zip(row).for_each(|(to, value)| *to = f64::from(*value)),
                }
                rest.fill(0.0);
            }
        },
    );
}

/// Computes `out[i, j]` as row `i` times row `j`, for all pairs of `count` rows that are [`pitch`] apart.
pub(crate) struct Gram<'a> {
    pub(crate) rows: &'a [f64],
    pub(crate) count: usize,
    pub(crate) pitch: usize,
    pub(crate) out: &'a mut [f64],
}

impl Gram<'_> {
    pub(crate) fn run(self) {
        Arch::new().dispatch(self);
    }

    #[inline(always)]
    fn tile<S: Simd, const MR: usize, const NR: usize>(&mut self, simd: S, row: usize, column: usize) {
        let of = |row: usize| S::as_simd_f64s(&self.rows[row * self.pitch..][..self.pitch]).0;
        let (left, right) = (
            std::array::from_fn::<_, MR, _>(|r| of(row + r)),
            std::array::from_fn::<_, NR, _>(|c| of(column + c)),
        );
        let mut sums = [[simd.splat_f64s(0.0); NR]; MR];
        for k in 0..right[0].len() {
            for r in 0..MR {
                let a = left[r][k];
                for c in 0..NR {
                    sums[r][c] = simd.mul_add_e_f64s(a, right[c][k], sums[r][c]);
                }
            }
        }
        for (r, sums) in sums.into_iter().enumerate() {
            for (c, sum) in sums.into_iter().enumerate() {
                let value = simd.reduce_sum_f64s(sum);
                self.out[(row + r) * self.count + column + c] = value;
                self.out[(column + c) * self.count + row + r] = value;
            }
        }
    }
}

impl WithSimd for Gram<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let mut row = 0;
        while row < self.count {
            let whole = row + ROWS <= self.count;
            let mut column = row;
            // It suffices to begin at the diagonal, because the rest is its mirror image.
            while column < self.count {
                let wide = column + COLUMNS <= self.count;
                match (whole, wide) {
                    (true, true) => self.tile::<S, ROWS, COLUMNS>(simd, row, column),
                    (true, false) => self.tile::<S, ROWS, 1>(simd, row, column),
                    (false, true) => self.tile::<S, 1, COLUMNS>(simd, row, column),
                    (false, false) => self.tile::<S, 1, 1>(simd, row, column),
                }
                column += if wide { COLUMNS } else { 1 };
            }
            row += if whole { ROWS } else { 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_is_multiplied() {
        for (count, inner) in [(1, 1), (3, 5), (4, 8), (7, 13), (9, 40), (16, 3)] {
            let rows: Vec<f32> = (0..count * inner).map(|i| ((i * 7919) % 101) as f32 - 50.0).collect();
            let factors: Vec<f32> = (0..inner).map(|i| 1.0 + i as f32).collect();
            let mut wide = vec![f64::NAN; count * pitch(inner)];
            let mut out = vec![f64::NAN; count * count];
            widen(&rows, inner, Some(&factors), &mut wide);
            Gram { rows: &wide, count, pitch: pitch(inner), out: &mut out }.run();
            for i in 0..count {
                for j in 0..count {
                    let of = |row: usize, k: usize| f64::from(rows[row * inner + k]) * f64::from(factors[k]);
                    // These are whole numbers far below 2^53, so every sum is exact.
                    let want: f64 = (0..inner).map(|k| of(i, k) * of(j, k)).sum();
                    assert_eq!(out[i * count + j], want, "{count} x {inner}: {i}, {j}");
                }
            }
        }
    }
}
