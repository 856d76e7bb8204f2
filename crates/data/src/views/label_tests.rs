//! Tests labels against the pixels they belong to, by maps whose labels say where they come from.

use dapple_geometry::{CropDistribution, Filter, Operation, Padding, PaddingMode, Size};
use proptest::prelude::*;

use super::tests::{case, image, operation, random, views};
use super::*;
use crate::statistics::{ALPHA, binomial_accepts, chi_square_accepts};
use crate::{IGNORED, LabelMap};

fn map(size: Size, label: impl Fn(u32, u32) -> u32) -> LabelMap {
    let pixels = (0..size.height()).flat_map(|y| (0..size.width()).map(move |x| (x, y)));
    LabelMap::new(size, pixels.map(|(x, y)| label(x, y) as u8).collect()).unwrap()
}

/// The views of an image whose pixels are numbered from 1 (0 is padding), and the column and row of each pixel as the labels tell them.
fn numbered(views: &Views, size: Size, stream: u64) -> (Vec<f32>, Vec<Option<[u32; 2]>>) {
    let image = image(size, |x, y| (y * size.width() + x + 1) as f32);
    let mut output = vec![0.0; views.count() * views.view_length()];
    let mut labels = [(); 2].map(|()| vec![0; views.count() * views.positions()]);
    let maps = [map(size, |x, _| x), map(size, |_, y| y)];
    for (map, labels) in maps.iter().zip(&mut labels) {
        views.draw_labelled(&image, map, &mut random(stream), &mut output, labels).unwrap();
    }
    let [columns, rows] = labels;
    let pairs = columns.into_iter().zip(rows).map(|(x, y)| {
        assert_eq!(x == IGNORED, y == IGNORED);
        (x != IGNORED).then_some([x, y])
    });
    (output, pairs.collect())
}

fn plain(mut views: Views, flip: bool, count: usize) -> Views {
    views.normalise = Normalise::new(1, None, None).unwrap();
    (views.flip, views.views) = (flip, count);
    views
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Where pixels are only copied, the label of a pixel is that of the very pixel it shows, and padding has none: image and labels
    /// share the origin and the coin, whatever the pipeline.
    #[test]
    fn labels_are_those_of_the_pixels_shown(
        (width, height) in (4u32..16, 4u32..16),
        before in prop::collection::vec(operation(), 0..4),
        crop in (1u32..9, 1u32..9),
        after in prop::collection::vec(operation(), 0..2),
        flip in any::<bool>(),
        stream in any::<u64>(),
    ) {
        let copies = |operation: &Operation| match operation {
            Operation::Blur { .. } => false,
            Operation::Resize { filter, .. } => matches!(filter, Filter::Nearest | Filter::NearestExact),
            _ => true,
        };
        let keep = |operations: Vec<Operation>| operations.into_iter().filter(copies).collect::<Vec<_>>();
        let (before, after) = (keep(before), keep(after));
        let size = Size::new(width, height).unwrap();
        let crop = Size::new(crop.0, crop.1).unwrap();
        let Ok(reaching) = follow(&before, size) else { return Ok(()) };
        let Ok(output) = follow(&after, crop) else { return Ok(()) };
        prop_assume!(reaching.contains(crop));
        let mut views = plain(views(before, CropDistribution::Fixed(crop), output), flip, 2);
        views.after = after;
        let (shown, labels) = numbered(&views, size, stream);
        for (pixel, label) in shown.iter().zip(&labels) {
            let number = label.map_or(0, |[x, y]| y * width + x + 1);
            prop_assert_eq!(*pixel, number as f32);
        }
    }

    /// The promise of patch-level accounting for labels: the labels of a region change a view only if its crop meets the influence mask
    /// of that region of the image. This holds for blurs and weighted resizes too.
    #[test]
    fn a_region_of_labels_reaches_no_farther_than_its_pixels(case in case()) {
        let Some(influenced) = case.is_influenced() else { return Ok(()) };
        let views = case.views();
        let image = image(case.size, |x, y| (x * 7 + y * 13) as f32 % 5.0);
        let mut pixels = vec![0.0; views.view_length()];
        views.draw(&image, &mut random(case.stream), &mut pixels).unwrap();
        let show = |label: u32| {
            let map = map(case.size, |x, y| if case.inside(x, y) { label } else { 0 });
            let (mut view, mut labels) = (vec![0.0; views.view_length()], vec![0; views.positions()]);
            views.draw_labelled(&image, &map, &mut random(case.stream), &mut view, &mut labels).unwrap();
            // The image is shown as it would be without labels, whatever they are.
            assert_eq!(view, pixels);
            labels
        };
        let same = show(1) == show(2);
        prop_assert!(same || influenced);
    }
}

/// Crops of an image and its labels together: origins are uniform, the coins of both views are fair, and each label lies beside its
/// pixel.
#[test]
fn paired_crops_are_uniform_and_aligned() {
    let (size, crop) = (Size::new(12, 9).unwrap(), Size::new(5, 4).unwrap());
    let pad = Operation::Pad { padding: Padding { x: 1, y: 2 }, mode: PaddingMode::Zero };
    let views = plain(views(vec![pad], CropDistribution::Fixed(crop), crop), true, 2);
    // 10 columns and 10 rows of origins in the padded image of 14x13.
    let draws = 100_000;
    let mut counts = vec![0; 100];
    let (mut mirrored, mut both) = (0, 0);
    for draw in 0..draws {
        let (shown, labels) = numbered(&views, size, draw);
        for (pixel, label) in shown.iter().zip(&labels) {
            assert_eq!(*pixel, label.map_or(0, |[x, y]| y * 12 + x + 1) as f32);
        }
        let view = |number: usize| {
            let labels = &labels[20 * number..][..20];
            // The padding is narrower than the crop, so every view shows two neighbours in some row.
            let pair = labels
                .windows(2)
                .enumerate()
                .find(|(at, _)| at % 5 < 4 && labels[*at].is_some() && labels[at + 1].is_some());
            let (at, [first, second]) =
                pair.map(|(at, pair)| (at, [pair[0].unwrap(), pair[1].unwrap()])).unwrap();
            let flipped = second[0] < first[0];
            let column = if flipped { 4 - at % 5 } else { at % 5 };
            (flipped, (first[1] as usize + 2 - at / 5) * 10 + first[0] as usize + 1 - column)
        };
        let (flipped, origin) = view(0);
        let (again, _) = view(1);
        counts[origin] += 1;
        mirrored += u64::from(flipped);
        both += u64::from(flipped && again);
    }
    assert!(chi_square_accepts(&counts, &[draws as f64 / 100.0; 100], ALPHA), "{counts:?}");
    assert!(binomial_accepts(mirrored, draws, 0.5, ALPHA), "{mirrored}");
    assert!(binomial_accepts(both, draws, 0.25, ALPHA), "{both}");
}

#[test]
fn labels_follow_the_resize_behind_the_crop() {
    let (size, crop) = (Size::new(8, 6).unwrap(), Size::new(4, 2).unwrap());
    let views = plain(views(Vec::new(), CropDistribution::Fixed(crop), Size::new(8, 4).unwrap()), false, 1);
    let (_, labels) = numbered(&views, size, 3);
    let origin = labels[0].unwrap();
    for (position, label) in labels.iter().enumerate() {
        let (x, y) = (position as u32 % 8, position as u32 / 8);
        assert_eq!(*label, Some([origin[0] + x / 2, origin[1] + y / 2]));
    }
}

#[test]
fn evaluation_shows_labels_too() {
    let (size, crop) = (Size::new(7, 5).unwrap(), Size::new(3, 3).unwrap());
    let views = plain(views(Vec::new(), CropDistribution::Fixed(crop), crop), true, 1);
    let image = image(size, |x, _| x as f32);
    let map = map(size, |x, _| x);
    let (mut output, mut labels) = (vec![0.0; 4 * 9], vec![0; 4 * 9]);
    views.evaluate_labelled(&image, &map, 2, &mut output, &mut labels).unwrap();
    assert!(output.iter().zip(&labels).all(|(&pixel, &label)| pixel == label as f32));
    let other = LabelMap::new(size.transposed(), vec![0; 35]).unwrap();
    let error = views.evaluate_labelled(&image, &other, 2, &mut output, &mut labels).unwrap_err();
    assert!(error.to_string().contains("5x7 pixels, but the image is 7x5"), "{error}");
    let error = views.draw_labelled(&image, &other, &mut random(1), &mut output, &mut labels).unwrap_err();
    assert!(matches!(error, DataError::LabelSize { .. }) && error.hint().is_some());
}
