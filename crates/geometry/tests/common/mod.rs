//! The oracle: an image of pixel names, padded, mirrored and turned literally.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "shared by several test binaries, each using a part"
)]

use std::ops::Range;

use dapple_geometry::{CropDistribution, Mask, Operation, Padding, PaddingMode, Pipeline, Size};
use proptest::prelude::*;
use proptest::sample::select;

/// An image of names: `None` is a constant, `Some((x, y))` the original pixel.
type Named = Vec<Vec<Option<(u32, u32)>>>;

fn named(image: Size) -> Named {
    (0..image.height()).map(|y| (0..image.width()).map(|x| Some((x, y))).collect()).collect()
}

/// One line padded the obvious way, pixel by pixel from the edge outwards.
fn pad_line<T: Clone>(line: &[T], pad: usize, mode: PaddingMode, constant: &T) -> Vec<T> {
    let n = line.len();
    let mut out: Vec<T> = Vec::new();
    for distance in (1..=pad).rev() {
        out.push(match mode {
            PaddingMode::Zero => constant.clone(),
            PaddingMode::Reflect => line[distance].clone(),
            PaddingMode::Replicate => line[0].clone(),
            PaddingMode::Wrap => line[n - distance].clone(),
        });
    }
    out.extend_from_slice(line);
    for distance in 1..=pad {
        out.push(match mode {
            PaddingMode::Zero => constant.clone(),
            PaddingMode::Reflect => line[n - 1 - distance].clone(),
            PaddingMode::Replicate => line[n - 1].clone(),
            PaddingMode::Wrap => line[distance - 1].clone(),
        });
    }
    out
}

fn apply(image: Named, operation: &Operation) -> Named {
    match operation {
        Operation::Pad { padding, mode } => {
            let rows: Named =
                image.iter().map(|row| pad_line(row, padding.x as usize, *mode, &None)).collect();
            let blank = vec![None; rows[0].len()];
            pad_line(&rows, padding.y as usize, *mode, &blank)
        }
        Operation::FlipHorizontal => image.into_iter().map(|row| row.into_iter().rev().collect()).collect(),
        Operation::FlipVertical => image.into_iter().rev().collect(),
        Operation::Turn { clockwise } => {
            let (height, width) = (image.len(), image[0].len());
            let mut out = vec![vec![None; height]; width];
            for (y, row) in image.iter().enumerate() {
                for (x, &name) in row.iter().enumerate() {
                    if *clockwise {
                        out[x][height - 1 - y] = name;
                    } else {
                        out[width - 1 - x][y] = name;
                    }
                }
            }
            out
        }
        _ => image,
    }
}

fn processed(image: Size, pipeline: &Pipeline) -> Named {
    pipeline.before().iter().fold(named(image), apply)
}

pub fn origins(image: Size, pipeline: &Pipeline, crop: Size) -> u64 {
    let image = processed(image, pipeline);
    let columns = image[0].len() - crop.width() as usize + 1;
    let rows = image.len() - crop.height() as usize + 1;
    (columns * rows) as u64
}

/// Looks into every crop for a pixel of the region, whose bounding box starts at `place`.
pub fn brute_force_hits(
    image: Size,
    region: &Mask,
    place: (u32, u32),
    pipeline: &Pipeline,
    crop: Size,
) -> u64 {
    let (left, top, _) = region.bounding_box().unwrap();
    let private = |(x, y): (u32, u32)| {
        x >= place.0 && y >= place.1 && region.get(x - place.0 + left, y - place.1 + top)
    };
    let image = processed(image, pipeline);
    let (crop_width, crop_height) = (crop.width() as usize, crop.height() as usize);
    let mut hits = 0;
    for v in 0..=image.len() - crop_height {
        for u in 0..=image[0].len() - crop_width {
            let rows = &image[v..v + crop_height];
            let sees =
                rows.iter().any(|row| row[u..u + crop_width].iter().flatten().any(|&name| private(name)));
            hits += u64::from(sees);
        }
    }
    hits
}

pub fn placements(image: Size, extent: Size) -> impl Iterator<Item = (u32, u32)> {
    let columns = image.width() - extent.width();
    (0..=image.height() - extent.height()).flat_map(move |y| (0..=columns).map(move |x| (x, y)))
}

pub fn small_size(range: Range<u32>) -> impl Strategy<Value = Size> {
    (range.clone(), range).prop_map(|(width, height)| Size::new(width, height).unwrap())
}

/// A mask with at least one pixel.
pub fn sparse_mask(range: Range<u32>) -> impl Strategy<Value = Mask> {
    small_size(range)
        .prop_flat_map(|size| {
            let bytes = prop_oneof![3 => Just(0u8), 1 => Just(1u8)];
            (Just(size), proptest::collection::vec(bytes, size.pixels() as usize))
        })
        .prop_map(|(size, mut bytes)| {
            if bytes.iter().all(|&byte| byte == 0) {
                bytes[size.pixels() as usize / 2] = 1;
            }
            Mask::from_bytes(size, bytes).unwrap()
        })
}

/// A small image, region, copying pipeline and crop that fit together.
#[derive(Debug, Clone)]
pub struct Case {
    pub image: Size,
    pub region: Mask,
    pub pipeline: Pipeline,
    pub crop: Size,
}

fn operation() -> impl Strategy<Value = Operation> {
    let mode = select(PaddingMode::ALL.to_vec());
    prop_oneof![
        4 => (0u32..5, 0u32..5, mode).prop_map(|(x, y, mode)| Operation::Pad { padding: Padding { x, y }, mode }),
        1 => Just(Operation::FlipHorizontal),
        1 => Just(Operation::FlipVertical),
        1 => any::<bool>().prop_map(|clockwise| Operation::Turn { clockwise }),
        1 => Just(Operation::Pointwise),
    ]
}

pub fn case() -> impl Strategy<Value = Case> {
    let shape = (small_size(1..8), sparse_mask(1..5), proptest::collection::vec(operation(), 0..3));
    (shape, 0.0f64..1.0, 0.0f64..1.0).prop_filter_map("sizes must fit", |((image, region, before), x, y)| {
        let (_, _, extent) = region.bounding_box()?;
        if !image.contains(extent) {
            return None;
        }
        let trial = Pipeline::new(before.clone(), CropDistribution::fixed(1, 1).ok()?).ok()?;
        let reaching = trial.size_before_crop(image).ok()?;
        // Two mixed paddings in a row may leave the exact families; one is always exact.
        if before.iter().filter(|operation| matches!(operation, Operation::Pad { .. })).count() > 1 {
            return None;
        }
        let side = |share: f64, length: u32| 1 + (share * f64::from(length)) as u32;
        let crop = Size::new(side(x, reaching.width()), side(y, reaching.height())).ok()?;
        let pipeline = Pipeline::new(before, CropDistribution::Fixed(crop)).ok()?;
        Some(Case { image, region, pipeline, crop })
    })
}
