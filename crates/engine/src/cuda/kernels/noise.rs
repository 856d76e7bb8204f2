//! Gaussian noise on a lattice.

use super::declare::{ByValue, In, Long, Maybe, Out, Structure, kernels};
use crate::cuda::launch::LaunchGrid;

/// How many coordinates share a stream of random numbers, which are those of one warp.
const STREAM: usize = 1024;

/// A ChaCha20 key, laid out as the kernel reads it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct NoiseKey {
    words: [u32; 8],
}

const _: () = assert!(size_of::<NoiseKey>() == 32);

// SAFETY: both sides have eight words, and the source asserts the same size.
unsafe impl Structure for NoiseKey {
    const TYPE: &'static str = "const __grid_constant__ Key";
}

impl NoiseKey {
    /// Makes a key from its bytes, of which the lowest of each word comes first.
    pub(crate) fn new(bytes: &[u8; 32]) -> Self {
        let (words, _) = bytes.as_chunks::<4>();
        Self { words: std::array::from_fn(|word| u32::from_le_bytes(words[word])) }
    }
}

kernels! {
    /// Computes `sum = step round(x / step + deviation noise)`, where `x` comes from whole numbers that were carried over, or is the plain
    /// sum itself.
    AddNoise = "add_noise" {
        sum: Out<f32>[n],
        carried: Maybe<In<i64>>[n],
        n: Long,
        key: ByValue<NoiseKey>,
        step: f64,
        deviation: f64,
        scale: f64,
        failed: Out<i32>[1],
    } over LaunchGrid::warps(n.div_ceil(STREAM));
}
