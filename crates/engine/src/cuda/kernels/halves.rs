//! Matrix products whose factors are halves, and weight gradients that are written in halves. In bf16 no number needs a power of two, and
//! `largest` is missing.

use super::declare::{Count, Flag, In, Long, Maybe, Out, kernels, rows as strided};
use crate::cuda::launch::LaunchGrid;

/// How many columns of a sample's rows a block of threads reads.
const STRIP: usize = 64;

kernels! {
    /// Raises `largest` to the size of each sample's largest number, as bits. If `d` is given, it becomes the sum over all rows.
    SizesOfSamples = "sizes_of_samples" {
        x: In<[f32; 4]>[samples * rows * columns / 4],
        columns: Count[columns.is_multiple_of(4)],
        rows: Count,
        d: Maybe<Out<f32>>[strided(samples, stride, columns)],
        stride: Long,
        largest: Out<u32>[samples],
    } given { samples: usize }
    over LaunchGrid { blocks: [columns.div_ceil(STRIP), samples, 1], threads: 256, shared: 0 };

    /// Rounds numbers to halves. Each run of `len` numbers shares one power of two, if there are any.
    ToHalves = "to_halves" {
        x: In<[f32; 4]>[n / 4],
        halves: Out<[u32; 4]>[n / 8],
        largest: Maybe<In<u32>>[n.div_ceil(len)],
        len: Long[len > 0 && len.is_multiple_of(8) && n.is_multiple_of(len)],
        n: Long,
    } over LaunchGrid::each(n / 8);

    /// Takes the powers of both factors off a product, and adds a bias if there is one. A sample has `len` values.
    TakePowersOff = "take_powers_off" {
        y: Out<[f32; 4]>[n / 4],
        largest: In<u32>[n.div_ceil(len)],
        weight_largest: In<u32>[1],
        bias: Maybe<In<[f32; 4]>>[channels / 4],
        channels: Count[channels > 0 && channels.is_multiple_of(4)],
        len: Long[len > 0 && len.is_multiple_of(channels) && n.is_multiple_of(len)],
        n: Long,
    } over LaunchGrid::fours(n);

    /// Adds all samples' gradients of a weight, which are in halves, to the sum.
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
