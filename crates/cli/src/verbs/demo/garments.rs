//! What the demonstration shows of the scenes of garments.

use std::io::Cursor;

use dapple_report::Section;
use dapple_train::data::scenes::{FashionScenes, SCENE_SIDE, ScenePart};
use image::{GrayImage, ImageFormat, Luma};

use crate::failure::Failure;

/// How many scenes are shown.
const SHOWN: u32 = 6;
/// Pixels between two scenes.
const GAP: u32 = 8;

/// The section of the data.
pub(super) fn data() -> Result<Section, Failure> {
    Ok(Section::new("The data").png(
        &scenes()?,
        "Scenes of garments",
        "Scenes composed from real garments (Fashion-MNIST, MIT licence). The label is the class of most garments in a scene.",
    ))
}

/// The first scenes in a row, as a PNG.
fn scenes() -> Result<Vec<u8>, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::run(format!("cannot draw the scenes: {error}"));
    let scenes = FashionScenes::new(ScenePart::Train, SHOWN as usize).map_err(|error| failed(&error))?;
    let mut sheet = GrayImage::from_pixel(SHOWN * (SCENE_SIDE + GAP) - GAP, SCENE_SIDE, Luma([255]));
    for number in 0..SHOWN {
        let scene = scenes.scene(number as usize).map_err(|error| failed(&error))?;
        for (place, &value) in (0_u32..).zip(&scene.pixels) {
            let (x, y) = (place % SCENE_SIDE, place / SCENE_SIDE);
            sheet.put_pixel(number * (SCENE_SIDE + GAP) + x, y, Luma([value]));
        }
    }
    let mut bytes = Cursor::new(Vec::new());
    sheet.write_to(&mut bytes, ImageFormat::Png).map_err(|error| failed(&error))?;
    Ok(bytes.into_inner())
}
