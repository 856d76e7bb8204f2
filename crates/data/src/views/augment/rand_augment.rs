//! RandAugment (Cubuk et al. 2020), with torchvision's list of changes and its ranges of 31 magnitudes.

use chacha20::rand_core::Rng;
use dapple_geometry::Size;

use super::{ViewChange, Warp};
use crate::uniform::below;

/// The strongest magnitude.
const STRONGEST: f64 = 30.0;

/// The changes of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RandAugmentChange {
    Identity,
    ShearX,
    ShearY,
    TranslateX,
    TranslateY,
    Rotate,
    Brightness,
    Colour,
    Contrast,
    Sharpness,
    Posterize,
    Solarize,
    AutoContrast,
    Equalize,
}

impl RandAugmentChange {
    pub(super) const ALL: [Self; 14] = [
        Self::Identity,
        Self::ShearX,
        Self::ShearY,
        Self::TranslateX,
        Self::TranslateY,
        Self::Rotate,
        Self::Brightness,
        Self::Colour,
        Self::Contrast,
        Self::Sharpness,
        Self::Posterize,
        Self::Solarize,
        Self::AutoContrast,
        Self::Equalize,
    ];

    /// The change of a magnitude, in the other direction if it is reversed and has one. `None` leaves the view as it is.
    pub(super) fn at(self, magnitude: u32, reversed: bool, view: Size) -> Option<ViewChange> {
        let share = f64::from(magnitude) / STRONGEST;
        let signed = |most: f64| if reversed { -most * share } else { most * share };
        let factor = || (1.0 + signed(0.9)) as f32;
        // Shears are about the corner of the view.
        let corner = (-f64::from(view.width()) / 2.0, -f64::from(view.height()) / 2.0);
        let shear = || signed(0.3).atan().to_degrees();
        let shift = |side: u32| signed(150.0 / 331.0 * f64::from(side)).trunc();
        Some(match self {
            Self::Identity => return None,
            Self::ShearX => ViewChange::Warp(Warp::new(0.0, (0.0, 0.0), 1.0, (shear(), 0.0), corner)),
            Self::ShearY => ViewChange::Warp(Warp::new(0.0, (0.0, 0.0), 1.0, (0.0, shear()), corner)),
            Self::TranslateX => {
                ViewChange::Warp(Warp::new(0.0, (shift(view.width()), 0.0), 1.0, (0.0, 0.0), (0.0, 0.0)))
            }
            Self::TranslateY => {
                ViewChange::Warp(Warp::new(0.0, (0.0, shift(view.height())), 1.0, (0.0, 0.0), (0.0, 0.0)))
            }
            // Rotations count anticlockwise here.
            Self::Rotate => {
                ViewChange::Warp(Warp::new(-signed(30.0), (0.0, 0.0), 1.0, (0.0, 0.0), (0.0, 0.0)))
            }
            Self::Brightness => ViewChange::Brightness(factor()),
            Self::Colour => ViewChange::Saturation(factor()),
            Self::Contrast => ViewChange::Contrast(factor()),
            Self::Sharpness => ViewChange::Sharpness(factor()),
            Self::Posterize => ViewChange::Posterize { bits: (8.0 - 4.0 * share).round_ties_even() as u32 },
            Self::Solarize => ViewChange::Solarize { threshold: (1.0 - share) as f32 },
            Self::AutoContrast => ViewChange::AutoContrast,
            Self::Equalize => ViewChange::Equalize,
        })
    }
}

/// Draws one change of the list and its direction.
pub(super) fn draw(magnitude: u32, view: Size, random: &mut impl Rng) -> Option<ViewChange> {
    let chosen = RandAugmentChange::ALL[below(random, RandAugmentChange::ALL.len() as u64) as usize];
    chosen.at(magnitude, random.next_u32() >> 31 == 1, view)
}
