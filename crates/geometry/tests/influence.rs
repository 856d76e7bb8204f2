//! The influence mask against real image operations: change the private pixels, and see what else changes.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use common::{small_size, sparse_mask};
use dapple_geometry::{
    CropDistribution, Filter, Mask, Operation, Padding, PaddingMode, Pipeline, Placement, Region, Size,
    inclusion,
};
use proptest::prelude::*;
use proptest::sample::select;

type Image = Vec<Vec<f64>>;

fn transpose(image: &Image) -> Image {
    (0..image[0].len()).map(|x| image.iter().map(|row| row[x]).collect()).collect()
}

/// Applies a one-dimensional operation along rows, then along columns.
fn separable(
    image: &Image,
    along_x: impl Fn(&[f64]) -> Vec<f64>,
    along_y: impl Fn(&[f64]) -> Vec<f64>,
) -> Image {
    let wide: Image = image.iter().map(|row| along_x(row)).collect();
    transpose(&transpose(&wide).iter().map(|column| along_y(column)).collect())
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 { 1.0 } else { (std::f64::consts::PI * x).sin() / (std::f64::consts::PI * x) }
}

fn cubic(x: f64, a: f64) -> f64 {
    let x = x.abs();
    if x < 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}

fn weight(filter: Filter, x: f64) -> f64 {
    match filter {
        Filter::Box => f64::from(-0.5 < x && x <= 0.5),
        Filter::Bilinear => (1.0 - x.abs()).max(0.0),
        Filter::Bicubic => cubic(x, -0.5),
        Filter::Lanczos => {
            if x.abs() < 3.0 {
                sinc(x) * sinc(x / 3.0)
            } else {
                0.0
            }
        }
        Filter::Nearest | Filter::NearestExact => unreachable!(),
    }
}

fn reach(filter: Filter) -> f64 {
    match filter {
        Filter::Box => 0.5,
        Filter::Bilinear => 1.0,
        Filter::Bicubic => 2.0,
        Filter::Lanczos => 3.0,
        Filter::Nearest | Filter::NearestExact => 0.0,
    }
}

/// Normalised weights over the widened support, as image libraries with antialiasing do.
fn resize_antialiased(line: &[f64], output: usize, filter: Filter) -> Vec<f64> {
    let scale = line.len() as f64 / output as f64;
    let widen = scale.max(1.0);
    let support = reach(filter) * widen;
    (0..output)
        .map(|x| {
            let centre = (x as f64 + 0.5) * scale;
            let first = (centre - support + 0.5).max(0.0) as usize;
            let last = ((centre + support + 0.5) as usize).min(line.len());
            let weights: Vec<f64> =
                (first..last).map(|i| weight(filter, (i as f64 + 0.5 - centre) / widen)).collect();
            let total: f64 = weights.iter().sum();
            weights.iter().zip(&line[first..last]).map(|(weight, value)| weight * value).sum::<f64>() / total
        })
        .collect()
}

/// Interpolation between the nearest pixels, the border repeated, coordinates in single precision as tensor libraries do.
fn resize_pointwise(line: &[f64], output: usize, filter: Filter) -> Vec<f64> {
    let scale = line.len() as f32 / output as f32;
    let at = |index: i64| line[index.clamp(0, line.len() as i64 - 1) as usize];
    (0..output)
        .map(|x| {
            let source = (x as f32 + 0.5) * scale - 0.5;
            match filter {
                Filter::Nearest => at((x as f32 * scale).floor() as i64),
                Filter::NearestExact | Filter::Box => at(((x as f32 + 0.5) * scale).floor() as i64),
                Filter::Bilinear => {
                    let source = source.max(0.0);
                    let base = source.floor();
                    let part = f64::from(source - base);
                    at(base as i64) * (1.0 - part) + at(base as i64 + 1) * part
                }
                Filter::Bicubic | Filter::Lanczos => {
                    let base = source.floor();
                    let part = f64::from(source - base);
                    let taps = if filter == Filter::Bicubic { -1..=2 } else { -2..=3 };
                    let shape =
                        |x: f64| if filter == Filter::Bicubic { cubic(x, -0.75) } else { weight(filter, x) };
                    taps.map(|tap| at(base as i64 + tap) * shape(tap as f64 - part)).sum()
                }
            }
        })
        .collect()
}

fn reflect(index: i64, length: i64) -> usize {
    let folded = index.abs();
    (if folded >= length { 2 * (length - 1) - folded } else { folded }) as usize
}

fn pad(line: &[f64], pad: u32, mode: PaddingMode) -> Vec<f64> {
    let length = line.len() as i64;
    (-i64::from(pad)..length + i64::from(pad))
        .map(|index| match mode {
            PaddingMode::Zero => line.get(index as usize).copied().unwrap_or(0.0),
            PaddingMode::Reflect => line[reflect(index, length)],
            PaddingMode::Replicate => line[index.clamp(0, length - 1) as usize],
            PaddingMode::Wrap => line[index.rem_euclid(length) as usize],
        })
        .collect()
}

fn blur(line: &[f64], radius: u32) -> Vec<f64> {
    let (radius, length) = (i64::from(radius).min(line.len() as i64 - 1), line.len() as i64);
    let kernel = |offset: i64| (-0.5 * (offset as f64 / 2.0).powi(2)).exp();
    (0..length)
        .map(|x| (-radius..=radius).map(|offset| kernel(offset) * line[reflect(x + offset, length)]).sum())
        .collect()
}

/// Adds to each pixel something of its block, as quantised block transforms do.
fn block_code(image: &Image, block: usize) -> Image {
    let mut out = image.clone();
    for top in (0..image.len()).step_by(block) {
        for left in (0..image[0].len()).step_by(block) {
            let rows = top..(top + block).min(image.len());
            let columns = left..(left + block).min(image[0].len());
            let sum: f64 = image[rows.clone()].iter().flat_map(|row| &row[columns.clone()]).sum();
            out[rows].iter_mut().flat_map(|row| &mut row[columns.clone()]).for_each(|pixel| *pixel += sum);
        }
    }
    out
}

/// Halves a line by means of two.
fn halve(line: &[f64]) -> Vec<f64> {
    line.chunks(2).map(|pair| pair.iter().sum::<f64>() / pair.len() as f64).collect()
}

/// Doubles a line with the triangle filter that JPEG decoders use for colour.
fn double(line: &[f64], length: usize) -> Vec<f64> {
    (0..length)
        .map(|x| {
            let near = x / 2;
            let far = if x % 2 == 0 { near.saturating_sub(1) } else { (near + 1).min(line.len() - 1) };
            0.75 * line[near] + 0.25 * line[far]
        })
        .collect()
}

fn jpeg(image: &Image, chroma_subsampling: bool) -> Image {
    let luma = block_code(image, 8);
    if !chroma_subsampling {
        return luma;
    }
    let (width, height) = (image[0].len(), image.len());
    let chroma = block_code(&separable(image, halve, halve), 8);
    let chroma = separable(&chroma, |row| double(row, width), |column| double(column, height));
    luma.iter().zip(&chroma).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a + b).collect()).collect()
}

fn run(image: &Image, operation: &Operation) -> Image {
    match operation {
        Operation::Pad { padding, mode } => {
            separable(image, |row| pad(row, padding.x, *mode), |column| pad(column, padding.y, *mode))
        }
        Operation::Resize { to, filter, antialias } => {
            let resize = |line: &[f64], output: u32| {
                if line.len() == output as usize {
                    line.to_vec()
                } else if *antialias && reach(*filter) > 0.0 {
                    resize_antialiased(line, output as usize, *filter)
                } else {
                    resize_pointwise(line, output as usize, *filter)
                }
            };
            separable(image, |row| resize(row, to.width()), |column| resize(column, to.height()))
        }
        Operation::Blur { radius_x, radius_y } => {
            separable(image, |row| blur(row, *radius_x), |column| blur(column, *radius_y))
        }
        Operation::FlipHorizontal => image.iter().map(|row| row.iter().rev().copied().collect()).collect(),
        Operation::FlipVertical => image.iter().rev().cloned().collect(),
        Operation::Turn { clockwise: true } => transpose(&image.iter().rev().cloned().collect()),
        Operation::Turn { clockwise: false } => transpose(image).into_iter().rev().collect(),
        Operation::Pointwise => {
            image.iter().map(|row| row.iter().map(|value| value * 1.5 + 0.1).collect()).collect()
        }
        Operation::Jpeg { chroma_subsampling } => jpeg(image, *chroma_subsampling),
        Operation::Global(_) => unreachable!(),
    }
}

/// Deterministic values without structure.
fn noise(x: u32, y: u32, seed: u32) -> f64 {
    let mixed = (x.wrapping_mul(0x9e37_79b1) ^ y.wrapping_mul(0x85eb_ca77) ^ seed.wrapping_mul(0xc2b2_ae3d))
        .wrapping_mul(0x27d4_eb2f);
    f64::from(mixed >> 8) / f64::from(1u32 << 24)
}

/// The pixels that change when the private ones do.
fn changed(mask: &Mask, operations: &[Operation]) -> Mask {
    let size = mask.size();
    let draw = |private: u32| -> Image {
        let value = |x, y| noise(x, y, if mask.get(x, y) { private } else { 1 });
        (0..size.height()).map(|y| (0..size.width()).map(|x| value(x, y)).collect()).collect()
    };
    let through = |image: Image| operations.iter().fold(image, |image, operation| run(&image, operation));
    let (one, other) = (through(draw(2)), through(draw(3)));
    let size = Size::new(one[0].len() as u32, one.len() as u32).unwrap();
    // Rounding of sums over unchanged pixels is the same in both runs: any difference is influence.
    Mask::from_fn(size, |x, y| one[y as usize][x as usize] != other[y as usize][x as usize]).unwrap()
}

fn filter() -> impl Strategy<Value = Filter> {
    select(Filter::ALL.to_vec())
}

fn resize() -> impl Strategy<Value = Operation> {
    (small_size(1..24), filter(), any::<bool>()).prop_map(|(to, filter, antialias)| Operation::Resize {
        to,
        filter,
        antialias,
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    let mode = select(PaddingMode::ALL.to_vec());
    prop_oneof![
        3 => resize(),
        2 => (0u32..4, 0u32..4, mode).prop_map(|(x, y, mode)| Operation::Pad { padding: Padding { x, y }, mode }),
        2 => (0u32..4, 0u32..4).prop_map(|(radius_x, radius_y)| Operation::Blur { radius_x, radius_y }),
        1 => any::<bool>().prop_map(|chroma_subsampling| Operation::Jpeg { chroma_subsampling }),
        1 => Just(Operation::FlipHorizontal),
        1 => Just(Operation::FlipVertical),
        1 => any::<bool>().prop_map(|clockwise| Operation::Turn { clockwise }),
        1 => Just(Operation::Pointwise),
    ]
}

fn pipeline(operations: Vec<Operation>, crop: Size) -> Pipeline {
    Pipeline::new(operations, CropDistribution::Fixed(crop)).unwrap()
}

fn pixel() -> Size {
    Size::new(1, 1).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn whatever_changes_is_inside_the_influence(mask in sparse_mask(1..24), operations in proptest::collection::vec(operation(), 0..4)) {
        let pipeline = pipeline(operations.clone(), pixel());
        if let Ok(influence) = pipeline.influence(&mask) {
            let changed = changed(&mask, &operations);
            prop_assert_eq!(changed.size(), influence.size());
            for (index, (&changed, &inside)) in changed.bytes().iter().zip(influence.bytes()).enumerate() {
                prop_assert!(changed <= inside, "pixel {} changed outside the influence", index);
            }
        }
    }

    /// Not looser than needed: every pixel of the influence has a changed one within one pixel.
    #[test]
    fn the_influence_is_tight(x in 0u32..40, y in 0u32..40, image in small_size(4..40), to in small_size(4..40), antialias: bool, linear: bool) {
        let (x, y) = (x % image.width(), y % image.height());
        let mask = Mask::from_fn(image, |column, row| column == x && row == y).unwrap();
        let filter = if linear { Filter::Bilinear } else { Filter::Box };
        let operations = vec![Operation::Resize { to, filter, antialias }];
        let changed = changed(&mask, &operations);
        let influence = pipeline(operations, pixel()).influence(&mask).unwrap();
        for row in 0..to.height() {
            for column in 0..to.width() {
                let near = (row.saturating_sub(1)..=row + 1).any(|y| (column.saturating_sub(1)..=column + 1).any(|x| changed.get(x, y)));
                // A region that no output pixel reads may still lie on a footprint's closed border.
                prop_assert!(!influence.get(column, row) || near || changed.is_empty());
            }
        }
    }

    /// Behind any pipeline the worst case over placements is at least the count at each placement, and the lower bound holds.
    #[test]
    fn anywhere_covers_every_placement(mask in sparse_mask(1..5), image in small_size(1..9), operations in proptest::collection::vec(operation(), 0..4), share in (0.0f64..1.0, 0.0f64..1.0)) {
        let trial = pipeline(operations.clone(), pixel());
        let (_, _, extent) = mask.bounding_box().unwrap();
        if let Ok(reaching) = trial.size_before_crop(image) && image.contains(extent) {
            let side = |share: f64, length: u32| 1 + (share * f64::from(length)) as u32;
            let crop = Size::new(side(share.0, reaching.width()), side(share.1, reaching.height())).unwrap();
            let pipeline = pipeline(operations, crop);
            let region = Region::Mask(mask);
            let found = inclusion(&region, Placement::Anywhere, image, &pipeline).unwrap();
            let mut most = 0;
            for (x, y) in common::placements(image, extent) {
                let at = inclusion(&region, Placement::At { x, y }, image, &pipeline).unwrap();
                most = most.max(at.counts.unwrap().hits);
            }
            let counts = found.counts.unwrap();
            prop_assert!(counts.hits >= most);
            prop_assert!(found.lower_bound() <= most as f64 / counts.crop_origins as f64);
        }
    }

    /// A rectangle behind one resize, blur or compression is counted exactly.
    #[test]
    fn rectangles_are_exact(patch in small_size(1..5), image in small_size(4..12), first in operation(), share in (0.0f64..1.0, 0.0f64..1.0)) {
        let trial = pipeline(vec![first], pixel());
        if let Ok(reaching) = trial.size_before_crop(image) {
            let side = |share: f64, length: u32| 1 + (share * f64::from(length)) as u32;
            let crop = Size::new(side(share.0, reaching.width()), side(share.1, reaching.height())).unwrap();
            let pipeline = pipeline(vec![first], crop);
            let found = inclusion(&Region::Rectangle(patch), Placement::Anywhere, image, &pipeline).unwrap();
            let most = common::placements(image, patch)
                .map(|(x, y)| inclusion(&Region::Rectangle(patch), Placement::At { x, y }, image, &pipeline).unwrap().counts.unwrap().hits)
                .max();
            prop_assert_eq!(Some(found.counts.unwrap().hits), most);
        }
    }
}

#[test]
fn pointwise_changes_nothing() {
    let mask = Mask::from_fn(Size::new(5, 4).unwrap(), |x, y| x == 2 && y == 1).unwrap();
    assert_eq!(pipeline(vec![Operation::Pointwise], pixel()).influence(&mask).unwrap(), mask);
}
