//! How many crops see the patch, and three crops to show.

use super::CropPicture;

/// A crop position to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CropPosition {
    pub(super) origin: (u32, u32),
    pub(super) sees: bool,
}

/// Crop origins along one axis: all of them, and those whose crop overlaps `[start, start + patch)`.
fn origins(image: u32, crop: u32, patch: u32, start: u32) -> (u64, u64) {
    let last = u64::from(image - crop);
    let from = (u64::from(start) + 1).saturating_sub(u64::from(crop));
    let to = (u64::from(start) + u64::from(patch) - 1).min(last);
    (last + 1, (to + 1).saturating_sub(from))
}

/// Share of crop positions that see the patch where it is.
pub(super) fn inclusion(sizes: &CropPicture) -> f64 {
    let (all_x, hits_x) = origins(sizes.image.0, sizes.crop.0, sizes.patch.0, sizes.patch_origin.0);
    let (all_y, hits_y) = origins(sizes.image.1, sizes.crop.1, sizes.patch.1, sizes.patch_origin.1);
    (hits_x as f64 / all_x as f64) * (hits_y as f64 / all_y as f64)
}

/// The largest share over all places of the patch; a rectangle is seen most often in the middle (patch-level paper, Theorem 1).
pub(super) fn worst_inclusion(sizes: &CropPicture) -> f64 {
    let middle = |image: u32, patch: u32| (image - patch) / 2;
    let patch_origin = (middle(sizes.image.0, sizes.patch.0), middle(sizes.image.1, sizes.patch.1));
    inclusion(&CropPicture { patch_origin, ..*sizes })
}

fn sees(sizes: &CropPicture, origin: (u32, u32)) -> bool {
    let overlap = |crop_start: u32, crop: u32, start: u32, patch: u32| {
        u64::from(crop_start) < u64::from(start) + u64::from(patch)
            && u64::from(start) < u64::from(crop_start) + u64::from(crop)
    };
    overlap(origin.0, sizes.crop.0, sizes.patch_origin.0, sizes.patch.0)
        && overlap(origin.1, sizes.crop.1, sizes.patch_origin.1, sizes.patch.1)
}

/// Up to two crops that miss the patch, then one that sees it; the three lie apart where there is room.
pub(super) fn windows(sizes: &CropPicture) -> Vec<CropPosition> {
    let room = (sizes.image.0 - sizes.crop.0, sizes.image.1 - sizes.crop.1);
    let seeing = CropPosition { origin: seeing_origin(sizes, room), sees: true };
    let steps = |room: u32| (0..=20u64).map(move |step| (u64::from(room) * step / 20) as u32);
    let candidates: Vec<(u32, u32)> = steps(room.0)
        .flat_map(|x| steps(room.1).map(move |y| (x, y)))
        .filter(|origin| !sees(sizes, *origin))
        .collect();
    let mut chosen = vec![seeing];
    // Aiming inside the image keeps the crops off its corners, which looks less arranged.
    for aim in [(0.07, 0.90), (0.37, 0.05)] {
        let target = (f64::from(room.0) * aim.0, f64::from(room.1) * aim.1);
        let cost = |origin: &(u32, u32)| {
            let (dx, dy) = (f64::from(origin.0) - target.0, f64::from(origin.1) - target.1);
            let crowding: f64 =
                chosen.iter().map(|window| overlap_share(sizes, window.origin, *origin)).sum();
            dx.hypot(dy) + 4.0 * crowding * f64::from(sizes.image.0)
        };
        if let Some(origin) = candidates.iter().copied().min_by(|a, b| cost(a).total_cmp(&cost(b)))
            && !chosen.iter().any(|window| window.origin == origin)
        {
            chosen.push(CropPosition { origin, sees: false });
        }
    }
    chosen.rotate_left(1);
    chosen
}

/// Where the crop that sees the patch lies.
pub(super) fn seeing(windows: &[CropPosition]) -> (u32, u32) {
    windows.iter().find(|window| window.sees).map_or((0, 0), |window| window.origin)
}

/// A crop that holds the patch off its middle, as far as the image allows.
fn seeing_origin(sizes: &CropPicture, room: (u32, u32)) -> (u32, u32) {
    let along = |start: u32, patch: u32, crop: u32, room: u32, share: f64| {
        let middle = f64::from(start) + f64::from(patch) / 2.0;
        ((middle - f64::from(crop) * share).max(0.0).round() as u32).min(room)
    };
    (
        along(sizes.patch_origin.0, sizes.patch.0, sizes.crop.0, room.0, 0.3),
        along(sizes.patch_origin.1, sizes.patch.1, sizes.crop.1, room.1, 0.6),
    )
}

/// Share of a crop that another covers.
fn overlap_share(sizes: &CropPicture, a: (u32, u32), b: (u32, u32)) -> f64 {
    let common =
        |a: u32, b: u32, length: u32| f64::from(length.saturating_sub(a.abs_diff(b))) / f64::from(length);
    common(a.0, b.0, sizes.crop.0) * common(a.1, b.1, sizes.crop.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sizes() -> impl Strategy<Value = CropPicture> {
        let axis = || {
            (1u32..14).prop_flat_map(|image| (Just(image), 1..=image, 1..=image)).prop_flat_map(
                |(image, crop, patch)| (Just(image), Just(crop), Just(patch), 0..=image - patch),
            )
        };
        (axis(), axis()).prop_map(|(x, y)| CropPicture {
            image: (x.0, y.0),
            crop: (x.1, y.1),
            patch: (x.2, y.2),
            patch_origin: (x.3, y.3),
        })
    }

    proptest! {
        #[test]
        fn shares_agree_with_counting(sizes in sizes()) {
            let rows = sizes.image.1 - sizes.crop.1 + 1;
            let columns = sizes.image.0 - sizes.crop.0 + 1;
            let count = |sizes: &CropPicture| {
                (0..rows).flat_map(|y| (0..columns).map(move |x| (x, y))).filter(|o| sees(sizes, *o)).count()
            };
            let all = f64::from(rows) * f64::from(columns);
            // A product of two quotients against one quotient: a few roundings of f64.
            prop_assert!((inclusion(&sizes) - count(&sizes) as f64 / all).abs() < 1e-12);
            let places = (0..=sizes.image.1 - sizes.patch.1)
                .flat_map(|y| (0..=sizes.image.0 - sizes.patch.0).map(move |x| (x, y)));
            let worst = places.map(|patch_origin| count(&CropPicture { patch_origin, ..sizes })).max().unwrap_or(0);
            prop_assert!((worst_inclusion(&sizes) - worst as f64 / all).abs() < 1e-12);
        }

        #[test]
        fn windows_are_what_they_claim(sizes in sizes()) {
            let windows = windows(&sizes);
            prop_assert!(windows.len() <= 3);
            prop_assert_eq!(windows.iter().filter(|window| window.sees).count(), 1);
            for window in windows {
                prop_assert_eq!(sees(&sizes, window.origin), window.sees);
                prop_assert!(window.origin.0 + sizes.crop.0 <= sizes.image.0);
                prop_assert!(window.origin.1 + sizes.crop.1 <= sizes.image.1);
            }
        }
    }
}
