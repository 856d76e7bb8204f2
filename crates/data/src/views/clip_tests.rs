//! Tests that a clip is shown as its frames would be, and that no part of it tells of the other.

use dapple_geometry::{AffineRanges, Augmentation, AugmentationKind, ColourJitter, CropDistribution, Mask};
use proptest::prelude::*;
use proptest::sample::select;

use super::tests::{Case, case, random, views};
use super::*;
use crate::keys::{MasterKey, Purpose};
use crate::{Dataset, IGNORED, Target};

const FRAMES: usize = 3;

/// One clip with a mask for each of its frames.
struct OneClip {
    clip: Image,
    masks: Vec<Mask>,
}

impl Dataset for OneClip {
    fn len(&self) -> usize {
        1
    }

    fn classes(&self) -> u32 {
        4
    }

    fn channels(&self) -> usize {
        3
    }

    fn frames(&self) -> Option<usize> {
        Some(FRAMES)
    }

    fn image_size(&self) -> Option<Size> {
        None
    }

    fn target(&self, _: usize) -> Result<Target, DataError> {
        Ok(Target::Class(2))
    }

    fn read(&self, _: usize) -> Result<Image, DataError> {
        Ok(self.clip.clone())
    }

    fn frame_masks(&self, _: usize, _: Size) -> Result<Option<Vec<Mask>>, DataError> {
        Ok(Some(self.masks.clone()))
    }

    fn place(&self, _: usize) -> String {
        "the clip".to_owned()
    }

    fn fingerprint(&self) -> Result<String, DataError> {
        Ok(String::new())
    }
}

/// A byte by the number of what it shows and its place.
fn byte(seed: u64, place: usize) -> u8 {
    ((seed ^ place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8
}

/// A clip of coloured frames whose values follow from frame, pixel and channel.
fn clip(size: Size, value: impl Fn(usize, usize, usize) -> u8) -> Image {
    let pixels = size.pixels() as usize;
    let bytes: Vec<u8> = (0..FRAMES * pixels * 3)
        .map(|place| value(place / (3 * pixels), place / 3 % pixels, place % 3))
        .collect();
    Image::clip(size, 3, FRAMES, &bytes).unwrap()
}

/// Changes that draw nothing for each value, so that all frames are changed alike.
fn augmentations() -> impl Strategy<Value = Vec<Augmentation>> {
    let affine = AffineRanges {
        degrees: (-30.0, 30.0),
        translate: (0.1, 0.2),
        scale: (0.9, 1.1),
        shear_x: (-5.0, 5.0),
        shear_y: (0.0, 0.0),
    };
    let jitter = ColourJitter {
        brightness: (0.5, 1.5),
        contrast: (0.5, 1.5),
        saturation: (0.5, 1.5),
        hue: (-0.2, 0.2),
    };
    let kinds = vec![
        AugmentationKind::ColourJitter(jitter),
        AugmentationKind::Greyscale,
        AugmentationKind::Solarize { threshold: 0.5 },
        AugmentationKind::AutoContrast,
        AugmentationKind::Equalize,
        AugmentationKind::Sharpness { factor: (0.5, 2.0) },
        AugmentationKind::Sobel,
        AugmentationKind::Affine(affine),
        AugmentationKind::Cutout(Size::new(2, 3).unwrap()),
        AugmentationKind::RandAugment { changes: 2, magnitude: 9 },
    ];
    let one = select(kinds).prop_map(|kind| Augmentation { kind, probability: 0.8 });
    prop::collection::vec(one, 0..3)
}

/// Views of coloured clips, or of coloured images.
fn coloured(case: &Case, augment: &[Augmentation], frames: Option<usize>) -> Views {
    let normalise =
        Normalise::new(3, Some(&[0.25, 0.5, 0.3]), Some(&[0.5, 0.2, 1.0])).unwrap().of_frames(frames);
    let output = match case.crop {
        CropDistribution::Fixed(size) if case.stream.is_multiple_of(2) => size,
        _ => Size::new(6, 5).unwrap(),
    };
    let plain = views(case.before.clone(), case.crop, output);
    Views { views: 2, flip: true, normalise, augment: augment.to_vec(), ..plain }
}

fn bits(views: &Views, image: &Image, stream: u64) -> Option<Vec<u32>> {
    let mut output = vec![0.0; 2 * views.view_length()];
    views.draw(image, &mut random(stream), &mut output).ok()?;
    Some(output.iter().map(|value| value.to_bits()).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// One place, one coin and one draw of every change serve all frames: each frame is shown, bit for bit, as an image would be.
    #[test]
    fn every_frame_is_shown_as_an_image_would_be(case in case(), augment in augmentations(), seed in any::<u64>()) {
        let whole = clip(case.size, |frame, pixel, channel| byte(seed, (frame * 400 + pixel) * 3 + channel));
        let views = coloured(&case, &augment, Some(FRAMES));
        let Some(shown) = bits(&views, &whole, case.stream) else { return Ok(()) };
        let plane = views.positions();
        prop_assert_eq!(views.shape(), [3, FRAMES, views.output.height() as usize, views.output.width() as usize]);
        for frame in 0..FRAMES {
            let pixels = case.size.pixels() as usize * 3;
            let bytes = (0..pixels).map(|place| byte(seed, frame * 1200 + place)).collect();
            let image = Image::new(case.size, 3, crate::Values::Bytes(bytes)).unwrap();
            let alone = bits(&coloured(&case, &augment, None), &image, case.stream).unwrap();
            for (number, plane_alone) in alone.chunks_exact(plane).enumerate() {
                let (view, channel) = (number / 3, number % 3);
                let start = ((view * 3 + channel) * FRAMES + frame) * plane;
                prop_assert_eq!(plane_alone, &shown[start..start + plane], "{} {}", frame, channel);
            }
        }
    }

    /// Private pixels, which are others in each frame, change no bit of what is shown of the public part, and the other way round.
    #[test]
    fn no_part_of_a_clip_tells_of_the_other(
        case in case(), augment in augmentations(), (sparse, seed) in (1u64..12, any::<u64>()),
    ) {
        let width = case.size.width() as usize;
        let is_private = |frame: usize, pixel: usize| u64::from(byte(seed, frame * 400 + pixel)).is_multiple_of(sparse);
        let mask = |frame| Mask::from_fn(case.size, |x, y| is_private(frame, y as usize * width + x as usize));
        let masks: Vec<Mask> = (0..FRAMES).map(|frame| mask(frame).unwrap()).collect();
        let record = |private: u64, public: u64| OneClip {
            clip: clip(case.size, |frame, pixel, channel| {
                byte(if is_private(frame, pixel) { private } else { public }, (frame * 400 + pixel) * 3 + channel)
            }),
            masks: masks.clone(),
        };
        let of = |part| coloured(&case, &augment, Some(FRAMES)).of_part(part, None).unwrap();
        let shown = |views: &Views, record: &OneClip| {
            let key = MasterKey::from_seed(case.stream).purpose(Purpose::Views).step(0);
            let mut output = vec![0.0; 2 * views.view_length()];
            let labels = views.contribute(record, &[0], &key, &mut output).ok()?;
            let mut classes = [0; 2];
            labels.write_classes(&mut classes);
            Some((output.iter().map(|value| value.to_bits()).collect::<Vec<u32>>(), classes))
        };
        let (private, public) = (of(RecordPart::Private), of(RecordPart::Public));
        let Some(seen) = shown(&public, &record(1, 2)) else { return Ok(()) };
        prop_assert_eq!(Some(seen), shown(&public, &record(3, 2)));
        prop_assert_eq!(shown(&private, &record(1, 2)), shown(&private, &record(1, 4)));
    }
}

/// A view without a pixel of a part, in any frame, has nothing to say about it.
#[test]
fn a_part_is_looked_for_in_all_frames() {
    let size = Size::new(2, 1).unwrap();
    let classes = |masks: [[u8; 2]; FRAMES], part| {
        let masks = masks.map(|pixels| Mask::from_bytes(size, pixels.to_vec()).unwrap()).to_vec();
        let record = OneClip { clip: clip(size, |frame, pixel, _| byte(1, frame + pixel)), masks };
        let normalise = Normalise::new(3, None, None).unwrap().of_frames(Some(FRAMES));
        let plain = views(Vec::new(), CropDistribution::Fixed(size), size);
        let views = Views { normalise, ..plain }.of_part(part, None).unwrap();
        let key = MasterKey::from_seed(1).purpose(Purpose::Views).step(0);
        let mut classes = [0];
        let mut output = vec![0.0; views.view_length()];
        views.contribute(&record, &[0], &key, &mut output).unwrap().write_classes(&mut classes);
        classes[0]
    };
    let (none, some, all) = ([0, 0], [1, 0], [1, 1]);
    assert_eq!(classes([none, none, some], RecordPart::Private), 2);
    assert_eq!(classes([none; 3], RecordPart::Private), IGNORED);
    assert_eq!(classes([all, all, some], RecordPart::Public), 2);
    assert_eq!(classes([all; 3], RecordPart::Public), IGNORED);
}

#[test]
fn clips_of_another_length_and_images_are_refused() {
    let size = Size::new(4, 4).unwrap();
    let case =
        Case { size, before: Vec::new(), crop: CropDistribution::Fixed(size), region: [0; 4], stream: 0 };
    let whole = clip(size, |_, _, _| 0);
    let refused = |frames| {
        let views = coloured(&case, &[], frames);
        let mut output = vec![0.0; 2 * views.view_length()];
        views.draw(&whole, &mut random(0), &mut output).unwrap_err().to_string()
    };
    assert_eq!(refused(Some(5)), "an image: a clip of 3 frames where a clip of 5 frames is expected");
    assert_eq!(refused(None), "an image: a clip of 3 frames where an image is expected");
}
