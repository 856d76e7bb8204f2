//! Convolutions of a view.

use dapple_geometry::PaddingMode;

use super::ViewPlanes;
use crate::views::buffer::Buffer;

/// Convolves with a Gaussian kernel along both axes; the view is mirrored about its edge pixels, as torchvision does.
///
/// The radius is below both sides of the view.
pub(super) fn blur(view: &mut ViewPlanes<'_>, radius: usize, deviation: f64) {
    let weights = kernel(radius, deviation);
    let width = view.width();
    let mirrored = |place: usize, length: usize| {
        let source = PaddingMode::Reflect.source(place as i64 - radius as i64, length as i64);
        source.map_or(0, |(pixel, _)| pixel as usize)
    };
    let mut padded = Buffer::zeros(width + 2 * radius);
    let mut blurred = view.copy();
    for (source, target) in view.values.chunks_exact(width).zip(blurred.chunks_exact_mut(width)) {
        padded[radius..radius + width].copy_from_slice(source);
        for place in (0..radius).chain(radius + width..width + 2 * radius) {
            padded[place] = source[mirrored(place, width)];
        }
        weigh(target, &weights, |tap| &padded[tap..tap + width]);
    }
    let (pixels, height) = (view.pixels(), view.size.height() as usize);
    for (source, plane) in blurred.chunks_exact(pixels).zip(view.planes()) {
        for (y, target) in plane.chunks_exact_mut(width).enumerate() {
            weigh(target, &weights, |tap| &source[mirrored(y + tap, height) * width..][..width]);
        }
    }
}

/// The weights of a Gaussian kernel, which add up to 1.
fn kernel(radius: usize, deviation: f64) -> Vec<f32> {
    let offset = |tap: usize| (tap as f64 - radius as f64) / deviation;
    let weights: Vec<f64> = (0..=2 * radius).map(|tap| (-0.5 * offset(tap).powi(2)).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| (weight / total) as f32).collect()
}

/// Writes the weighted sum of one row for each tap.
fn weigh<'a>(target: &mut [f32], weights: &[f32], row: impl Fn(usize) -> &'a [f32]) {
    target.fill(0.0);
    for (tap, weight) in weights.iter().enumerate() {
        for (sum, value) in target.iter_mut().zip(row(tap)) {
            *sum += weight * value;
        }
    }
}

/// Blends with a view smoothed by thirteenths, five of them in the middle, as Pillow and torchvision do. The outermost pixels stay.
pub(super) fn sharpness(view: &mut ViewPlanes<'_>, factor: f32) {
    let (width, pixels) = (view.width(), view.pixels());
    let copy = view.copy();
    for (source, plane) in copy.chunks_exact(pixels).zip(view.planes()) {
        let rows = plane.chunks_exact_mut(width).skip(1);
        for (source, target) in source.windows(3 * width).step_by(width).zip(rows) {
            let rows = source.chunks_exact(width).map(|row| row.windows(3));
            let mut rows = rows.map(|row| row.map(|three| three[0] + three[1] + three[2]));
            let (Some(above), Some(here), Some(below)) = (rows.next(), rows.next(), rows.next()) else {
                break;
            };
            let around = above.zip(here).zip(below).map(|((above, here), below)| above + here + below);
            for (target, around) in target.iter_mut().skip(1).zip(around) {
                let smooth = (around + 4.0 * *target) / 13.0;
                *target += (1.0 - factor) * (smooth - *target);
            }
        }
        plane.iter_mut().for_each(|value| *value = value.clamp(0.0, 1.0));
    }
}

/// The length of Sobel's gradient in each channel, a quarter of it so that an edge from black to white is 1, and cut there. The edge
/// pixels repeat.
pub(super) fn sobel(view: &mut ViewPlanes<'_>) {
    let (width, height, pixels) = (view.width(), view.size.height() as usize, view.pixels());
    let copy = view.copy();
    for (source, plane) in copy.chunks_exact(pixels).zip(view.planes()) {
        let row = |y: usize| &source[y * width..][..width];
        for (y, target) in plane.chunks_exact_mut(width).enumerate() {
            let (above, here, below) = (row(y.saturating_sub(1)), row(y), row((y + 1).min(height - 1)));
            for (x, target) in target.iter_mut().enumerate() {
                let (left, right) = (x.saturating_sub(1), (x + 1).min(width - 1));
                let down = |x: usize| below[x] - above[x];
                let column = |x: usize| above[x] + 2.0 * here[x] + below[x];
                let (along_x, along_y) =
                    (column(right) - column(left), down(left) + 2.0 * down(x) + down(right));
                *target = ((along_x * along_x + along_y * along_y).sqrt() / 4.0).min(1.0);
            }
        }
    }
}
