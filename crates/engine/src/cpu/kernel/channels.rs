//! Products of rows channel by channel, for convolutions in which every channel has a filter of its own.

use pulp::{Arch, Simd, WithSimd};

use super::{RowClass, StartValue};

/// How many vectors of channels are summed in registers.
const VECTORS: usize = 4;

/// `target[row] = start + sum over taps of source[row of the tap] * weights[tap]`, each channel by itself.
pub(crate) struct ChannelProduct<'a> {
    pub(crate) classes: &'a [RowClass],
    pub(crate) channels: usize,
    /// `[tap, channel]`.
    pub(crate) weights: &'a [f32],
    pub(crate) start: StartValue<'a>,
    pub(crate) source: &'a [f32],
    pub(crate) target: &'a mut [f32],
}

impl ChannelProduct<'_> {
    pub(crate) fn run(self) {
        Arch::new().dispatch(self);
    }

    /// Computes the channels of one row from `first` on, as many as `N` vectors hold.
    #[inline(always)]
    fn vectors<S: Simd, const N: usize>(
        &mut self,
        simd: S,
        row: usize,
        first: usize,
        reach: (&[u32], &[u32]),
    ) {
        let channels = self.channels;
        let part = &mut self.target[row * channels + first..][..N * S::F32_LANES];
        let mut sums = match self.start {
            StartValue::Existing => read::<S, N>(simd, part),
            StartValue::Zero => [simd.splat_f32s(0.0); N],
            StartValue::Bias(bias) => read(simd, &bias[first..]),
        };
        for (&tap, &source) in reach.0.iter().zip(reach.1) {
            let weights = read::<S, N>(simd, &self.weights[tap as usize * channels + first..]);
            let values = read::<S, N>(simd, &self.source[source as usize * channels + first..]);
            for v in 0..N {
                sums[v] = simd.mul_add_f32s(weights[v], values[v], sums[v]);
            }
        }
        write(simd, sums, part);
    }

    /// Computes the last channels of one row, which do not fill a vector.
    #[inline(always)]
    fn rest(&mut self, row: usize, first: usize, reach: (&[u32], &[u32])) {
        let channels = self.channels;
        for channel in first..channels {
            let value = &mut self.target[row * channels + channel];
            *value = match self.start {
                StartValue::Existing => *value,
                StartValue::Zero => 0.0,
                StartValue::Bias(bias) => bias[channel],
            };
            for (&tap, &source) in reach.0.iter().zip(reach.1) {
                let weight = self.weights[tap as usize * channels + channel];
                *value += weight * self.source[source as usize * channels + channel];
            }
        }
    }
}

impl WithSimd for ChannelProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let lanes = S::F32_LANES;
        for class in self.classes {
            let taps = class.taps.len();
            for (index, &target) in class.targets.iter().enumerate() {
                let reach = (&class.taps[..], &class.sources[index * taps..][..taps]);
                let mut first = 0;
                while first + VECTORS * lanes <= self.channels {
                    self.vectors::<S, VECTORS>(simd, target as usize, first, reach);
                    first += VECTORS * lanes;
                }
                while first + lanes <= self.channels {
                    self.vectors::<S, 1>(simd, target as usize, first, reach);
                    first += lanes;
                }
                self.rest(target as usize, first, reach);
            }
        }
    }
}

/// `sum[tap] += sum over target rows of source[row of the tap] * target[row]`, each channel by itself.
pub(crate) struct ChannelSum<'a> {
    pub(crate) classes: &'a [RowClass],
    pub(crate) channels: usize,
    pub(crate) source: &'a [f32],
    pub(crate) target: &'a [f32],
    /// `[tap, channel]`.
    pub(crate) sum: &'a mut [f32],
}

/// How many target rows all taps read before the next ones come, so that these rows stay in the cache.
const ROWS: usize = 16;

impl ChannelSum<'_> {
    pub(crate) fn run(self) {
        Arch::new().dispatch(self);
    }

    /// Sums the channels of one tap from `first` on, as many as `N` vectors hold.
    #[inline(always)]
    fn vectors<S: Simd, const N: usize>(
        &mut self,
        simd: S,
        (tap, first): (usize, usize),
        rows: impl Iterator<Item = (usize, usize)>,
    ) {
        let channels = self.channels;
        let part = &mut self.sum[tap * channels + first..][..N * S::F32_LANES];
        let mut sums = read::<S, N>(simd, part);
        for (source, target) in rows {
            let left = read::<S, N>(simd, &self.source[source * channels + first..]);
            let right = read::<S, N>(simd, &self.target[target * channels + first..]);
            for v in 0..N {
                sums[v] = simd.mul_add_f32s(left[v], right[v], sums[v]);
            }
        }
        write(simd, sums, part);
    }
}

impl WithSimd for ChannelSum<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (lanes, channels) = (S::F32_LANES, self.channels);
        for class in self.classes {
            let taps = class.taps.len();
            for start in (0..class.targets.len()).step_by(ROWS) {
                let targets = &class.targets[start..class.targets.len().min(start + ROWS)];
                let sources = &class.sources[start * taps..][..targets.len() * taps];
                for (index, &tap) in class.taps.iter().enumerate() {
                    let rows = || {
                        let sources = sources[index..].iter().step_by(taps);
                        sources.zip(targets).map(|(&source, &target)| (source as usize, target as usize))
                    };
                    let tap = tap as usize;
                    let mut first = 0;
                    while first + VECTORS * lanes <= channels {
                        self.vectors::<S, VECTORS>(simd, (tap, first), rows());
                        first += VECTORS * lanes;
                    }
                    while first + lanes <= channels {
                        self.vectors::<S, 1>(simd, (tap, first), rows());
                        first += lanes;
                    }
                    for channel in first..channels {
                        for (source, target) in rows() {
                            self.sum[tap * channels + channel] += self.source[source * channels + channel]
                                * self.target[target * channels + channel];
                        }
                    }
                }
            }
        }
    }
}

/// The first `N` vectors of a slice.
#[inline(always)]
#[expect(clippy::manual_memcpy, reason = "a copy of slices would go through memory")]
fn read<S: Simd, const N: usize>(simd: S, slice: &[f32]) -> [S::f32s; N] {
    let whole = &S::as_simd_f32s(&slice[..N * S::F32_LANES]).0[..N];
    let mut vectors = [simd.splat_f32s(0.0); N];
    for v in 0..N {
        vectors[v] = whole[v];
    }
    vectors
}

#[inline(always)]
#[expect(clippy::manual_memcpy, reason = "a copy of slices would take the sums out of the registers")]
fn write<S: Simd, const N: usize>(_: S, vectors: [S::f32s; N], slice: &mut [f32]) {
    let whole = &mut S::as_mut_simd_f32s(slice).0[..N];
    for v in 0..N {
        whole[v] = vectors[v];
    }
}
