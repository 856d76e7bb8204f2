//! Products with weights that are read as they are stored.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

/// `target[item, j] = bias[j] + source[item] . weight[j]`, with weights stored as rows. It is meant for layers so large that reading the
/// weights takes longest, and reads them once and in order.
pub(crate) struct DotProduct<'a> {
    pub(crate) source: &'a [f32],
    /// The distance between items of the source.
    pub(crate) source_item: usize,
    pub(crate) weight: &'a [f32],
    pub(crate) inner: usize,
    /// One value for each column, or none at all.
    pub(crate) bias: &'a [f32],
    pub(crate) target: &'a mut [f32],
    pub(crate) target_item: usize,
    pub(crate) columns: usize,
    pub(crate) items: usize,
}

/// How many numbers of a row are multiplied for all items before the next, so that they stay in the second-level cache.
const DEPTH: usize = 4096;

impl DotProduct<'_> {
    pub(crate) fn run(self) {
        Arch::new().dispatch(self);
    }
}

impl WithSimd for DotProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        for item in 0..self.items {
            let target = &mut self.target[item * self.target_item..][..self.columns];
            if self.bias.is_empty() {
                target.fill(0.0);
            } else {
                target.copy_from_slice(self.bias);
            }
        }
        for start in (0..self.inner).step_by(DEPTH) {
            let depth = start..(start + DEPTH).min(self.inner);
            let mut column = 0;
            while column + 4 <= self.columns {
                self.columns_of::<S, 4>(simd, column, &depth);
                column += 4;
            }
            while column < self.columns {
                self.columns_of::<S, 1>(simd, column, &depth);
                column += 1;
            }
        }
    }
}

impl DotProduct<'_> {
    /// Adds to `N` columns of all items.
    #[inline(always)]
    fn columns_of<S: Simd, const N: usize>(&mut self, simd: S, column: usize, depth: &Range<usize>) {
        let mut item = 0;
        while item + 4 <= self.items {
            self.tile::<S, N, 4>(simd, item, column, depth);
            item += 4;
        }
        while item < self.items {
            self.tile::<S, N, 1>(simd, item, column, depth);
            item += 1;
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const N: usize, const MR: usize>(
        &mut self,
        simd: S,
        item: usize,
        column: usize,
        depth: &Range<usize>,
    ) {
        let whole = depth.len() / S::F32_LANES;
        let row = |r: usize| &self.source[(item + r) * self.source_item..][depth.clone()];
        let weight = |j: usize| &self.weight[(column + j) * self.inner..][depth.clone()];
        let rows: [&[S::f32s]; MR] = std::array::from_fn(|r| &S::as_simd_f32s(row(r)).0[..whole]);
        let weights: [&[S::f32s]; N] = std::array::from_fn(|j| &S::as_simd_f32s(weight(j)).0[..whole]);
        let mut tile = [[simd.splat_f32s(0.0); N]; MR];
        for k in 0..whole {
            let w: [S::f32s; N] = std::array::from_fn(|j| weights[j][k]);
            for (tile, row) in tile.iter_mut().zip(rows) {
                for (sum, w) in tile.iter_mut().zip(w) {
                    *sum = simd.mul_add_e_f32s(row[k], w, *sum);
                }
            }
        }
        let tails: [[f32; N]; MR] = std::array::from_fn(|r| {
            std::array::from_fn(|j| {
                let rest = whole * S::F32_LANES;
                row(r)[rest..].iter().zip(&weight(j)[rest..]).map(|(x, w)| x * w).sum()
            })
        });
        for (r, (tile, tails)) in tile.iter().zip(tails).enumerate() {
            for (j, (sum, tail)) in tile.iter().zip(tails).enumerate() {
                self.target[(item + r) * self.target_item + column + j] += simd.reduce_sum_f32s(*sum) + tail;
            }
        }
    }
}
