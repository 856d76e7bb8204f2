//! Writes the first scenes of the demonstration as one picture, a row of scenes above a row of their label maps:
//! `cargo run -p dapple-data --example scenes -- scenes.png`
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;

use dapple_data::scenes::{FashionScenes, GROUND, SCENE_SIDE, ScenePart};
use image::GrayImage;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "scenes.png".to_owned());
    let across = 10;
    let scenes = FashionScenes::new(ScenePart::Train, across)?;
    let mut sheet = GrayImage::new(SCENE_SIDE * across as u32, SCENE_SIDE * 2);
    for number in 0..across {
        let scene = scenes.scene(number)?;
        for (place, (&pixel, &class)) in scene.pixels.iter().zip(&scene.label_map).enumerate() {
            let (x, y) = (place as u32 % SCENE_SIDE + number as u32 * SCENE_SIDE, place as u32 / SCENE_SIDE);
            let shade = if class == GROUND { 0 } else { 80 + 17 * class };
            sheet.put_pixel(x, y, image::Luma([pixel]));
            sheet.put_pixel(x, y + SCENE_SIDE, image::Luma([shade]));
        }
    }
    sheet.save(&path)?;
    println!("{path}");
    Ok(())
}
