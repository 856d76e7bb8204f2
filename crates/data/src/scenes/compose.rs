//! One scene: a ground with garments on it. It is computed in whole numbers only, so that every machine composes the same scenes.

use chacha20::rand_core::Rng;

use super::ScenePart;
use crate::formats::PackedImages;
use crate::keys::{MasterKey, Purpose, StepKey};
use crate::uniform::below;
use crate::{DataError, Dataset, Values};

/// Width and height of a scene.
pub const SCENE_SIDE: u32 = 128;
/// Width and height of a garment.
pub const GARMENT_SIDE: u32 = 28;
/// The ground in a label map.
pub const GROUND: u8 = 255;

pub(super) const PIXELS: usize = SIDE * SIDE;
const SIDE: usize = SCENE_SIDE as usize;
const GARMENT: usize = GARMENT_SIDE as usize;
/// Distance between neighbouring garments, before each is moved a little.
const PITCH: u64 = 27;
/// Each garment is moved by less than this along each axis.
const JITTER: u64 = 5;
/// One garment in this many is of another class.
const OTHERS: u64 = 8;
/// Distance between the points of the ground's texture.
const TEXTURE: usize = 16;

/// A composed scene.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scene {
    /// Grey values, `[height, width]`.
    pub pixels: Vec<u8>,
    /// The class of the garment that each pixel shows, or [`GROUND`]; `[height, width]`.
    pub label_map: Vec<u8>,
    /// The class that most garments have.
    pub label: u32,
}

/// Composes the scenes of one part.
#[derive(Debug)]
pub(super) struct Composer {
    /// The garments of each class, each `[28, 28]`.
    garments: Vec<Vec<Vec<u8>>>,
    key: StepKey,
}

impl Composer {
    pub(super) fn new(garments: PackedImages, part: ScenePart) -> Result<Self, DataError> {
        let mut classes = vec![Vec::new(); garments.classes() as usize];
        for record in 0..garments.len() {
            if let Values::Bytes(bytes) = garments.read(record)?.values() {
                classes[garments.label(record)? as usize].push(bytes.clone());
            }
        }
        // Scenes are public and the same for all: their seed is a constant.
        let seed = match part {
            ScenePart::Train => 1,
            ScenePart::Test => 2,
        };
        Ok(Self { garments: classes, key: MasterKey::from_seed(seed).purpose(Purpose::Split).step(0) })
    }

    /// The label of a scene. Scenes take the classes in turn.
    pub(super) fn class(&self, record: u64) -> u32 {
        (record % self.garments.len() as u64) as u32
    }

    pub(super) fn scene(&self, record: u64) -> Scene {
        let mut random = self.key.stream(record);
        let label = self.class(record);
        let mut scene = Scene { pixels: ground(&mut random), label_map: vec![GROUND; PIXELS], label };
        let start = |random: &mut _| below(random, PITCH) as i64 - GARMENT as i64;
        let (left, top) = (start(&mut random), start(&mut random));
        let mut garments = below(&mut random, OTHERS);
        for y in (top..SIDE as i64).step_by(PITCH as usize) {
            for x in (left..SIDE as i64).step_by(PITCH as usize) {
                garments += 1;
                let other = garments.is_multiple_of(OTHERS);
                let class = if other { self.another(label, &mut random) } else { label };
                let moved = |start: i64, random: &mut _| start + below(random, JITTER) as i64;
                let place = (moved(x, &mut random), moved(y, &mut random));
                let choice = &self.garments[class as usize];
                if let Some(garment) = choice.get(below(&mut random, choice.len() as u64) as usize) {
                    draw(&mut scene, garment, class, place, &mut random);
                }
            }
        }
        scene
    }

    /// A class other than the given one.
    fn another(&self, class: u32, random: &mut impl Rng) -> u32 {
        let other = below(random, self.garments.len() as u64 - 1) as u32;
        if other < class { other } else { other + 1 }
    }
}

/// A smooth random texture with noise on it.
fn ground(random: &mut impl Rng) -> Vec<u8> {
    const POINTS: usize = SIDE / TEXTURE + 1;
    let base = 10 + below(random, 40) as usize;
    let mut points = [0; POINTS * POINTS];
    random.fill_bytes(&mut points);
    let mut pixels = vec![0; PIXELS];
    random.fill_bytes(&mut pixels);
    for (y, row) in pixels.chunks_exact_mut(SIDE).enumerate() {
        let (cell_y, along_y) = (y / TEXTURE, y % TEXTURE);
        let column = |x: usize| {
            let point = |down: usize| usize::from(points[(cell_y + down) * POINTS + x]);
            point(0) * (TEXTURE - along_y) + point(1) * along_y
        };
        for (cell_x, cell) in row.chunks_exact_mut(TEXTURE).enumerate() {
            let (left, right) = (column(cell_x), column(cell_x + 1));
            for (along_x, pixel) in cell.iter_mut().enumerate() {
                let smooth = (left * (TEXTURE - along_x) + right * along_x) / (TEXTURE * TEXTURE);
                let noise = usize::from(*pixel) / 12;
                *pixel = (base + smooth / 6 + noise).min(255) as u8;
            }
        }
    }
    pixels
}

/// Lays a garment over the scene, perhaps mirrored and dimmed a little. Its dark surroundings are transparent.
fn draw(scene: &mut Scene, garment: &[u8], class: u32, (left, top): (i64, i64), random: &mut impl Rng) {
    let mirrored = below(random, 2) == 1;
    let gain = 192 + below(random, 65) as u32;
    // The part of the garment that lies within the scene.
    let within = |start: i64| (-start).max(0) as usize..GARMENT.min((SIDE as i64 - start).max(0) as usize);
    let (columns, rows) = (within(left), within(top));
    for y in rows {
        let row = &garment[y * GARMENT..][..GARMENT];
        let start = (top + y as i64) * SIDE as i64 + left;
        for x in columns.clone() {
            let value = u32::from(row[if mirrored { GARMENT - 1 - x } else { x }]);
            // Faint pixels are the edge of the garment, and partly transparent.
            let cover = (value * 4).min(255);
            let place = (start + x as i64) as usize;
            let ground = u32::from(scene.pixels[place]);
            scene.pixels[place] = ((value * gain / 256 * cover + ground * (255 - cover)) / 255) as u8;
            if cover >= 128 {
                scene.label_map[place] = class as u8;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FashionScenes, garments};
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_label_is_the_class_of_most_garment_pixels() {
        let scenes = FashionScenes::new(ScenePart::Train, 100).unwrap();
        let mut covered = 0;
        for record in 0..100 {
            let scene = scenes.scene(record).unwrap();
            let mut counts = [0; 256];
            scene.label_map.iter().for_each(|&class| counts[usize::from(class)] += 1);
            covered += PIXELS - counts[usize::from(GROUND)];
            counts[usize::from(GROUND)] = 0;
            let most = (0..256).max_by_key(|&class| counts[class]).unwrap();
            assert_eq!((most as u32, scene.label), (scenes.label(record).unwrap(), record as u32 % 10));
        }
        // Garments cover between 30 and 80 percent of the scenes.
        assert!(covered > 30 * PIXELS && covered < 80 * PIXELS, "{covered}");
    }

    #[test]
    fn no_garment_is_in_both_parts() {
        let all = |part| {
            let garments = garments(part).unwrap();
            let read = |record| match garments.read(record).unwrap().values() {
                Values::Bytes(bytes) => bytes.clone(),
                Values::Floats(_) => Vec::new(),
            };
            (0..garments.len()).map(read).collect::<BTreeSet<_>>()
        };
        let (train, test) = (all(ScenePart::Train), all(ScenePart::Test));
        assert!(train.len() > 3400 && test.len() > 690);
        assert!(train.is_disjoint(&test));
    }

    #[test]
    fn scenes_are_always_the_same() {
        // Fixed once, because changing the scenes changes every figure that was measured on them.
        let train = FashionScenes::new(ScenePart::Train, 20).unwrap();
        assert_eq!(&train.fingerprint().unwrap()[..16], "b4b590ac61853ff7");
    }
}
