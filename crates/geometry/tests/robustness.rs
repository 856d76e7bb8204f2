//! No input makes the crate panic; wrong input gets a typed error with a hint.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use dapple_geometry::{
    CropDistribution, Filter, GeometryError, GlobalOperation, Mask, Operation, Padding, PaddingMode,
    Pipeline, Placement, Region, RegionPart, Size, heatmap, inclusion,
};
use proptest::prelude::*;
use proptest::sample::select;

/// Small, or far too large: sizes in between only cost time.
fn side() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 1u32..24, 1 => Just(u32::MAX), 1 => (1u32 << 25)..u32::MAX]
}

fn size() -> impl Strategy<Value = Size> {
    (side(), side()).prop_map(|(width, height)| Size::new(width, height).unwrap())
}

fn small() -> impl Strategy<Value = Size> {
    (1u32..9, 1u32..9).prop_map(|(width, height)| Size::new(width, height).unwrap())
}

fn amount() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0u32..12, 1 => any::<u32>()]
}

fn operation() -> impl Strategy<Value = Operation> {
    let mode = select(PaddingMode::ALL.to_vec());
    let filter = select(Filter::ALL.to_vec());
    prop_oneof![
        3 => (amount(), amount(), mode).prop_map(|(x, y, mode)| Operation::Pad { padding: Padding { x, y }, mode }),
        2 => (size(), filter, any::<bool>()).prop_map(|(to, filter, antialias)| Operation::Resize { to, filter, antialias }),
        1 => (amount(), amount()).prop_map(|(radius_x, radius_y)| Operation::Blur { radius_x, radius_y }),
        1 => Just(Operation::FlipHorizontal),
        1 => Just(Operation::FlipVertical),
        1 => any::<bool>().prop_map(|clockwise| Operation::Turn { clockwise }),
        1 => Just(Operation::Pointwise),
        1 => any::<bool>().prop_map(|chroma_subsampling| Operation::Jpeg { chroma_subsampling }),
        1 => Just(Operation::Global(GlobalOperation::AutoContrast)),
    ]
}

fn region() -> impl Strategy<Value = Region> {
    let mask = (small(), any::<u64>()).prop_map(|(size, bits)| {
        Region::Mask(Mask::from_fn(size, |x, y| bits >> (x + 8 * y) & 1 != 0).unwrap())
    });
    let leaf = prop_oneof![
        size().prop_map(Region::Rectangle),
        prop_oneof![0.0f64..6.0, Just(f64::NAN), Just(-1.0), Just(1e300), Just(60000.5)]
            .prop_map(|radius| Region::Circle { radius }),
        mask,
    ];
    let part = (amount(), amount(), leaf.clone()).prop_map(|(x, y, region)| RegionPart { x, y, region });
    prop_oneof![3 => leaf, 1 => proptest::collection::vec(part, 0..3).prop_map(Region::Union)]
}

fn crop() -> impl Strategy<Value = Result<CropDistribution, GeometryError>> {
    let number = || {
        prop_oneof![
            0.0f64..1.0,
            0.5f64..3.0,
            Just(0.0),
            Just(f64::NAN),
            Just(f64::INFINITY),
            Just(1e-9),
            Just(1e6)
        ]
    };
    prop_oneof![
        3 => (amount(), amount()).prop_map(|(width, height)| CropDistribution::fixed(width, height)),
        1 => (number(), number(), number(), number()).prop_map(|(a, b, c, d)| CropDistribution::resized((a, b), (c, d))),
        2 => (0.01f64..1.0, 0.0f64..1.0, 0.3f64..1.0, 1.0f64..3.0)
            .prop_map(|(a, b, c, d)| CropDistribution::resized((a, a + (1.0 - a) * b), (c, d))),
    ]
}

fn placement() -> impl Strategy<Value = Placement> {
    prop_oneof![
        Just(Placement::Anywhere),
        Just(Placement::Annotated),
        (amount(), amount()).prop_map(|(x, y)| Placement::At { x, y })
    ]
}

fn attempt(
    region: &Region,
    placement: Placement,
    image: Size,
    before: Vec<Operation>,
    crop: Result<CropDistribution, GeometryError>,
) -> Result<f64, GeometryError> {
    let pipeline = Pipeline::new(before, crop?)?;
    let found = inclusion(region, placement, image, &pipeline)?;
    assert!(found.lower_bound() <= found.probability());
    if image.pixels() < 1 << 12 {
        let map = heatmap(region, image, &pipeline)?;
        assert!(map.values.iter().all(|value| (0.0..=1.0).contains(value)));
    }
    Ok(found.probability())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn never_panics(region in region(), placement in placement(), image in size(), before in proptest::collection::vec(operation(), 0..3), crop in crop()) {
        match attempt(&region, placement, image, before, crop) {
            Ok(probability) => prop_assert!((0.0..=1.0).contains(&probability)),
            Err(error) => {
                prop_assert!(!error.to_string().contains('\n'));
                prop_assert!(error.hint().is_some());
            }
        }
    }

    #[test]
    fn names_never_panic(text in ".{0,12}") {
        let _ = text.parse::<Size>();
        let _ = text.parse::<PaddingMode>();
        let _ = text.parse::<Filter>();
        let _ = text.parse::<Placement>();
        let _ = text.parse::<GlobalOperation>();
    }
}

#[test]
fn every_mistake_has_its_error() {
    let size = |width, height| Size::new(width, height).unwrap();
    let crop = |width, height| CropDistribution::fixed(width, height).unwrap();
    let patch = Region::Rectangle(size(4, 4));
    let image = size(20, 10);
    let ask = |region: &Region, placement, pipeline: &Pipeline| {
        inclusion(region, placement, image, pipeline).unwrap_err()
    };
    let plain = Pipeline::crop(crop(5, 5));

    assert!(matches!(CropDistribution::fixed(0, 5), Err(GeometryError::ZeroSize { what: "crop", .. })));
    assert!(matches!(
        ask(&patch, Placement::Anywhere, &Pipeline::crop(crop(21, 5))),
        GeometryError::CropTooLarge { .. }
    ));
    assert!(matches!(
        ask(&Region::Rectangle(size(4, 11)), Placement::Anywhere, &plain),
        GeometryError::RegionTooLarge { .. }
    ));
    assert!(matches!(
        ask(&patch, Placement::At { x: 17, y: 0 }, &plain),
        GeometryError::RegionOutside { .. }
    ));
    assert!(matches!(
        ask(&patch, Placement::Annotated, &plain),
        GeometryError::NotAnnotated { shape: "rectangle" }
    ));
    let blank = Region::Mask(Mask::empty(image).unwrap());
    assert_eq!(ask(&blank, Placement::Annotated, &plain), GeometryError::EmptyMask);
    assert_eq!(ask(&blank, Placement::Anywhere, &plain), GeometryError::EmptyMask);
    let other = Region::Mask(Mask::from_fn(size(3, 3), |_, _| true).unwrap());
    assert!(matches!(ask(&other, Placement::Annotated, &plain), GeometryError::MaskSize { .. }));

    let padded = |x, y, mode| {
        Pipeline::new(vec![Operation::Pad { padding: Padding { x, y }, mode }], crop(5, 5)).unwrap()
    };
    let reflected = ask(&patch, Placement::Anywhere, &padded(0, 10, PaddingMode::Reflect));
    assert!(matches!(reflected, GeometryError::PaddingTooLarge { axis: "y", needed: 11, length: 10, .. }));
    assert!(inclusion(&patch, Placement::Anywhere, image, &padded(19, 9, PaddingMode::Reflect)).is_ok());
    assert!(inclusion(&patch, Placement::Anywhere, image, &padded(20, 10, PaddingMode::Wrap)).is_ok());
    assert!(matches!(
        ask(&patch, Placement::Anywhere, &padded(21, 0, PaddingMode::Wrap)),
        GeometryError::PaddingTooLarge { axis: "x", .. }
    ));
    assert!(matches!(
        ask(&patch, Placement::Anywhere, &padded(u32::MAX, 0, PaddingMode::Zero)),
        GeometryError::TooLarge { .. }
    ));
}

#[test]
fn operations_on_the_whole_image_are_refused_before_the_crop_only() {
    for name in [
        "per-image-normalise",
        "autocontrast",
        "equalize",
        "contrast",
        "content-crop",
        "cat_max_ratio",
        "rotate",
    ] {
        let global = Operation::Global(name.parse::<GlobalOperation>().unwrap());
        let error = Pipeline::new(vec![global], CropDistribution::fixed(5, 5).unwrap()).unwrap_err();
        assert!(
            matches!(error, GeometryError::SpreadsOverImage { .. })
                && error.hint().unwrap().contains("behind the crop")
        );
        let behind = Pipeline::crop(CropDistribution::fixed(5, 5).unwrap()).then([global]);
        let image = Size::new(10, 10).unwrap();
        assert!(
            inclusion(&Region::Rectangle(Size::new(2, 2).unwrap()), Placement::Anywhere, image, &behind)
                .is_ok()
        );
    }
}
