//! Matrix products as register-tiled kernels over unpacked activations.
//!
//! Activations are stored channels-last, so a position is a row of contiguous channels. A convolution is then, for every tap of its
//! window, a product of the rows that the tap reads with that tap's weights, added to the rows that the tap writes: no copy of the
//! image into columns is ever made. Positions are sorted by the taps that reach them, so that padding costs no multiplication and a
//! stride leaves no gaps. [`RowProduct`] does this for values and for data gradients, [`OuterProduct`] for weight gradients; the other
//! products here are for special shapes.
//!
//! These two keep a tile of at most six rows by four vectors in registers and walk the inner dimension in a fixed order, starting from
//! what the destination holds. So a sum does not depend on how it was split into calls, and the results do not depend on threads.

mod channels;
mod dot;
mod gram;
mod outer;
mod rows;

use pulp::{Arch, Simd, WithSimd};

pub(crate) use channels::{ChannelProduct, ChannelSum};
pub(crate) use dot::DotProduct;
pub(crate) use gram::{Gram, pitch, widen};
pub(crate) use outer::{Filters, MAGIC, OuterProduct, OuterShape, OuterTarget, Sample};
pub(crate) use rows::{Right, RowClass, RowProduct, RowShape, RowSource, StartValue};

/// The most rows of a register tile.
const TILE_ROWS: usize = 6;

/// A row that a tap of a window reads, and the row that it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowPair {
    pub(crate) source: u32,
    pub(crate) target: u32,
}

impl RowPair {
    /// The same pair for the data gradient, which flows the other way.
    pub(crate) fn reversed(&self) -> Self {
        Self { source: self.target, target: self.source }
    }
}

/// The number of lanes of a vector, and of columns of a full panel, on this machine.
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

    /// The number of columns after padding to whole vectors.
    pub(crate) fn padded(self, columns: usize) -> usize {
        columns.next_multiple_of(self.lanes)
    }
}

/// How many vectors a full panel has: as many as fit into the register file with six accumulators for each.
const fn panel_vectors<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { 4 } else { 2 }
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
#[expect(clippy::manual_memcpy, reason = "a copy of slices would take the tile out of the registers")]
fn store<S: Simd, const NV: usize>(simd: S, vectors: [S::f32s; NV], slice: &mut [f32]) {
    let (whole, rest) = S::as_mut_simd_f32s(slice);
    if whole.len() == NV {
        for v in 0..NV {
            whole[v] = vectors[v];
        }
    } else {
        let count = whole.len();
        whole.copy_from_slice(&vectors[..count]);
        simd.partial_store_f32s(rest, vectors[count]);
    }
}

/// Packs `inner x columns` for every tap into panels, from `source[tap * strides.0 + k * strides.1 + j * strides.2]`. Columns are padded
/// with zeros to whole vectors.
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
    if strides.1 == 1 {
        // The source runs along the inner dimension, so this is a transposition, in blocks that read whole cache lines.
        for tap in 0..taps {
            for start in (0..inner).step_by(64) {
                let block = &mut packed
                    [(tap * inner + start) * padded..(tap * inner + inner.min(start + 64)) * padded];
                for j in 0..width {
                    let source = &source[tap * strides.0 + (first + j) * strides.2 + start..];
                    block[j..]
                        .iter_mut()
                        .step_by(padded)
                        .zip(source)
                        .for_each(|(packed, value)| *packed = *value);
                }
                block.chunks_exact_mut(padded).for_each(|row| row[width..].fill(0.0));
            }
        }
        return;
    }
    // Take a few rows of all taps at a time, so that a cache line in which taps are neighbours is used to the end before it is evicted.
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

    fn identity(rows: usize) -> Vec<RowPair> {
        (0..rows as u32).map(|row| RowPair { source: row, target: row }).collect()
    }

    /// Checks both products against their definitions, on one kind of vectors.
    fn products_equal_the_definition<S: Simd>(simd: S) {
        let lanes = Lanes { lanes: S::F32_LANES, panel: S::F32_LANES * panel_vectors::<S>() };
        for (m, k, n) in [(1, 1, 1), (5, 3, 7), (13, 9, 64), (7, 20, 80), (23, 4, 129), (6, 33, 48)] {
            let (a, b) = (values(m * k, 1), values(k * n, 2));
            let start = values(m * n, 3);
            let mut packed = vec![0.0; k * lanes.padded(n)];
            pack(lanes, (1, k, n), &b, (0, n, 1), &mut packed);
            let mut rows = start.clone();
            simd.vectorize(RowProduct {
                source: RowSource { data: &a, shape: RowShape { item: 0, row: k, column: 0 } },
                inner: k,
                right: Right::Packed(&packed),
                taps: 1,
                columns: n,
                start: StartValue::Existing,
                classes: &RowClass::sort(&[identity(m)], m),
                target: &mut rows,
                target_shape: RowShape { item: 0, row: n, column: 0 },
                rows: 0..m as u32,
                items: 1,
            });
            let mut outer = values(k * n, 4);
            let outer_start = outer.clone();
            let c = values(m * n, 5);
            simd.vectorize(OuterProduct {
                items: &[(&a, &c)],
                pairs: &identity(m),
                shape: OuterShape { left: (k, 0), right: (n, 0), first_row: 0, swapped: false },
                rows: k,
                columns: n,
                out: OuterTarget::Added(&mut outer),
            });
            for i in 0..m {
                for j in 0..n {
                    let want: f64 = (0..k).map(|l| f64::from(a[i * k + l]) * f64::from(b[l * n + j])).sum();
                    let want = want + f64::from(start[i * n + j]);
                    // There are at most 33 terms of size one, each rounded by 6e-8.
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

    #[test]
    fn on_plain_numbers() {
        products_equal_the_definition(pulp::Scalar::new());
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn on_every_kind_of_vectors_this_machine_has() {
        if let Some(simd) = pulp::x86::V3::try_new() {
            products_equal_the_definition(simd);
        }
        if let Some(simd) = pulp::x86::V4::try_new() {
            products_equal_the_definition(simd);
        }
    }
}
