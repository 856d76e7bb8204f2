//! Pooling and resampling over channels-last rows.

use dapple_graph::Window;
use pulp::{Arch, Simd, WithSimd};

use super::gemm::window_pairs;
use super::kernel::{Class, Pair};
use super::pointwise;

/// Largest value of each window; remembers which tap held it.
#[derive(Debug, Clone)]
pub(crate) struct MaxPool {
    pub(crate) channels: usize,
    /// Whether negative maxima become zero.
    pub(crate) relu: bool,
    classes: Vec<Class>,
}

impl MaxPool {
    pub(crate) fn new(
        window: &Window,
        channels: usize,
        input: &[usize],
        output: &[usize],
        relu: bool,
    ) -> Self {
        let taps = window_pairs(window, input, output);
        Self { channels, relu, classes: Class::sort(&taps, output.iter().product()) }
    }

    /// `winner` holds the tap of each output value.
    pub(crate) fn forward(&self, x: &[f32], y: &mut [f32], winner: &mut [f32]) {
        Arch::new().dispatch(MaxForward { pool: self, x, y, winner });
        if self.relu {
            pointwise::relu(y);
        }
    }

    /// The gradient must be masked before, if negative maxima became zero.
    pub(crate) fn backward(&self, g: &[f32], winner: &[f32], dx: &mut [f32], accumulate: bool) {
        if !accumulate {
            dx.fill(0.0);
        }
        Arch::new().dispatch(MaxBackward { pool: self, g, winner, dx });
    }
}

struct MaxForward<'a> {
    pool: &'a MaxPool,
    x: &'a [f32],
    y: &'a mut [f32],
    winner: &'a mut [f32],
}

impl WithSimd for MaxForward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let channels = self.pool.channels;
        for class in &self.pool.classes {
            for (index, &target) in class.targets.iter().enumerate() {
                let y = &mut self.y[target as usize * channels..][..channels];
                let winner = &mut self.winner[target as usize * channels..][..channels];
                y.fill(f32::NEG_INFINITY);
                let sources = &class.sources[index * class.taps.len()..][..class.taps.len()];
                for (&tap, &source) in class.taps.iter().zip(sources) {
                    let tap = tap as f32;
                    let x = &self.x[source as usize * channels..][..channels];
                    for c in 0..channels {
                        let wins = x[c] > y[c];
                        winner[c] = if wins { tap } else { winner[c] };
                        y[c] = if wins { x[c] } else { y[c] };
                    }
                }
            }
        }
    }
}

struct MaxBackward<'a> {
    pool: &'a MaxPool,
    g: &'a [f32],
    winner: &'a [f32],
    dx: &'a mut [f32],
}

impl WithSimd for MaxBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let channels = self.pool.channels;
        for class in &self.pool.classes {
            for (index, &target) in class.targets.iter().enumerate() {
                let g = &self.g[target as usize * channels..][..channels];
                let winner = &self.winner[target as usize * channels..][..channels];
                let sources = &class.sources[index * class.taps.len()..][..class.taps.len()];
                for (&tap, &source) in class.taps.iter().zip(sources) {
                    let tap = tap as f32;
                    let dx = &mut self.dx[source as usize * channels..][..channels];
                    for c in 0..channels {
                        dx[c] += if winner[c] == tap { g[c] } else { 0.0 };
                    }
                }
            }
        }
    }
}

/// A fixed linear map between positions, the same for every channel: average pooling, adaptive pooling, bilinear resampling.
#[derive(Debug, Clone)]
pub(crate) struct Resample {
    channels: usize,
    terms: Vec<(Pair, f32)>,
}

impl Resample {
    pub(crate) fn average(window: &Window, channels: usize, input: &[usize], output: &[usize]) -> Self {
        let share = 1.0 / window.taps() as f32;
        let pairs = window_pairs(window, input, output).into_iter().flatten();
        Self { channels, terms: pairs.map(|pair| (pair, share)).collect() }
    }

    pub(crate) fn adaptive(channels: usize, input: &[usize], output: &[usize]) -> Self {
        Self::separable(channels, input, output, |from, to, position| {
            let (start, end) = (position * from / to, ((position + 1) * from).div_ceil(to));
            (start..end).map(|place| (place, 1.0 / (end - start) as f32)).collect()
        })
    }

    pub(crate) fn bilinear(channels: usize, input: &[usize], output: &[usize]) -> Self {
        Self::separable(channels, input, output, |from, to, position| {
            let place = ((position as f64 + 0.5) * from as f64 / to as f64 - 0.5).max(0.0);
            let low = (place as usize).min(from - 1);
            let share = (place - low as f64) as f32;
            vec![(low, 1.0 - share), ((low + 1).min(from - 1), share)]
        })
    }

    /// A map that is a product of one map per axis.
    fn separable(
        channels: usize,
        input: &[usize],
        output: &[usize],
        axis: impl Fn(usize, usize, usize) -> Vec<(usize, f32)>,
    ) -> Self {
        let mut terms = Vec::new();
        for target in 0..output.iter().product() {
            let mut rest: usize = target;
            let mut index = vec![0; output.len()];
            for a in (0..output.len()).rev() {
                index[a] = rest % output[a];
                rest /= output[a];
            }
            let mut places = vec![(0, 1.0)];
            for a in 0..input.len() {
                let along = axis(input[a], output[a], index[a]);
                places = places
                    .iter()
                    .flat_map(|&(place, w)| along.iter().map(move |&(i, v)| (place * input[a] + i, w * v)))
                    .collect();
            }
            let pair = |source: usize| Pair { source: source as u32, target: target as u32 };
            terms.extend(places.into_iter().filter(|(_, w)| *w != 0.0).map(|(source, w)| (pair(source), w)));
        }
        Self { channels, terms }
    }

    pub(crate) fn forward(&self, x: &[f32], y: &mut [f32]) {
        y.fill(0.0);
        self.apply(x, y, |pair| (pair.source, pair.target));
    }

    pub(crate) fn backward(&self, g: &[f32], dx: &mut [f32], accumulate: bool) {
        if !accumulate {
            dx.fill(0.0);
        }
        self.apply(g, dx, |pair| (pair.target, pair.source));
    }

    #[inline(always)]
    fn apply(&self, from: &[f32], to: &mut [f32], rows: impl Fn(&Pair) -> (u32, u32)) {
        let channels = self.channels;
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for (pair, weight) in &self.terms {
                    let (source, target) = rows(pair);
                    let from = &from[source as usize * channels..][..channels];
                    let to = &mut to[target as usize * channels..][..channels];
                    to.iter_mut().zip(from).for_each(|(to, from)| *to += weight * from);
                }
            },
        );
    }
}
