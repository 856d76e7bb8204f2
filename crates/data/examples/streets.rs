//! Writes the first street scenes as one picture: scenes above their label maps, in which plates and faces are white.
//! `cargo run -p dapple-data --example streets -- streets.png`
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;

use dapple_data::Dataset;
use dapple_data::street::{STREET_HEIGHT, STREET_WIDTH, street_scenes};
use image::{Rgb, RgbImage};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "streets.png".to_owned());
    let across = 6;
    let (scenes, _) = street_scenes()?;
    let palette = scenes.palette().unwrap_or_default();
    let mut sheet = RgbImage::new(STREET_WIDTH * across, STREET_HEIGHT * 2);
    for number in 0..across {
        let scene = scenes.scene(number as usize)?;
        let left = number * STREET_WIDTH;
        let (pixels, _) = scene.pixels.as_chunks::<3>();
        for (place, (&pixel, &class)) in (0..).zip(pixels.iter().zip(&scene.labels)) {
            let (x, y) = (left + place % STREET_WIDTH, place / STREET_WIDTH);
            sheet.put_pixel(x, y, Rgb(pixel));
            let colour = palette.get(usize::from(class)).copied().unwrap_or_default();
            sheet.put_pixel(x, y + STREET_HEIGHT, Rgb(colour));
        }
        for private in &scene.private {
            for y in private.y..private.y + private.height {
                for x in private.x..private.x + private.width {
                    sheet.put_pixel(left + x, y + STREET_HEIGHT, Rgb([255, 255, 255]));
                }
            }
        }
    }
    sheet.save(&path)?;
    println!("{path}");
    Ok(())
}
