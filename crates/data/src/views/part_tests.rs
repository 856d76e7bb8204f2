//! Tests that neither part of an image tells of the other.

use dapple_geometry::{
    AffineRanges, Augmentation, AugmentationKind, ColourJitter, CropDistribution, Mask, TokenGrid,
};
use proptest::prelude::*;
use proptest::sample::select;

use super::tests::{Case, case, image, views};
use super::*;
use crate::keys::{MasterKey, Purpose};
use crate::{Dataset, IGNORED, Target};

/// One record with its mask.
struct OneRecord {
    image: Image,
    mask: Mask,
}

impl Dataset for OneRecord {
    fn len(&self) -> usize {
        1
    }

    fn classes(&self) -> u32 {
        4
    }

    fn channels(&self) -> usize {
        1
    }

    fn image_size(&self) -> Option<Size> {
        None
    }

    fn target(&self, _: usize) -> Result<Target, DataError> {
        Ok(Target::Class(3))
    }

    fn read(&self, _: usize) -> Result<Image, DataError> {
        Ok(self.image.clone())
    }

    fn mask(&self, _: usize, _: Size) -> Result<Option<Mask>, DataError> {
        Ok(Some(self.mask.clone()))
    }

    fn place(&self, _: usize) -> String {
        "the record".to_owned()
    }

    fn fingerprint(&self) -> Result<String, DataError> {
        Ok(String::new())
    }
}

/// What views show of the record: values, and one class for each view.
fn shown(views: &Views, record: &OneRecord, stream: u64) -> Option<(Vec<u32>, Vec<u32>)> {
    let key = MasterKey::from_seed(stream).purpose(Purpose::Views).step(0);
    let mut output = vec![0.0; views.count() * views.input_length()];
    let labels = views.contribute(record, &[0], &key, &mut output).ok()?;
    let mut classes = vec![0; views.count()];
    labels.write_classes(&mut classes);
    Some((output.iter().map(|value| value.to_bits()).collect(), classes))
}

fn augmentations() -> impl Strategy<Value = Vec<Augmentation>> {
    let same = (1.0, 1.0);
    let affine = AffineRanges {
        degrees: (-30.0, 30.0),
        translate: (0.1, 0.2),
        scale: (0.9, 1.1),
        shear_x: (-5.0, 5.0),
        shear_y: (0.0, 0.0),
    };
    let kinds = vec![
        AugmentationKind::ColourJitter(ColourJitter {
            brightness: (0.5, 1.5),
            contrast: same,
            saturation: same,
            hue: (0.0, 0.0),
        }),
        AugmentationKind::Solarize { threshold: 0.5 },
        AugmentationKind::Sharpness { factor: (0.5, 2.0) },
        AugmentationKind::Sobel,
        AugmentationKind::Affine(affine),
        AugmentationKind::Noise { deviation: (0.0, 0.1) },
    ];
    let one = select(kinds).prop_map(|kind| Augmentation { kind, probability: 0.8 });
    prop::collection::vec(one, 0..3)
}

fn grids() -> impl Strategy<Value = PartGrid> {
    let tokens = (1u32..4, 1u32..4, 0u32..3).prop_map(|(window, stride, padding)| {
        PartGrid::Tokens(TokenGrid::new(window, stride, padding.min(window - 1)).unwrap())
    });
    let cells = (1u32..4, 1u32..4)
        .prop_map(|(rows, columns)| PartGrid::Cells(TokenGrid::cells(None, rows, columns).unwrap()));
    prop_oneof![3 => tokens, 1 => cells]
}

/// A pixel of the image, by a number that stands for all of them.
fn pixel(seed: u64, x: u32, y: u32) -> f32 {
    let hash = (seed ^ u64::from(x * 977 + y)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    hash as f32 / (1 << 24) as f32
}

proptest! {
    #[test]
    fn no_part_tells_of_the_other(
        case in case(),
        augment in augmentations(),
        grid in prop::option::of(grids()),
        (sparse, seed) in (1u64..12, any::<u64>()),
    ) {
        let Case { size, before, crop, stream, .. } = case;
        let output = match crop {
            CropDistribution::Fixed(size) if stream % 2 == 0 => size,
            _ => Size::new(6, 5).unwrap(),
        };
        let mask = Mask::from_fn(size, |x, y| ((pixel(seed, x, y) * 1e4) as u64).is_multiple_of(sparse)).unwrap();
        let record = |private: u64, public: u64| OneRecord {
            image: image(size, |x, y| pixel(if mask.get(x, y) { private } else { public }, x, y)),
            mask: mask.clone(),
        };
        let whole = Views { views: 2, flip: true, augment, ..views(before, crop, output) };
        let of = |part| whole.clone().of_part(part, grid);
        let (Ok(private), Ok(public)) = (of(RecordPart::Private), of(RecordPart::Public)) else {
            // The view is smaller than a window.
            return Ok(());
        };
        // A pipeline that an image of this size does not allow shows nothing of either part.
        let (one, other) = (record(1, 2), record(3, 2));
        let Some((seen, classes)) = shown(&public, &one, stream) else { return Ok(()) };
        prop_assert_eq!(Some((seen.clone(), classes.clone())), shown(&public, &other, stream));
        prop_assert_eq!(shown(&private, &one, stream), shown(&private, &record(1, 4), stream));

        let Some(PartGrid::Tokens(grid)) = grid else { return Ok(()) };
        // Nothing that a public token reads changes with private pixels, even if nothing is blanked.
        let plain = |record| shown(&whole, record, stream).unwrap().0;
        let (one, other) = (plain(&one), plain(&other));
        let tokens = grid.size(output).unwrap();
        let per_view = |values: &[u32], view: usize, length: usize| values[view * length..][..length].to_vec();
        for (view, class) in classes.into_iter().enumerate() {
            let pair = [&one, &other].map(|values| per_view(values, view, whole.view_length()));
            let changed = Mask::from_fn(output, |x, y| {
                let at = (y * output.width() + x) as usize;
                pair[0][at] != pair[1][at]
            });
            let changed = grid.touched(&changed.unwrap()).unwrap();
            let input = per_view(&seen, view, public.input_length());
            let shares = &input[whole.view_length() + 1..];
            let mut count = 0;
            for (&share, &changed) in shares.iter().zip(changed.bytes()) {
                let is_public = f32::from_bits(share) > 0.0;
                prop_assert!(!(is_public && changed != 0), "a token that reads a private pixel is public");
                count += u64::from(is_public);
            }
            prop_assert_eq!(class, if count == 0 { IGNORED } else { 3 });
            prop_assert!(count <= tokens.pixels());
            let sum: f32 = shares.iter().map(|&share| f32::from_bits(share)).sum();
            prop_assert!(count == 0 || (sum - 1.0).abs() < 1e-5);
        }
    }
}

#[test]
fn parts_know_their_tokens_and_their_classes() {
    let size = Size::new(4, 2).unwrap();
    let crop = CropDistribution::Fixed(size);
    let record = |private: &[u32]| OneRecord {
        image: image(size, |x, _| 0.5 + x as f32),
        mask: Mask::from_fn(size, |x, y| y == 0 && private.contains(&x)).unwrap(),
    };
    let in_grid = |grid, part, private: &[u32]| {
        let views = views(Vec::new(), crop, size).of_part(part, Some(grid)).unwrap();
        let (values, classes) = shown(&views, &record(private), 0).unwrap();
        let values: Vec<f32> = values.into_iter().map(f32::from_bits).collect();
        (values, classes[0])
    };
    let of = |part, private: &[u32]| in_grid(PartGrid::Tokens(TokenGrid::patches(2).unwrap()), part, private);
    // The second pixel is private: blank (the mean, which is shown as zero) for the public part, and all that the private part sees.
    let (public, class) = of(RecordPart::Public, &[1]);
    assert_eq!(public, [0.5, 0.0, 4.5, 6.5, 0.5, 2.5, 4.5, 6.5, 1.0, 0.0, 1.0]);
    assert_eq!(class, 3);
    let (private, class) = of(RecordPart::Private, &[1]);
    assert_eq!(private, [0.0, 2.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
    assert_eq!(class, 3);
    // Without private pixels there is nothing to say about the private part, and with one in each token nothing about the public one.
    assert_eq!(of(RecordPart::Private, &[]).1, IGNORED);
    let (public, class) = of(RecordPart::Public, &[]);
    assert_eq!((&public[8..], class), (&[1.0, 0.5, 0.5][..], 3));
    assert_eq!(of(RecordPart::Public, &[0, 3]).1, IGNORED);
    // A cell over which both lie belongs to both parts.
    let cells = |part, private: &[u32]| {
        in_grid(PartGrid::Cells(TokenGrid::cells(None, 1, 2).unwrap()), part, private)
    };
    assert_eq!(&cells(RecordPart::Private, &[1]).0[8..], [1.0, 1.0, 0.0]);
    assert_eq!(&cells(RecordPart::Public, &[1]).0[8..], [1.0, 0.5, 0.5]);
    assert_eq!(cells(RecordPart::Private, &[]).1, IGNORED);
}

#[test]
fn what_reaches_every_token_is_refused() {
    let size = Size::new(4, 4).unwrap();
    let one = Augmentation { kind: AugmentationKind::Equalize, probability: 1.0 };
    let whole = Views { augment: vec![one], ..views(Vec::new(), CropDistribution::Fixed(size), size) };
    let refused = |grid: u32| {
        let grid = PartGrid::Tokens(TokenGrid::patches(grid).unwrap());
        whole.clone().of_part(RecordPart::Public, Some(grid)).unwrap_err().to_string()
    };
    assert!(refused(2).contains("equalize"));
    assert!(refused(5).contains("grid of tokens"));
    // Blanked pixels may reach where they like.
    let cells = PartGrid::Cells(TokenGrid::cells(None, 2, 2).unwrap());
    whole.clone().of_part(RecordPart::Public, Some(cells)).unwrap();
    whole.of_part(RecordPart::Public, None).unwrap();
}
