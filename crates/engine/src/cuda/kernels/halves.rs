//! Factors of matrix products in halves, and weight gradients that are written down in halves.

use super::declare::{Count, Flag, In, Long, Maybe, Out, kernels, rows as strided};
use crate::cuda::launch::LaunchGrid;

/// Columns that a block of threads reads of a sample's rows.
const STRIP: usize = 64;
/// Weights of which one block adds up the squares.
pub(crate) const HALVED_PART: usize = 16_384;

kernels! {
    /// The sizes of the largest numbers of samples, as bits, which are raised from what is there; and where `d` is given the sums over
    /// all rows.
    SizesOfSamples = "sizes_of_samples" {
        x: In<[f32; 4]>[samples * rows * columns / 4],
        columns: Count[columns.is_multiple_of(4)],
        rows: Count,
        d: Maybe<Out<f32>>[strided(samples, stride, columns)],
        stride: Long,
        largest: Out<u32>[samples],
    } given { samples: usize }
    over LaunchGrid { blocks: [columns.div_ceil(STRIP), samples, 1], threads: 256, shared: 0 };

    /// Numbers as halves, two in each of `halves`; `len` of them have one power of two.
    ToHalves = "to_halves" {
        x: In<[f32; 4]>[n / 4],
        halves: Out<[u32; 4]>[n / 8],
        largest: In<u32>[n.div_ceil(len)],
        len: Long[len > 0 && len.is_multiple_of(8) && n.is_multiple_of(len)],
        n: Long,
    } over LaunchGrid::each(n / 8);

    /// Takes the powers of both factors off a product, and adds a bias where there is one. `len` values are a sample's.
    TakePowersOff = "take_powers_off" {
        y: Out<[f32; 4]>[n / 4],
        largest: In<u32>[n.div_ceil(len)],
        weight_largest: In<u32>[1],
        bias: Maybe<In<[f32; 4]>>[channels / 4],
        channels: Count[channels > 0 && channels.is_multiple_of(4)],
        len: Long[len > 0 && len.is_multiple_of(channels) && n.is_multiple_of(len)],
        n: Long,
    } over LaunchGrid::fours(n);

    /// Upper bounds on squared norms of parts of each sample's weight gradient in halves, and the scale of its numbers, of which `taken`
    /// was taken off before they were rounded.
    HalvedNorms = "halved_norms" {
        d: In<[u32; 4]>[strided(samples, stride / 4, len / 8)],
        stride: Long[stride.is_multiple_of(4)],
        len: Long[len.is_multiple_of(8)],
        x_largest: In<u32>[samples],
        g_largest: In<u32>[samples],
        taken: f32,
        scales: Out<f32>[strided(samples, scale_stride, 1)],
        scale_stride: Count,
        partials: Out<f64>[strided(samples, partial_stride, len.div_ceil(HALVED_PART))],
        partial_stride: Count,
    } given { samples: usize }
    over LaunchGrid { blocks: [len.div_ceil(HALVED_PART), samples, 1], threads: 256, shared: 0 };

    /// Adds what all samples add of a weight gradient in halves.
    SumHalves = "sum_halves" {
        d: In<[u32; 4]>[strided(samples, stride / 4, n / 8)],
        stride: Long[stride.is_multiple_of(4)],
        scales: In<f32>[strided(samples, scale_stride, 1)],
        scale_stride: Count,
        factors: In<f32>[strided(samples, entries, 1)],
        entries: Count,
        sum: Out<u32>[n],
        n: Long[n.is_multiple_of(8)],
        samples: Count,
        whole: Flag,
    } over LaunchGrid::each(n / 8);
}
