//! Resizing and blurring: every output pixel is a weighted sum of a range of input pixels, axis by axis.

use dapple_geometry::{Filter, Size};

use super::buffer::Buffer;

/// The weights of one axis. Output pixel `x` reads `count` input pixels from `first[x]` on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Taps {
    first: Vec<usize>,
    count: usize,
    // [output, count]
    weights: Vec<f32>,
}

impl Taps {
    /// A resize as torchvision does it on floating-point tensors, with pixel centres at half-integers. With antialiasing the filter is
    /// widened by the down-scale factor and its weights are normalised within the image; without it, pixels beyond the edge repeat the
    /// edge.
    ///
    /// # Guarantee
    /// Only pixels within the footprint that the geometry counts have a weight.
    pub(super) fn resize(input: u32, output: u32, filter: Filter, antialias: bool) -> Self {
        let scale = f64::from(input) / f64::from(output);
        let pixels = (0..output).map(|x| match filter {
            Filter::Nearest | Filter::NearestExact => (nearest(x, input, output, filter), vec![1.0]),
            _ => {
                let centre = (2 * u64::from(x) + 1) as f64 * f64::from(input) / (2.0 * f64::from(output));
                weighted(centre, scale, i64::from(input), filter, antialias)
            }
        });
        Self::new(input as usize, pixels.collect())
    }

    /// A blur by a Gaussian kernel of `2 radius + 1` pixels with the deviation `0.3 (radius - 1) + 0.8`. The edge pixel repeats.
    pub(super) fn blur(length: u32, radius: u32) -> Self {
        let deviation = 0.3 * (f64::from(radius) - 1.0) + 0.8;
        let kernel = |offset: i64| (-0.5 * (offset as f64 / deviation).powi(2)).exp();
        let (wide, reach) = (i64::from(length), i64::from(radius));
        let pixels = (0..wide).map(|x| clamped(x - reach, x + reach, wide, |index| kernel(index - x)));
        Self::new(length as usize, pixels.collect())
    }

    /// Gives all pixels the same number of weights by adding zeros.
    fn new(input: usize, pixels: Vec<(usize, Vec<f32>)>) -> Self {
        let count = pixels.iter().map(|(_, weights)| weights.len()).max().unwrap_or(1);
        let mut taps =
            Self { first: Vec::with_capacity(pixels.len()), count, weights: vec![0.0; pixels.len() * count] };
        for ((first, weights), padded) in pixels.iter().zip(taps.weights.chunks_exact_mut(count)) {
            let start = (*first).min(input - count);
            padded[first - start..][..weights.len()].copy_from_slice(weights);
            taps.first.push(start);
        }
        taps
    }

    /// Filters a row where every pixel reads `COUNT` others. Knowing that number at compile time is much quicker if it is small.
    fn row<const COUNT: usize>(&self, row: &[f32], target: &mut [f32]) {
        let (weights, _) = self.weights.as_chunks::<COUNT>();
        for ((target, &first), weights) in target.iter_mut().zip(&self.first).zip(weights) {
            let values = row[first..].first_chunk().unwrap_or(&[0.0; COUNT]);
            *target = dot(values, weights);
        }
    }

    fn long_row(&self, row: &[f32], target: &mut [f32]) {
        for ((target, &first), weights) in
            target.iter_mut().zip(&self.first).zip(self.weights.chunks_exact(self.count))
        {
            *target = dot(&row[first..first + self.count], weights);
        }
    }

    fn output(&self) -> usize {
        self.first.len()
    }
}

/// The input pixel that is nearest to output pixel `x`: `floor(x * scale)` for [`Filter::Nearest`], and for every other filter the pixel
/// around its centre, `floor((x + 1/2) * scale)`.
pub(super) fn nearest(x: u32, input: u32, output: u32, filter: Filter) -> usize {
    let (x, input, output) = (u64::from(x), u64::from(input), u64::from(output));
    let index = match filter {
        Filter::Nearest => x * input / output,
        _ => (2 * x + 1) * input / (2 * output),
    };
    index.min(input - 1) as usize
}

fn dot(values: &[f32], weights: &[f32]) -> f32 {
    values.iter().zip(weights).map(|(value, weight)| value * weight).sum()
}

/// Weights of a filter around `centre`.
fn weighted(centre: f64, scale: f64, length: i64, filter: Filter, antialias: bool) -> (usize, Vec<f32>) {
    let widen = if antialias { scale.max(1.0) } else { 1.0 };
    let support = reach(filter) * widen;
    let weight = |index: i64| shape(filter, antialias, (index as f64 + 0.5 - centre) / widen);
    let first = (centre - support + 0.5).floor() as i64;
    let last = (centre + support + 0.5).floor() as i64 - 1;
    if antialias {
        clamped(first.max(0), last.min(length - 1), length, weight)
    } else {
        clamped(first, last, length, weight)
    }
}

/// Normalised weights of the pixels from `first` to `last`. Weights beyond the image are added to the edge pixel.
fn clamped(first: i64, last: i64, length: i64, weight: impl Fn(i64) -> f64) -> (usize, Vec<f32>) {
    let inside = |index: i64| index.clamp(0, length - 1);
    let start = inside(first);
    let mut weights = vec![0.0; (inside(last) - start + 1).max(1) as usize];
    for index in first..=last {
        weights[(inside(index) - start) as usize] += weight(index);
    }
    let total: f64 = weights.iter().sum();
    if total == 0.0 {
        // No pixel centre is within reach, so the pixel around the middle is taken.
        weights[0] = 1.0;
        return (start as usize, weights.into_iter().map(|weight| weight as f32).collect());
    }
    (start as usize, weights.into_iter().map(|weight| (weight / total) as f32).collect())
}

fn reach(filter: Filter) -> f64 {
    match filter {
        Filter::Nearest | Filter::NearestExact | Filter::Box => 0.5,
        Filter::Bilinear => 1.0,
        Filter::Bicubic => 2.0,
        Filter::Lanczos => 3.0,
    }
}

/// The value of the filter at distance `x` from its centre.
fn shape(filter: Filter, antialias: bool, x: f64) -> f64 {
    let distance = x.abs();
    if distance > reach(filter) {
        return 0.0;
    }
    match filter {
        Filter::Nearest | Filter::NearestExact | Filter::Box => f64::from(u8::from(x > -0.5)),
        Filter::Bilinear => 1.0 - distance,
        Filter::Bicubic => {
            // Two values are in use: -0.5 in Pillow and antialiased torch, -0.75 in torch without antialiasing.
            let a = if antialias { -0.5 } else { -0.75 };
            if distance < 1.0 {
                ((a + 2.0) * distance - (a + 3.0)) * distance * distance + 1.0
            } else {
                (((distance - 5.0) * distance + 8.0) * distance - 4.0) * a
            }
        }
        Filter::Lanczos => sinc(x) * sinc(x / 3.0),
    }
}

fn sinc(x: f64) -> f64 {
    let angle = x * std::f64::consts::PI;
    if angle == 0.0 { 1.0 } else { angle.sin() / angle }
}

/// Applies weights along x and y to planes `[channels, height, width]`; `None` leaves an axis as it is.
pub(super) fn apply(
    planes: Buffer,
    size: Size,
    channels: usize,
    along_x: Option<&Taps>,
    along_y: Option<&Taps>,
) -> Buffer {
    let (width, height) = (size.width() as usize, size.height() as usize);
    let (planes, width) = match along_x {
        None => (planes, width),
        Some(taps) => {
            let mut output = Buffer::zeros(channels * height * taps.output());
            for (row, target) in planes.chunks_exact(width).zip(output.chunks_exact_mut(taps.output())) {
                match taps.count {
                    1 => taps.row::<1>(row, target),
                    2 => taps.row::<2>(row, target),
                    3 => taps.row::<3>(row, target),
                    4 => taps.row::<4>(row, target),
                    5 => taps.row::<5>(row, target),
                    6 => taps.row::<6>(row, target),
                    _ => taps.long_row(row, target),
                }
            }
            (output, taps.output())
        }
    };
    let Some(taps) = along_y else { return planes };
    let mut output = Buffer::zeros(channels * taps.output() * width);
    for (plane, target) in
        planes.chunks_exact(height * width).zip(output.chunks_exact_mut(taps.output() * width))
    {
        for ((target, &first), weights) in
            target.chunks_exact_mut(width).zip(&taps.first).zip(taps.weights.chunks_exact(taps.count))
        {
            for (row, &weight) in plane[first * width..].chunks_exact(width).zip(weights) {
                for (sum, value) in target.iter_mut().zip(row) {
                    *sum += weight * value;
                }
            }
        }
    }
    output
}
