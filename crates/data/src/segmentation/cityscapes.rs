//! Cityscapes (Cordts et al. 2016): `leftImg8bit/PART/CITY/NAME_leftImg8bit.png` with `gtFine/PART/CITY/NAME_gtFine_labelIds.png`.

use std::path::Path;

use super::pairs::Pair;
use super::{ClassMap, Colour, Pairs};
use crate::formats::pictures_below;
use crate::{DataError, DataLimits};

const IMAGE_ENDING: &str = "_leftImg8bit.png";
const LABELS_ENDING: &str = "_gtFine_labelIds.png";

/// The 19 classes that count: number in `labelIds` files, name, colour.
const CLASSES: [(u32, &str, Colour); 19] = [
    (7, "road", [128, 64, 128]),
    (8, "sidewalk", [244, 35, 232]),
    (11, "building", [70, 70, 70]),
    (12, "wall", [102, 102, 156]),
    (13, "fence", [190, 153, 153]),
    (17, "pole", [153, 153, 153]),
    (19, "traffic light", [250, 170, 30]),
    (20, "traffic sign", [220, 220, 0]),
    (21, "vegetation", [107, 142, 35]),
    (22, "terrain", [152, 251, 152]),
    (23, "sky", [70, 130, 180]),
    (24, "person", [220, 20, 60]),
    (25, "rider", [255, 0, 0]),
    (26, "car", [0, 0, 142]),
    (27, "truck", [0, 0, 70]),
    (28, "bus", [0, 60, 100]),
    (31, "train", [0, 80, 100]),
    (32, "motorcycle", [0, 0, 230]),
    (33, "bicycle", [119, 11, 32]),
];

/// Numbers that count for nothing: unlabelled, ego vehicle, border, out of region of interest, static, dynamic, ground, parking, rail
/// track, guard rail, bridge, tunnel, pole group, caravan, trailer, and 255.
const IGNORED: [u32; 16] = [0, 1, 2, 3, 4, 5, 6, 9, 10, 14, 15, 16, 18, 29, 30, 255];

/// A part of Cityscapes whose labels are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CityscapesPart {
    /// 2975 images.
    Train,
    /// 500 images.
    Validation,
}

/// The images of one part below `root`, the folder that holds `leftImg8bit` and `gtFine`, in the order of cities and names.
///
/// # Errors
/// A folder that cannot be read or has no image, an image without labels.
pub fn cityscapes(root: &Path, part: CityscapesPart, limits: &DataLimits) -> Result<Pairs, DataError> {
    let part = match part {
        CityscapesPart::Train => "train",
        CityscapesPart::Validation => "val",
    };
    let images = root.join("leftImg8bit").join(part);
    let labels = root.join("gtFine").join(part);
    let mut pairs = Vec::new();
    for image in pictures_below(&images)? {
        let below = image.strip_prefix(&images).unwrap_or(&image).to_string_lossy().into_owned();
        let Some(name) = below.strip_suffix(IMAGE_ENDING) else { continue };
        let partner = labels.join(format!("{name}{LABELS_ENDING}"));
        if !partner.is_file() {
            return Err(DataError::Partner { path: image, missing: partner });
        }
        pairs.push(Pair { image, labels: partner });
    }
    Pairs::new(root, &images, pairs, class_map()?, limits)
}

fn class_map() -> Result<ClassMap, DataError> {
    ClassMap::of_ids(&CLASSES.map(|(id, ..)| id), &IGNORED)?
        .with_names(CLASSES.map(|(_, name, _)| name))?
        .with_palette(&CLASSES.map(|(.., colour)| colour))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_number_is_a_class_or_ignored() {
        let mut known: Vec<u32> = CLASSES.iter().map(|(id, ..)| *id).chain(IGNORED).collect();
        known.sort_unstable();
        assert_eq!(known, (0..34).chain([255]).collect::<Vec<u32>>());
        let map = class_map().unwrap();
        assert_eq!((map.classes(), map.names().unwrap()[13].as_str()), (19, "car"));
    }
}
