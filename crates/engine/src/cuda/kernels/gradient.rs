//! Each sample's weight gradient of a layer over tokens, in halves, with its norm.

use super::declare::{Count, In, Long, Maybe, Out, kernels, rows as strided};
use crate::cuda::launch::LaunchGrid;

/// How many rows and columns a tile has, and how many bytes its stages take.
const TILE: usize = 128;
const STAGES: usize = 64 << 10;

/// How many tiles a gradient of `out` rows of `features` numbers has.
pub(crate) fn gradient_tiles(out: usize, features: usize) -> usize {
    out.div_ceil(TILE) * features.div_ceil(TILE)
}

kernels! {
    /// Writes each sample's weight gradient in halves, bounds the squared norms of its tiles, and writes the scale of its numbers, which are
    /// multiplied by `taken` before they are rounded. In bf16 `x_largest` and `g_largest` are missing, and `bias` may
    /// be given, which becomes the sum of `g` over each sample's rows.
    HalvedGradientTiles = "halved_gradient" [large] {
        x: In<[u32; 4]>[samples * rows * features / 8],
        x_largest: Maybe<In<u32>>[samples],
        g: In<[u32; 4]>[samples * rows * out / 8],
        g_largest: Maybe<In<u32>>[samples],
        d: Out<[u32; 4]>[samples * out * features / 8],
        features: Count[features.is_multiple_of(8)],
        out: Count[out.is_multiple_of(8)],
        rows: Count,
        taken: f32,
        bias: Maybe<Out<f32>>[strided(samples, bias_stride, out)],
        bias_stride: Long,
        scales: Out<f32>[strided(samples, scale_stride, 1)],
        scale_stride: Count,
        partials: Out<f64>[strided(samples, partial_stride, gradient_tiles(out, features))],
        partial_stride: Count,
    } given { samples: usize }
    over LaunchGrid { blocks: [features.div_ceil(TILE), out.div_ceil(TILE), samples], threads: 128, shared: STAGES };
}
