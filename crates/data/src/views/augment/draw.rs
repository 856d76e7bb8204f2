//! What an augmentation does to one view, drawn from its ranges.

use chacha20::rand_core::Rng;
use dapple_geometry::{AffineRanges, AugmentationKind, ColourJitter, Size};

use super::{ViewChange, Warp, rand_augment};
use crate::uniform::{below, unit};

/// Draws the changes of one augmentation for one view, in their order.
pub(super) fn changes(kind: &AugmentationKind, view: Size, random: &mut impl Rng) -> Vec<ViewChange> {
    let one = match *kind {
        AugmentationKind::ColourJitter(jitter) => return colours(&jitter, random),
        AugmentationKind::RandAugment { changes, magnitude } => {
            return (0..changes).filter_map(|_| rand_augment::draw(magnitude, view, random)).collect();
        }
        AugmentationKind::Greyscale => ViewChange::Greyscale,
        AugmentationKind::Invert => ViewChange::Invert,
        AugmentationKind::Posterize { bits } => ViewChange::Posterize { bits },
        AugmentationKind::Solarize { threshold } => ViewChange::Solarize { threshold: threshold as f32 },
        AugmentationKind::AutoContrast => ViewChange::AutoContrast,
        AugmentationKind::Equalize => ViewChange::Equalize,
        AugmentationKind::Affine(ranges) => ViewChange::Warp(warp(&ranges, view, random)),
        AugmentationKind::Cutout(size) => {
            let mut along =
                |side: u32, length: u32| below(random, u64::from(side)) as i64 - i64::from(length / 2);
            let top = along(view.height(), size.height());
            ViewChange::Cutout { left: along(view.width(), size.width()), top, size }
        }
        AugmentationKind::Noise { deviation } => ViewChange::Noise { deviation: within(deviation, random) },
        AugmentationKind::Blur { radius, deviation } => {
            ViewChange::Blur { radius, deviation: within(deviation, random) }
        }
        AugmentationKind::Sharpness { factor } => ViewChange::Sharpness(within(factor, random) as f32),
        AugmentationKind::Sobel => ViewChange::Sobel,
    };
    vec![one]
}

/// A uniform number of a range.
fn within((low, high): (f64, f64), random: &mut impl Rng) -> f64 {
    low + (high - low) * unit(random)
}

/// The changes of colour that are asked for, in an order that is uniform among all.
fn colours(jitter: &ColourJitter, random: &mut impl Rng) -> Vec<ViewChange> {
    let ColourJitter { brightness, contrast, saturation, hue } = *jitter;
    let mut drawn = Vec::with_capacity(4);
    let mut push = |range: (f64, f64), same: f64, change: fn(f32) -> ViewChange| {
        if range != (same, same) {
            drawn.push(change(within(range, random) as f32));
        }
    };
    push(brightness, 1.0, ViewChange::Brightness);
    push(contrast, 1.0, ViewChange::Contrast);
    push(saturation, 1.0, ViewChange::Saturation);
    push(hue, 0.0, ViewChange::Hue);
    for last in (1..drawn.len()).rev() {
        drawn.swap(last, below(random, last as u64 + 1) as usize);
    }
    drawn
}

/// A warp with shifts of whole pixels, as torchvision draws them.
fn warp(ranges: &AffineRanges, view: Size, random: &mut impl Rng) -> Warp {
    let AffineRanges { degrees, translate, scale, shear_x, shear_y } = *ranges;
    let mut shift = |share: f64, side: u32| {
        let most = share * f64::from(side);
        within((-most, most), random).round_ties_even()
    };
    let shift = (shift(translate.0, view.width()), shift(translate.1, view.height()));
    let angle = within(degrees, random);
    let shear = (within(shear_x, random), within(shear_y, random));
    Warp::new(angle, shift, within(scale, random), shear, (0.0, 0.0))
}
