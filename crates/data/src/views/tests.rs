//! Tests that the pipeline that is carried out is the one that was priced.

use dapple_geometry::{
    CropDistribution, Filter, Mask, Operation, Padding, PaddingMode, Pipeline, Placement, Region, Size,
    inclusion,
};
use dapple_plan::PlanSpec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::keys::{MasterKey, Purpose};
use crate::statistics::{ALPHA, binomial_accepts, chi_square_accepts};
use crate::{ChaCha20Rng, Values};

pub(super) fn random(number: u64) -> ChaCha20Rng {
    MasterKey::from_seed(11).purpose(Purpose::Views).step(0).stream(number)
}

pub(super) fn views(before: Vec<Operation>, crop: CropDistribution, output: Size) -> Views {
    let normalise = Normalise::new(1, Some(&[0.25]), Some(&[0.5])).unwrap();
    Views { before, crop: Some(crop), ..Views::unchanged(None, output, normalise) }
}

pub(super) fn image(size: Size, value: impl Fn(u32, u32) -> f32) -> Image {
    let mut floats = Vec::new();
    for y in 0..size.height() {
        floats.extend((0..size.width()).map(|x| value(x, y)));
    }
    Image::new(size, 1, Values::Floats(floats)).unwrap()
}

pub(super) fn meets(mask: &Mask, place: CropPlace) -> bool {
    let CropPlace { x, y, size } = place;
    (y..y + size.height()).any(|row| (x..x + size.width()).any(|column| mask.get(column, row)))
}

pub(super) fn operation() -> impl Strategy<Value = Operation> {
    let padding = (0u32..4, 0u32..4).prop_map(|(x, y)| Padding { x, y });
    let mode = select(PaddingMode::ALL.to_vec());
    let filter = select(Filter::ALL.to_vec());
    let copies = prop_oneof![
        (padding, mode).prop_map(|(padding, mode)| Operation::Pad { padding, mode }),
        Just(Operation::FlipHorizontal),
        Just(Operation::FlipVertical),
        any::<bool>().prop_map(|clockwise| Operation::Turn { clockwise }),
    ];
    prop_oneof![
        3 => copies,
        1 => (4u32..20, 4u32..20, filter, any::<bool>()).prop_map(|(width, height, filter, antialias)| {
            Operation::Resize { to: Size::new(width, height).unwrap(), filter, antialias }
        }),
        1 => (0u32..3, 0u32..3).prop_map(|(radius_x, radius_y)| Operation::Blur { radius_x, radius_y }),
    ]
}

/// A pipeline, a region of an image, and a stream that decides where the crop lies.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) size: Size,
    pub(super) before: Vec<Operation>,
    pub(super) crop: CropDistribution,
    /// Left, top, width, height.
    pub(super) region: [u32; 4],
    pub(super) stream: u64,
}

pub(super) fn case() -> impl Strategy<Value = Case> {
    let crop = prop_oneof![
        (1u32..7, 1u32..7).prop_map(|(width, height)| CropDistribution::fixed(width, height).unwrap()),
        (0.05f64..0.5, 0.5f64..1.0).prop_map(|scale| CropDistribution::resized(scale, (0.5, 2.0)).unwrap()),
    ];
    let before = prop::collection::vec(operation(), 0..4);
    let region = (0u32..16, 0u32..16, 1u32..6, 1u32..6);
    (4u32..16, 4u32..16, before, crop, region, any::<u64>()).prop_map(
        |(width, height, before, crop, region, stream)| Case {
            size: Size::new(width, height).unwrap(),
            before,
            crop,
            region: [region.0 % width, region.1 % height, region.2, region.3],
            stream,
        },
    )
}

impl Case {
    pub(super) fn inside(&self, x: u32, y: u32) -> bool {
        let [left, top, width, height] = self.region;
        (left..left + width).contains(&x) && (top..top + height).contains(&y)
    }

    pub(super) fn views(&self) -> Views {
        let output = match self.crop {
            CropDistribution::Fixed(size) => size,
            CropDistribution::Resized(_) => Size::new(5, 4).unwrap(),
        };
        views(self.before.clone(), self.crop, output)
    }

    /// Whether the crop meets the influence mask of the region; `None` if the operations or the crop do not fit the image.
    pub(super) fn is_influenced(&self) -> Option<bool> {
        let pipeline = Pipeline::new(self.before.clone(), self.crop).unwrap();
        let reaching = pipeline.size_before_crop(self.size).ok()?;
        let place = crop::draw(&self.crop, reaching, &mut random(self.stream)).ok()?;
        let mask = Mask::from_fn(self.size, |x, y| self.inside(x, y)).unwrap();
        Some(meets(&pipeline.influence(&mask).unwrap(), place))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// The promise on which patch-level accounting rests: what a region shows changes a view only if the crop meets the region's
    /// influence mask. Where pixels are only copied, it changes the view exactly then.
    #[test]
    fn a_region_changes_a_view_only_where_the_geometry_says(case in case()) {
        let Some(influenced) = case.is_influenced() else { return Ok(()) };
        let views = case.views();
        let ground = |x: u32, y: u32| (x * 7 + y * 13) as f32 % 5.0;
        let show = |patch: f32| {
            let mut view = vec![0.0; views.view_length()];
            let image = image(case.size, |x, y| ground(x, y) + if case.inside(x, y) { patch } else { 0.0 });
            views.draw(&image, &mut random(case.stream), &mut view).unwrap();
            view
        };
        let same = show(0.0) == show(1000.0);
        prop_assert!(same || influenced);
        let copies = !case.before.iter().any(|operation| {
            matches!(operation, Operation::Resize { .. } | Operation::Blur { .. })
        });
        if copies && matches!(case.crop, CropDistribution::Fixed(_)) {
            prop_assert_eq!(!same, influenced);
        }
    }
}

#[test]
fn crop_origins_are_uniform_and_independent_between_views() {
    let size = Size::new(12, 9).unwrap();
    let crop = Size::new(5, 4).unwrap();
    let mut views = views(Vec::new(), CropDistribution::Fixed(crop), crop);
    views.normalise = Normalise::new(1, None, None).unwrap();
    views.views = 2;
    let image = image(size, |x, y| (y * 12 + x) as f32);
    // 8 columns and 6 rows of origins.
    let (origins, draws) = (48, 100_000);
    let mut counts = vec![0; origins];
    let mut pairs = vec![0; 16];
    for draw in 0..draws {
        let mut output = vec![0.0; 2 * views.view_length()];
        views.draw(&image, &mut random(draw), &mut output).unwrap();
        let origin = |view: usize| output[view * views.view_length()] as usize;
        let cell = |pixel: usize| pixel / 12 * 8 + pixel % 12;
        counts[cell(origin(0))] += 1;
        // Counts in which halves of both axes the origins of both views lie.
        let half = |pixel: usize| usize::from(pixel % 12 >= 4) + 2 * usize::from(pixel / 12 >= 3);
        pairs[half(origin(0)) * 4 + half(origin(1))] += 1;
    }
    assert!(chi_square_accepts(&counts, &vec![draws as f64 / 48.0; 48], ALPHA), "{counts:?}");
    assert!(chi_square_accepts(&pairs, &[draws as f64 / 16.0; 16], ALPHA), "{pairs:?}");
}

/// A random resized crop shows each pixel as often as the geometry's law of sizes says.
#[test]
fn resized_crops_follow_the_priced_law() {
    for (size, scale, ratio) in [
        ((10, 8), (0.08, 1.0), (0.75, 4.0 / 3.0)),
        ((9, 3), (0.3, 0.9), (0.5, 2.0)),
        ((6, 6), (0.2, 0.2), (1.0, 3.0)),
    ] {
        let size = Size::new(size.0, size.1).unwrap();
        let crop = CropDistribution::resized(scale, ratio).unwrap();
        let pixels = size.pixels() as usize;
        let mut shown = vec![0; pixels];
        let trials = 40_000;
        for trial in 0..trials {
            let place = crop::draw(&crop, size, &mut random(trial)).unwrap();
            for y in place.y..place.y + place.size.height() {
                for x in place.x..place.x + place.size.width() {
                    shown[(y * size.width() + x) as usize] += 1;
                }
            }
        }
        for (pixel, &shown) in shown.iter().enumerate() {
            let (column, row) = (pixel as u32 % size.width(), pixel as u32 / size.width());
            let mask = Mask::from_fn(size, |x, y| (x, y) == (column, row)).unwrap();
            let law =
                inclusion(&Region::Mask(mask), Placement::Annotated, size, &Pipeline::crop(crop)).unwrap();
            // Every pixel is a test of its own, so the error rate is divided among them.
            let alpha = ALPHA / pixels as f64;
            assert!(
                binomial_accepts(shown, trials, law.probability(), alpha),
                "{size} ({column}, {row}): {shown}"
            );
        }
    }
}

/// Where no try can fit, every crop is the centre crop, and the geometry must price the same one.
#[test]
fn the_centre_crop_is_the_priced_one() {
    for (size, ratio) in
        [((8, 8), (2.0, 2.5)), ((9, 8), (0.2, 0.3)), ((16, 5), (9.0, 10.0)), ((5, 17), (0.05, 0.06))]
    {
        let size = Size::new(size.0, size.1).unwrap();
        let crop = CropDistribution::resized((1.0, 1.0), ratio).unwrap();
        let place = crop::draw(&crop, size, &mut random(1)).unwrap();
        for y in 0..size.height() {
            for x in 0..size.width() {
                let mask = Mask::from_fn(size, |column, row| (column, row) == (x, y)).unwrap();
                let law =
                    inclusion(&Region::Mask(mask.clone()), Placement::Annotated, size, &Pipeline::crop(crop))
                        .unwrap();
                // The priced probability is the upper end of a bracket around 0 or 1.
                assert!(
                    (law.probability() - f64::from(u8::from(meets(&mask, place)))).abs() < 1e-6,
                    "{size} ({x}, {y})"
                );
            }
        }
    }
}

#[test]
fn half_of_the_views_are_mirrored_behind_the_crop() {
    let size = Size::new(4, 2).unwrap();
    let mut views = views(Vec::new(), CropDistribution::Fixed(size), size);
    views.flip = true;
    let image = image(size, |x, y| (y * 4 + x) as f32 / 2.0);
    let mut mirrored = 0;
    for draw in 0..10_000 {
        let mut view = vec![0.0; 8];
        views.draw(&image, &mut random(draw), &mut view).unwrap();
        let straight: Vec<f32> = (0..8).map(|value| (value as f32 / 2.0 - 0.25) / 0.5).collect();
        if view != straight {
            view.chunks_exact_mut(4).for_each(<[f32]>::reverse);
            assert_eq!(view, straight);
            mirrored += 1;
        }
    }
    assert!(binomial_accepts(mirrored, 10_000, 0.5, ALPHA), "{mirrored}");
}

#[test]
fn operations_behind_the_crop_are_carried_out() {
    let size = Size::new(6, 6).unwrap();
    let crop = Size::new(4, 2).unwrap();
    let mut plain = views(Vec::new(), CropDistribution::Fixed(crop), crop);
    let image = image(size, |x, y| (x * 10 + y) as f32);
    let mut straight = vec![0.0; 8];
    plain.draw(&image, &mut random(5), &mut straight).unwrap();
    plain.after = vec![Operation::Turn { clockwise: true }];
    plain.output = crop.transposed();
    let mut turned = vec![0.0; 8];
    plain.draw(&image, &mut random(5), &mut turned).unwrap();
    // The first row of the turned crop is its first column read upwards.
    assert_eq!(turned[..2], [straight[4], straight[0]]);
}

#[test]
fn evaluation_covers_the_image_from_edge_to_edge() {
    let (size, crop) = (Size::new(12, 9).unwrap(), Size::new(5, 4).unwrap());
    let mut views = views(Vec::new(), CropDistribution::Fixed(crop), crop);
    views.normalise = Normalise::new(1, None, None).unwrap();
    let image = image(size, |x, y| (y * 12 + x) as f32);
    let first_pixels = |grid: u32| {
        let mut output = vec![0.0; views.evaluation_views(grid) * views.view_length()];
        views.evaluate(&image, grid, &mut output).unwrap();
        output.chunks_exact(views.view_length()).map(|view| view[0] as u32).collect::<Vec<_>>()
    };
    assert_eq!(first_pixels(1), [2 * 12 + 3]);
    assert_eq!(first_pixels(2), [0, 7, 5 * 12, 5 * 12 + 7]);
    assert_eq!(first_pixels(3).len(), 9);
}

#[test]
fn what_says_too_little_is_refused() {
    for operation in [
        Operation::Pointwise,
        Operation::Jpeg { chroma_subsampling: true },
        Operation::Global(dapple_geometry::GlobalOperation::Equalize),
    ] {
        assert!(matches!(refuse(&operation), Err(DataError::Operation { .. })));
    }
    let size = Size::new(4, 4).unwrap();
    let mut views = views(Vec::new(), CropDistribution::Fixed(size), size);
    views.image = Some(size);
    let small = image(Size::new(3, 4).unwrap(), |_, _| 0.0);
    let error = views.draw(&small, &mut random(1), &mut [0.0; 16]).unwrap_err();
    assert!(matches!(error, DataError::ImageSize { .. }) && error.hint().is_some());
    let error = views.evaluate(&small, 1, &mut [0.0; 16]).unwrap_err();
    assert!(error.to_string().contains("does not fit"), "{error}");
}

/// A mask lies over the picture as it is stored or as it is shown; where the region has a form and no place, that makes no difference.
#[test]
fn pictures_that_are_to_be_turned_have_no_annotated_region() {
    let size = Size::new(8, 8).unwrap();
    let mask = Mask::from_fn(size, |x, y| x < 2 && y < 2).unwrap();
    for (placement, refused) in [("annotated", true), ("anywhere", false)] {
        let text = format!(
            "[privacy]\nrelation = 'patch'\n[pipeline]\nimage = [8, 8]\ncrop = [4, 4]\n[region]\nmask = 'm.png'\nplacement = '{placement}'\n"
        );
        let spec = PlanSpec::from_toml(&text).unwrap();
        let spatial = Spatial::check(&spec, std::slice::from_ref(&mask)).unwrap();
        let views = Views::of_channels(&spatial, &ViewPlan::default(), 1, Some(size)).unwrap();
        let picture = image(size, |x, y| (x + y) as f32);
        let shown = |image: &Image| {
            let mut random = MasterKey::from_seed(1).purpose(Purpose::Views).step(0).stream(0);
            views.draw(image, &mut random, &mut [0.0; 16])
        };
        shown(&picture).unwrap();
        let turned = shown(&picture.noted_turned(true));
        assert_eq!(matches!(turned, Err(DataError::Turned { .. })), refused, "{placement}");
    }
}
