//! Tests what augmentations may reach, and how they are drawn.

use dapple_geometry::{AffineRanges, ColourJitter, CropDistribution, PixelReach};
use dapple_plan::spec::Pixels;
use dapple_plan::{PlanSpec, Spatial, ViewPlan};
use proptest::prelude::*;

use super::super::tests::{case, image, random, views};
use super::rand_augment::RandAugmentChange;
use super::*;
use crate::statistics::{ALPHA, binomial_accepts, chi_square_accepts};
use crate::{Image, LabelMap, Values};

fn always(kind: AugmentationKind) -> Augmentation {
    Augmentation { kind, probability: 1.0 }
}

/// Any augmentation. A blur needs views of at least 4x4 pixels.
fn kind() -> impl Strategy<Value = AugmentationKind> {
    let range = |least: f64, most: f64| (least..most, 0.0..1.0f64).prop_map(|(low, wide)| (low, low + wide));
    let factor = || prop_oneof![Just((1.0, 1.0)), range(0.0, 2.0)];
    let jitter = (factor(), factor(), factor(), prop_oneof![Just((0.0, 0.0)), Just((-0.4, 0.5))]).prop_map(
        |(brightness, contrast, saturation, hue)| {
            AugmentationKind::ColourJitter(ColourJitter { brightness, contrast, saturation, hue })
        },
    );
    // A range of one number is drawn at its ends, where the declared reach is tight.
    let one = |least: f64, most: f64| (least..most).prop_map(|number| (number, number));
    let slight = |most: f64| prop_oneof![Just((0.0, 0.0)), one(-most, most), Just((-most, most))];
    let affine = |degrees: f64, scale: f64, shear: f64| {
        let scale = prop_oneof![Just((1.0, 1.0)), one(1.0 / scale, scale), Just((1.0 / scale, scale))];
        (slight(degrees), (0.0..0.3f64, 0.0..0.3f64), scale, slight(shear), slight(shear)).prop_map(
            |(degrees, translate, scale, shear_x, shear_y)| {
                AugmentationKind::Affine(AffineRanges { degrees, translate, scale, shear_x, shear_y })
            },
        )
    };
    prop_oneof![
        2 => jitter,
        2 => affine(180.0, 3.0, 60.0),
        4 => affine(8.0, 1.2, 8.0),
        1 => Just(AugmentationKind::Greyscale),
        1 => Just(AugmentationKind::Invert),
        1 => (1u32..=8).prop_map(|bits| AugmentationKind::Posterize { bits }),
        1 => (0.0..1.0f64).prop_map(|threshold| AugmentationKind::Solarize { threshold }),
        1 => Just(AugmentationKind::AutoContrast),
        1 => Just(AugmentationKind::Equalize),
        1 => (1u32..9, 1u32..9)
            .prop_map(|(width, height)| AugmentationKind::Cutout(Size::new(width, height).unwrap())),
        1 => range(0.0, 0.5).prop_map(|deviation| AugmentationKind::Noise { deviation }),
        1 => (1u32..4, range(0.1, 3.0)).prop_map(|(radius, deviation)| AugmentationKind::Blur { radius, deviation }),
        1 => factor().prop_map(|factor| AugmentationKind::Sharpness { factor }),
        1 => Just(AugmentationKind::Sobel),
        1 => (1u32..3, 0u32..=30)
            .prop_map(|(changes, magnitude)| AugmentationKind::RandAugment { changes, magnitude }),
    ]
}

/// Views of whole pictures of this size, changed in this way.
fn changing(size: Size, channels: usize, augment: &[Augmentation]) -> Result<Views, DataError> {
    let normalise = super::super::Normalise::new(channels, Some(&[0.25]), Some(&[0.5])).unwrap();
    let plain = views(Vec::new(), CropDistribution::Fixed(size), size);
    Views { normalise, ..plain }.with_augmentations(augment)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// One pixel changes a view only as far away as its augmentations declare, one after the other, whatever is drawn.
    #[test]
    fn a_pixel_reaches_no_farther_than_declared(
        kinds in prop::collection::vec(kind(), 1..3),
        (width, height) in (4u32..20, 4u32..20),
        colour in any::<bool>(),
        place in any::<prop::sample::Index>(),
        shown in prop::array::uniform3(any::<u8>()),
        stream in any::<u64>(),
    ) {
        let size = Size::new(width, height).unwrap();
        let channels = if colour { 3 } else { 1 };
        let augment: Vec<Augmentation> = kinds.into_iter().map(always).collect();
        let views = changing(size, channels, &augment).unwrap();
        let pixels = size.pixels() as usize;
        let pixel = place.index(pixels);
        let mut bytes: Vec<u8> = (0..pixels * channels).map(|value| (value * 37 + value * value % 101) as u8).collect();
        let show = |bytes: &[u8]| {
            let image = Image::new(size, channels, Values::Bytes(bytes.to_vec())).unwrap();
            let mut view = vec![0.0; views.view_length()];
            views.draw(&image, &mut random(stream), &mut view).unwrap();
            view
        };
        let before = show(&bytes);
        bytes[pixel * channels..][..channels].copy_from_slice(&shown[..channels]);
        let after = show(&bytes);
        let reach = augment.iter().fold(PixelReach::OWN, |reach, next| reach.then(next.reach(size)));
        for (value, (before, after)) in before.iter().zip(&after).enumerate() {
            let seen = value % pixels;
            let apart = |along: fn(usize, usize) -> usize| {
                along(seen, width as usize).abs_diff(along(pixel, width as usize)) as u32
            };
            let covered = reach.covers(apart(|pixel, width| pixel % width), apart(|pixel, width| pixel / width));
            prop_assert!(covered || before.to_bits() == after.to_bits(), "{seen} {pixel} {reach:?}");
        }
    }

    /// Augmentations see the crop alone: even those that reach everywhere in a view leave the promise of the geometry as it is.
    #[test]
    fn a_region_outside_the_crop_changes_no_augmented_view(
        case in case(), kinds in prop::collection::vec(kind(), 1..4),
    ) {
        let augment: Vec<Augmentation> = kinds.into_iter().map(always).collect();
        let Some(influenced) = case.is_influenced() else { return Ok(()) };
        // A blur that the view is too small for is refused.
        let Ok(views) = case.views().with_augmentations(&augment) else { return Ok(()) };
        let show = |patch: f32| {
            let mut view = vec![0.0; views.view_length()];
            let ground = |x: u32, y: u32| (x * 7 + y * 13) as f32 % 5.0 / 5.0;
            let image = image(case.size, |x, y| if case.inside(x, y) { patch } else { ground(x, y) });
            views.draw(&image, &mut random(case.stream), &mut view).unwrap();
            view
        };
        prop_assert!(influenced || show(0.0) == show(1.0));
    }
}

/// A view's changes depend on its own random numbers only: with the same stream they are the same, and views of one record differ.
#[test]
fn changes_are_drawn_anew_for_each_view() {
    let size = Size::new(6, 5).unwrap();
    let noise = always(AugmentationKind::Noise { deviation: (0.1, 0.2) });
    let mut views = changing(size, 1, &[noise]).unwrap();
    views.views = 2;
    let picture = image(size, |x, y| (x + y) as f32 / 20.0);
    let show = |stream: u64| {
        let mut output = vec![0.0; 2 * views.view_length()];
        views.draw(&picture, &mut random(stream), &mut output).unwrap();
        output
    };
    let (first, second) = (show(1), show(2));
    assert_eq!(first, show(1));
    assert_ne!(first, second);
    assert_ne!(first[..30], first[30..]);
    // Nothing is drawn in evaluation.
    let mut evaluated = vec![0.0; views.view_length()];
    views.evaluate(&picture, 1, &mut evaluated).unwrap();
    assert_eq!(evaluated[1], (0.05 - 0.25) / 0.5);
    assert!(!views.is_fixed());
}

/// Noise that is counted comes first, on values from 0 to 1, and is not cut: a view of 9.0 is noisy around 1.
#[test]
fn counted_noise_is_added_to_values_from_0_to_1() {
    let size = Size::new(50, 40).unwrap();
    let views = Views { pixel_noise: Some(2.0), ..changing(size, 1, &[]).unwrap() };
    let mut view = vec![0.0; 2000];
    views.draw(&image(size, |_, _| 9.0), &mut random(6), &mut view).unwrap();
    // In units of the normalisation, by 0.25 and 0.5.
    let values: Vec<f64> = view.iter().map(|value| f64::from(*value) * 0.5 + 0.25).collect();
    let mean = values.iter().sum::<f64>() / 2000.0;
    let square = values.iter().map(|value| (value - 1.0).powi(2)).sum::<f64>() / 2000.0;
    // Six standard errors: 2 / sqrt(2000) of the mean, 4 sqrt(2 / 2000) of the variance.
    assert!((mean - 1.0).abs() < 6.0 * 0.0448 && (square - 4.0).abs() < 6.0 * 0.127, "{mean} {square}");
    assert!(!views.is_fixed());
}

#[test]
fn an_augmentation_is_as_likely_as_it_says() {
    let size = Size::new(2, 2).unwrap();
    let invert = Augmentation { kind: AugmentationKind::Invert, probability: 0.3 };
    let views = changing(size, 1, &[invert]).unwrap();
    let dark = image(size, |_, _| 0.0);
    let inverted = |stream: u64| {
        let mut view = vec![0.0; 4];
        views.draw(&dark, &mut random(stream), &mut view).unwrap();
        view[0] > 0.0
    };
    let count = (0..5000).filter(|&stream| inverted(stream)).count() as u64;
    assert!(binomial_accepts(count, 5000, 0.3, ALPHA), "{count}");
}

/// The centre of a cutout is uniform over the view, so pixels near the edge are covered less often.
#[test]
fn cutouts_lie_anywhere() {
    let (size, cutout) = (Size::new(5, 4).unwrap(), Size::new(1, 1).unwrap());
    let views = changing(size, 1, &[always(AugmentationKind::Cutout(cutout))]).unwrap();
    let light = image(size, |_, _| 1.0);
    let mut counts = [0u64; 20];
    for stream in 0..20_000 {
        let mut view = vec![0.0; 20];
        views.draw(&light, &mut random(stream), &mut view).unwrap();
        // What is covered shows the mean, which is zero after normalisation.
        let covered: Vec<usize> = (0..20).filter(|&pixel| view[pixel] == 0.0).collect();
        assert_eq!(covered.len(), 1);
        counts[covered[0]] += 1;
    }
    assert!(chi_square_accepts(&counts, &[1000.0; 20], ALPHA), "{counts:?}");
    // A rectangle of 4x2 around the pixel (0, 3) covers what of it lies inside.
    let mut values = vec![1.0; 20];
    let change = ViewChange::Cutout { left: -2, top: 2, size: Size::new(4, 2).unwrap() };
    ViewPlanes { values: &mut values, size, frames: 1 }.apply(&change, |_| 0.0, &mut random(0));
    let covered: Vec<usize> = (0..20).filter(|&pixel| values[pixel] == 0.0).collect();
    assert_eq!(covered, [10, 11, 15, 16]);
}

#[test]
fn changes_of_rand_augment_are_equally_likely() {
    let size = Size::new(40, 40).unwrap();
    let mut random = random(4);
    let kinds: Vec<Option<ViewChange>> = RandAugmentChange::ALL
        .iter()
        .flat_map(|change| [false, true].map(|reversed| change.at(9, reversed, size)))
        .collect();
    let mut counts = vec![0u64; kinds.len()];
    for _ in 0..56_000 {
        let drawn = rand_augment::draw(9, size, &mut random);
        let first = kinds.iter().position(|kind| *kind == drawn).unwrap();
        // Changes without a direction are the same both ways.
        let both = kinds[first ^ 1] == drawn;
        counts[first] += 1;
        if both && counts[first] > counts[first ^ 1] + 1 {
            counts[first] -= 1;
            counts[first ^ 1] += 1;
        }
    }
    assert!(chi_square_accepts(&counts, &vec![2000.0; kinds.len()], ALPHA), "{counts:?}");
}

/// Labels go where a warp takes their pixels.
#[test]
fn labels_follow_warps() {
    let size = Size::new(4, 3).unwrap();
    let turned = AffineRanges {
        degrees: (180.0, 180.0),
        translate: (0.0, 0.0),
        scale: (1.0, 1.0),
        shear_x: (0.0, 0.0),
        shear_y: (0.0, 0.0),
    };
    let views = changing(size, 1, &[always(AugmentationKind::Affine(turned))]).unwrap();
    let picture = image(size, |x, y| (4 * y + x) as f32 / 12.0);
    let map = LabelMap::new(size, (0..12).collect()).unwrap();
    let (mut view, mut labels) = (vec![0.0; 12], vec![0; 12]);
    views.draw_labelled(&picture, &map, &mut random(0), &mut view, &mut labels).unwrap();
    assert_eq!(labels, (0..12).rev().collect::<Vec<u32>>());
    for (value, label) in view.iter().zip(&labels) {
        // A half turn is exact but for the rounding of its sine.
        assert!((value * 0.5 + 0.25 - *label as f32 / 12.0).abs() < 1e-6);
    }
    let mut moved: Vec<u32> = (0..12).collect();
    Warp::new(0.0, (1.0, -1.0), 1.0, (0.0, 0.0), (0.0, 0.0)).apply_to_labels(size, &mut moved);
    let none = crate::IGNORED;
    assert_eq!(moved, [none, 4, 5, 6, none, 8, 9, 10, none, none, none, none]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let size = Size::new(3, 8).unwrap();
    let refused = |channels, kind| changing(size, channels, &[always(kind)]).unwrap_err().to_string();
    assert!(
        refused(1, AugmentationKind::Blur { radius: 3, deviation: (1.0, 1.0) }).contains("`blur` mirrors 3")
    );
    assert!(refused(2, AugmentationKind::Greyscale).contains("1 or 3 channels"));
    assert!(changing(size, 2, &[always(AugmentationKind::Sobel)]).is_ok());
}

#[test]
fn noise_is_refused_where_it_was_not_counted() {
    let spatial = |text: &str| Spatial::check(&PlanSpec::from_toml(text).unwrap(), &[]).unwrap();
    let noisy = spatial("[pipeline]\nimage = [8, 6]\ncrop = [4, 4]\npixel_noise = 1.0");
    let of = |size: u32, channels| {
        let plan = ViewPlan { size: Some(Pixels { x: size, y: size }), ..ViewPlan::default() };
        Views::of_channels(&noisy, &plan, channels, None)
    };
    assert_eq!(of(4, 3).unwrap().pixel_noise, Some(1.0));
    assert!(of(5, 3).unwrap_err().to_string().contains("resized to 5x5"));
    assert!(of(4, 4).unwrap_err().to_string().contains("for 3 channels, not for 4"));
    let streets = crate::street::StreetScenes::new(1, 1).unwrap();
    let whole = spatial("[pipeline]\npixel_noise = 1.0");
    let error = Views::new(&whole, &ViewPlan::default(), &streets).unwrap_err();
    assert!(error.to_string().contains("not their labels"), "{error}");
}
