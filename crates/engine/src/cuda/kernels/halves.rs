//! Matrix products whose factors are halves, and weight gradients that are written in halves. In bf16 no number needs a power of two, and
//! `largest` is missing.

use super::declare::{Count, Flag, In, Long, Maybe, Out, kernels, rows as strided};
use crate::cuda::launch::LaunchGrid;
use crate::cuda::slice::element;

/// How many columns of a sample's rows a block of threads reads.
const STRIP: usize = 64;

/// How many weights of a gradient in halves a block of threads adds up.
pub(crate) const HALVED_BLOCK: usize = 2048;

/// A run of a weight whose gradients are added up together: how many pairs of a sample come before the weight, how many the weight has, which
/// of its numbers the run begins with, the run's length, where it begins in the sum, its parameter, and the number of its scale.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HalvedBlock {
    pub(crate) start: i32,
    pub(crate) stride: i32,
    pub(crate) first: i32,
    pub(crate) len: i32,
    pub(crate) target: i32,
    pub(crate) entry: i32,
    pub(crate) number: i32,
}

const _: () = assert!(size_of::<HalvedBlock>() == 28);

element! {
    HalvedBlock => "HalvedBlock",
}

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

    /// Adds all samples' gradients that are in halves to the sum. Memory holds `held` samples, of which the first `samples` count.
    SumHalves = "sum_halves" {
        d: In<[u32; 4]>,
        blocks: In<HalvedBlock>[count],
        held: Count[held >= samples],
        scales: In<f32>[samples * scale_stride],
        scale_stride: Count,
        factors: In<f32>[samples * entries],
        entries: Count,
        sum: Out<u32>,
        samples: Count,
        whole: Flag,
    } given { count: usize } over LaunchGrid::blocks(count, HALVED_BLOCK / 8), unsafe: "Every block lies in `held` samples' gradients in halves, which `d` holds weight by weight, and in `sum`; its parameter is one of `entries`, and its scale one of `scale_stride`.";
}
