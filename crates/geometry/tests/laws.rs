//! The laws of inclusion: every fast path against literally building the image and looking at every crop.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use common::{Case, brute_force_hits, case, origins, placements, small_size, sparse_mask};
use dapple_geometry::{
    CropDistribution, GeometryError, Mask, Operation, Padding, PaddingMode, Pipeline, Placement, Region,
    RegionPart, Size, heatmap, inclusion, inclusion_of_masks,
};
use proptest::prelude::*;

fn rectangle(width: u32, height: u32) -> Region {
    Region::Rectangle(Size::new(width, height).unwrap())
}

fn fixed(width: u32, height: u32) -> Pipeline {
    Pipeline::crop(CropDistribution::fixed(width, height).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Worst case over placements, any region, copying operations: the exact count and a place that attains it.
    #[test]
    fn anywhere_equals_brute_force(case in case()) {
        let Case { image, region, pipeline, crop } = case;
        let found = inclusion(&Region::Mask(region.clone()), Placement::Anywhere, image, &pipeline).unwrap();
        let counts = found.counts.unwrap();
        let (_, _, extent) = region.bounding_box().unwrap();
        let hits = |place| brute_force_hits(image, &region, place, &pipeline, crop);
        let most = placements(image, extent).map(hits).max().unwrap();
        prop_assert_eq!(counts.hits, most);
        prop_assert_eq!(counts.crop_origins, origins(image, &pipeline, crop));
        prop_assert_eq!(hits(found.worst_origin.unwrap()), most);
        prop_assert!(found.probability() >= most as f64 / counts.crop_origins as f64);
        prop_assert!(found.is_exact());
    }

    /// A given place, as a mask over the image and as a region with a position.
    #[test]
    fn annotated_equals_brute_force(case in case(), at in (0.0f64..1.0, 0.0f64..1.0)) {
        let Case { image, region, pipeline, crop } = case;
        let (left, top, extent) = region.bounding_box().unwrap();
        let x = (at.0 * f64::from(image.width() - extent.width() + 1)) as u32;
        let y = (at.1 * f64::from(image.height() - extent.height() + 1)) as u32;
        let hits = brute_force_hits(image, &region, (x, y), &pipeline, crop);
        let placed = inclusion(&Region::Mask(region.clone()), Placement::At { x, y }, image, &pipeline).unwrap();
        prop_assert_eq!(placed.counts.unwrap().hits, hits);
        let drawn = Mask::from_fn(image, |column, row| {
            column >= x && row >= y && region.get(column - x + left, row - y + top)
        }).unwrap();
        let annotated = inclusion(&Region::Mask(drawn), Placement::Annotated, image, &pipeline).unwrap();
        prop_assert_eq!(annotated.counts, placed.counts);
    }

    /// A region that moves: whatever its path within the travel, no more crops see it in some frame than are counted; and as many do at the
    /// worst place of a path that is at all its places.
    #[test]
    fn every_path_is_covered(case in case(), travel in (0u32..3, 0u32..3), path in proptest::collection::vec((0.0f64..1.0, 0.0f64..1.0), 1..4)) {
        let Case { image, region, pipeline, .. } = case;
        let (left, top, extent) = region.bounding_box().unwrap();
        let room = [image.width() - extent.width(), image.height() - extent.height()];
        let travel = [travel.0.min(room[0]), travel.1.min(room[1])];
        let swept = Region::Mask(region.clone()).swept(travel[0], travel[1]).unwrap();
        let priced = inclusion(&swept, Placement::Anywhere, image, &pipeline).unwrap().counts.unwrap();
        // How many crops see the region at one of some places.
        let seen = |places: &[(u32, u32)]| {
            let union = Mask::from_fn(image, |column, row| {
                places.iter().any(|&(x, y)| {
                    column >= x && row >= y && region.get(column - x + left, row - y + top)
                })
            });
            let counts = inclusion(&Region::Mask(union.unwrap()), Placement::Annotated, image, &pipeline).unwrap().counts;
            counts.unwrap().hits
        };
        let mut most = 0;
        for y in 0..=room[1] - travel[1] {
            for x in 0..=room[0] - travel[0] {
                let box_of = |dx: u32, dy: u32| (x + dx, y + dy);
                let all: Vec<_> = (0..=travel[1]).flat_map(|dy| (0..=travel[0]).map(move |dx| box_of(dx, dy))).collect();
                most = most.max(seen(&all));
                let at = |share: f64, travel: u32| (share * f64::from(travel + 1)) as u32;
                let path: Vec<_> = path.iter().map(|step| box_of(at(step.0, travel[0]), at(step.1, travel[1]))).collect();
                prop_assert!(seen(&path) <= priced.hits);
            }
        }
        prop_assert_eq!(most, priced.hits);
    }

    /// The heat map shows at each pixel the count of the region centred there.
    #[test]
    fn heatmap_equals_brute_force(case in case()) {
        let Case { image, region, pipeline, crop } = case;
        let (_, _, extent) = region.bounding_box().unwrap();
        let map = heatmap(&Region::Mask(region.clone()), image, &pipeline).unwrap();
        prop_assert_eq!(map.values.len() as u64, image.pixels());
        let total = origins(image, &pipeline, crop) as f64;
        for (index, &value) in map.values.iter().enumerate() {
            let (x, y) = (index as u32 % image.width(), index as u32 / image.width());
            let place = (
                x.saturating_sub((extent.width() - 1) / 2).min(image.width() - extent.width()),
                y.saturating_sub((extent.height() - 1) / 2).min(image.height() - extent.height()),
            );
            let expected = brute_force_hits(image, &region, place, &pipeline, crop) as f64 / total;
            // Single precision.
            prop_assert!((f64::from(value) - expected).abs() < 1e-6);
        }
    }

    /// A union is seen at least as often as each part, and at most as often as all parts together.
    #[test]
    fn unions(image in small_size(6..12), parts in proptest::collection::vec((0u32..4, 0u32..4, 1u32..3, 1u32..3), 1..4), crop in (1u32..6, 1u32..6)) {
        let pipeline = fixed(crop.0, crop.1);
        let union = Region::Union(parts.iter().map(|&(x, y, width, height)| RegionPart { x, y, region: rectangle(width, height) }).collect());
        let whole = inclusion(&union, Placement::Anywhere, image, &pipeline).unwrap();
        let part = |&(_, _, width, height): &(u32, u32, u32, u32)| inclusion(&rectangle(width, height), Placement::Anywhere, image, &pipeline).unwrap();
        let sum: f64 = parts.iter().map(|one| part(one).probability()).sum();
        prop_assert!(whole.probability() <= sum + 1e-12);
        // At the same place every part is contained in the union.
        let (x, y) = whole.worst_origin.unwrap();
        let (left, top) = (parts.iter().map(|part| part.0).min().unwrap(), parts.iter().map(|part| part.1).min().unwrap());
        for &(part_x, part_y, width, height) in &parts {
            let at = Placement::At { x: x + part_x - left, y: y + part_y - top };
            let alone = inclusion(&rectangle(width, height), at, image, &pipeline).unwrap();
            prop_assert!(alone.counts.unwrap().hits <= whole.counts.unwrap().hits);
        }
    }

    /// Larger crops and larger patches are seen more often; more padding less often.
    #[test]
    fn monotone(image in small_size(3..40), patch in (1u32..40, 1u32..40), crop in (1u32..40, 1u32..40), pad in 0u32..20) {
        let probability = |patch: (u32, u32), crop: (u32, u32), pad: u32| {
            let operation = Operation::Pad { padding: Padding::uniform(pad), mode: PaddingMode::Zero };
            let pipeline = Pipeline::new(vec![operation], CropDistribution::fixed(crop.0, crop.1).unwrap()).unwrap();
            inclusion(&rectangle(patch.0, patch.1), Placement::Anywhere, image, &pipeline).map(|found| found.probability())
        };
        if let Ok(here) = probability(patch, crop, pad) {
            for bigger in [
                probability(patch, (crop.0 + 1, crop.1), pad),
                probability(patch, (crop.0, crop.1 + 1), pad),
                probability((patch.0 + 1, patch.1), crop, pad),
                probability((patch.0, patch.1 + 1), crop, pad),
            ] {
                prop_assert!(bigger.is_err() || bigger.unwrap() >= here);
            }
            prop_assert!(probability(patch, crop, pad + 1).unwrap() <= here);
        }
    }

    /// Inclusion of a mask at a fixed place grows with the crop (the coupling that brackets random resized crops).
    #[test]
    fn monotone_in_the_crop_at_a_fixed_place(mask in sparse_mask(2..12)) {
        let image = mask.size();
        let region = Region::Mask(mask);
        let probability = |width, height| inclusion(&region, Placement::Annotated, image, &fixed(width, height)).unwrap().probability();
        for width in 1..image.width() {
            for height in 1..image.height() {
                prop_assert!(probability(width, height) <= probability(width + 1, height));
                prop_assert!(probability(width, height) <= probability(width, height + 1));
            }
        }
    }
}

#[test]
fn the_centre_is_not_always_the_worst() {
    // A bar of nine rows at the left and a single pixel at the right: the border should cut the crops of the pixel, so the
    // worst place is as far right as possible.
    let size = Size::new(10, 9).unwrap();
    let region = Region::Mask(Mask::from_fn(size, |x, y| x == 0 || (x == 9 && y == 4)).unwrap());
    let image = Size::new(12, 12).unwrap();
    let hits =
        |x| inclusion(&region, Placement::At { x, y: 1 }, image, &fixed(3, 3)).unwrap().counts.unwrap().hits;
    let worst = inclusion(&region, Placement::Anywhere, image, &fixed(3, 3)).unwrap();
    assert_eq!(worst.worst_origin.unwrap().0, 2);
    assert!(worst.counts.unwrap().hits > hits(1));
}

#[test]
fn the_worst_image_counts() {
    let size = Size::new(20, 20).unwrap();
    let corner = Mask::from_fn(size, |x, y| x == 0 && y == 0).unwrap();
    let middle = Mask::from_fn(size, |x, y| x == 10 && y == 10).unwrap();
    let wide = Mask::from_fn(Size::new(40, 10).unwrap(), |x, _| x == 20).unwrap();
    let pipeline = fixed(5, 5);
    let each = |mask: &Mask| {
        inclusion(&Region::Mask(mask.clone()), Placement::Annotated, mask.size(), &pipeline).unwrap()
    };
    let worst = inclusion_of_masks([&corner, &middle, &wide], &pipeline).unwrap();
    let most = [&corner, &middle, &wide].map(|mask| each(mask).probability()).into_iter().fold(0.0, f64::max);
    assert_eq!(worst.probability(), most);
    assert_eq!(inclusion_of_masks([], &pipeline), Err(GeometryError::NoMasks));
}
