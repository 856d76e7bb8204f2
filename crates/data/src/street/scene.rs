//! One scene, drawn in whole numbers only, so that every machine draws the same.

use chacha20::rand_core::Rng;

use super::canvas::{Canvas, Rectangle, between, shade};
use super::{STREET_HEIGHT, STREET_WIDTH};
use crate::UNLABELLED;

const WIDE: i32 = STREET_WIDTH as i32;
const HIGH: i32 = STREET_HEIGHT as i32;
/// Rows at the bottom that show the bonnet of the car with the camera. They have no class.
const BONNET: i32 = 4;
/// The most by which noise moves a value.
const NOISE: u8 = 8;

const ROAD: u8 = 0;
const PAVEMENT: u8 = 1;
const BUILDING: u8 = 2;
const SKY: u8 = 3;
const CAR: u8 = 4;
const PERSON: u8 = 5;

const PAINTS: [[u8; 3]; 4] = [[150, 20, 20], [20, 40, 130], [190, 190, 195], [20, 20, 25]];
const SKINS: [[u8; 3]; 3] = [[225, 180, 150], [140, 95, 65], [90, 60, 45]];

/// What can tell who somebody is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrivateKind {
    /// The number plate of a car.
    Plate,
    /// The face of a person.
    Face,
}

/// The visible part of a place that should stay private.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Private {
    /// What is there.
    pub kind: PrivateKind,
    /// First column.
    pub x: u32,
    /// First row.
    pub y: u32,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// A scene that was drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreetScene {
    /// Red, green and blue, `[height, width, 3]`.
    pub pixels: Vec<u8>,
    /// The class of each pixel, or [`UNLABELLED`]; `[height, width]`.
    pub labels: Vec<u8>,
    /// Plates and faces, including those that something nearer hides.
    pub private: Vec<Private>,
}

pub(super) fn draw(random: &mut impl Rng) -> StreetScene {
    let mut canvas = Canvas::new();
    let mut private = Vec::new();
    let horizon = between(random, 36, 46);
    sky(&mut canvas, horizon, random);
    buildings(&mut canvas, horizon, random);
    let kerb = horizon + between(random, 6, 10);
    ground(&mut canvas, horizon, kerb, random);
    // From far to near, so that what is nearer hides what is farther.
    for _ in 0..between(random, 1, 3) {
        person(&mut canvas, between(random, horizon + 4, kerb + 2), &mut private, random);
    }
    let lanes = between(random, 1, 3);
    for lane in 0..lanes {
        let feet = kerb + 10 + (HIGH - BONNET - kerb - 10) * lane / lanes;
        car(&mut canvas, feet, &mut private, random);
    }
    if between(random, 0, 2) == 0 {
        person(&mut canvas, between(random, kerb + 16, HIGH - BONNET), &mut private, random);
    }
    canvas.fill(Rectangle::new(0, HIGH - BONNET, WIDE, BONNET), [30, 30, 34], UNLABELLED);
    canvas.roughen(random, NOISE);
    StreetScene { pixels: canvas.pixels, labels: canvas.labels, private }
}

/// Blue above, pale at the horizon.
fn sky(canvas: &mut Canvas, horizon: i32, random: &mut impl Rng) {
    let top = shade(random, [90, 130, 180], 40);
    for y in 0..horizon {
        let paler = (60 * y / horizon) as u8;
        canvas.fill(Rectangle::new(0, y, WIDE, 1), top.map(|value| value.saturating_add(paler)), SKY);
    }
}

fn buildings(canvas: &mut Canvas, horizon: i32, random: &mut impl Rng) {
    let mut left = -between(random, 0, 10);
    while left < WIDE {
        let width = between(random, 14, 30);
        // One place in five is empty.
        if between(random, 0, 4) > 0 {
            let top = between(random, 6, horizon - 10);
            canvas.fill(
                Rectangle::new(left, top, width, horizon - top),
                shade(random, [90, 75, 65], 70),
                BUILDING,
            );
            let glass = shade(random, [40, 50, 70], 60);
            for y in (top + 3..horizon - 5).step_by(6) {
                for x in (left + 3..left + width - 4).step_by(6) {
                    canvas.fill(Rectangle::new(x, y, 3, 3), glass, BUILDING);
                }
            }
        }
        left += width;
    }
}

fn ground(canvas: &mut Canvas, horizon: i32, kerb: i32, random: &mut impl Rng) {
    canvas.fill(
        Rectangle::new(0, horizon, WIDE, kerb - horizon),
        shade(random, [150, 145, 140], 30),
        PAVEMENT,
    );
    canvas.fill(Rectangle::new(0, kerb, WIDE, HIGH - kerb), shade(random, [60, 60, 65], 30), ROAD);
    let line = kerb + (HIGH - kerb) / 2;
    for x in (-between(random, 0, 19)..WIDE).step_by(20) {
        canvas.fill(Rectangle::new(x, line, 10, 2), [225, 225, 220], ROAD);
    }
}

/// A car seen from behind, its wheels on row `feet`; nearer cars are larger.
fn car(canvas: &mut Canvas, feet: i32, private: &mut Vec<Private>, random: &mut impl Rng) {
    let width = 18 + (feet - 50).clamp(0, 40) * 2 / 5 + between(random, 0, 4);
    let height = width * 3 / 4;
    let (left, top) = (between(random, -width / 3, WIDE - width * 2 / 3), feet - height);
    let base = PAINTS[between(random, 0, 3) as usize];
    let paint = shade(random, base, 40);
    let part = |x: i32, y: i32, width: i32, height: i32| Rectangle::new(left + x, top + y, width, height);
    canvas.fill(part(width / 8, 0, width - width / 4, height / 2), paint, CAR);
    canvas.fill(part(0, height / 3, width, height - height / 3 - 2), paint, CAR);
    canvas.fill(part(width / 5, 2, width - 2 * (width / 5), height / 4), [50, 60, 75], CAR);
    for x in [1, width - 4] {
        canvas.fill(part(x, height - 3, 3, 3), [15, 15, 15], CAR);
        canvas.fill(part(x, height / 2, 3, 3), [200, 30, 30], CAR);
    }
    let plate_width = (width / 4).clamp(6, 8);
    let plate = part((width - plate_width) / 2, height * 2 / 3, plate_width, 3);
    canvas.fill(plate, [235, 235, 225], CAR);
    for x in (1..plate_width - 1).filter(|_| between(random, 0, 2) > 0) {
        canvas.fill(Rectangle::new(plate.x + x, plate.y + 1, 1, 1), [20, 20, 20], CAR);
    }
    remember(private, PrivateKind::Plate, plate);
}

/// A person whose feet stand on row `feet`.
fn person(canvas: &mut Canvas, feet: i32, private: &mut Vec<Private>, random: &mut impl Rng) {
    let height = 16 + (feet - 44).clamp(0, 40) / 3 + between(random, 0, 3);
    let width = height * 3 / 10;
    let (left, top) = (between(random, 0, WIDE - width), feet - height);
    let base = SKINS[between(random, 0, 2) as usize];
    let skin = shade(random, base, 20);
    let part = |x: i32, y: i32, width: i32, height: i32| Rectangle::new(left + x, top + y, width, height);
    let head = (height / 4).clamp(4, 8);
    let face = part((width - head * 3 / 4) / 2, 0, head * 3 / 4, head);
    let legs = height / 3;
    canvas.fill(part(0, head, width, height - head - legs), shade(random, [30, 30, 30], 180), PERSON);
    canvas.fill(part(0, height - legs, width * 2 / 5, legs), [40, 40, 60], PERSON);
    canvas.fill(part(width - width * 2 / 5, height - legs, width * 2 / 5, legs), [40, 40, 60], PERSON);
    canvas.fill(face, skin, PERSON);
    for x in [face.x + face.width / 4, face.x + face.width - 1 - face.width / 4] {
        canvas.fill(Rectangle::new(x, face.y + head / 3, 1, 1), [25, 20, 20], PERSON);
    }
    remember(private, PrivateKind::Face, face);
}

fn remember(private: &mut Vec<Private>, kind: PrivateKind, place: Rectangle) {
    if let Some(Rectangle { x, y, width, height }) = place.visible() {
        private.push(Private { kind, x: x as u32, y: y as u32, width: width as u32, height: height as u32 });
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CLASS_NAMES, STREET_PATCH, StreetScenes, street_scenes};
    use super::*;
    use crate::Dataset;

    #[test]
    fn every_scene_is_a_street_with_something_private() {
        let (train, test) = street_scenes().unwrap();
        let mut counts = [0u64; 256];
        let (mut widest, mut highest) = (0, 0);
        for scene in (0..train.len()).map(|record| train.scene(record).unwrap()) {
            scene.labels.iter().for_each(|&class| counts[usize::from(class)] += 1);
            assert!(scene.private.iter().any(|place| place.kind == PrivateKind::Face));
            for place in &scene.private {
                assert!(place.x + place.width <= STREET_WIDTH && place.y + place.height <= STREET_HEIGHT);
                (widest, highest) = (place.width.max(widest), place.height.max(highest));
            }
        }
        // The patch is as large as it has to be, and no larger.
        assert_eq!([widest, highest], STREET_PATCH);
        let all: u64 = counts.iter().sum();
        for class in 0..CLASS_NAMES.len() {
            // Every class covers more than half a percent of all pixels and less than half of them.
            assert!(
                counts[class] * 200 > all && counts[class] * 2 < all,
                "{} {}",
                CLASS_NAMES[class],
                counts[class]
            );
        }
        assert_eq!(counts[usize::from(UNLABELLED)], (train.len() as u64) * (BONNET * WIDE) as u64);
        assert_eq!(counts.iter().filter(|&&count| count > 0).count(), CLASS_NAMES.len() + 1);
        assert_ne!(train.scene(0).unwrap(), test.scene(0).unwrap());
        assert!(train.scene(train.len()).is_err());
    }

    #[test]
    fn plates_and_faces_belong_to_cars_and_people() {
        let scenes = StreetScenes::new(9, 50).unwrap();
        let mut seen = 0;
        for scene in (0..50).map(|record| scenes.scene(record).unwrap()) {
            for place in &scene.private {
                let middle = (place.y + place.height / 2) * STREET_WIDTH + place.x + place.width / 2;
                let class = scene.labels[middle as usize];
                let own = if place.kind == PrivateKind::Plate { CAR } else { PERSON };
                // Something nearer may hide it.
                assert!([own, CAR, PERSON, UNLABELLED].contains(&class));
                seen += u32::from(class == own);
            }
        }
        assert!(seen > 100, "{seen}");
    }

    #[test]
    fn scenes_are_always_the_same() {
        // Fixed once, because changing the scenes changes every figure that was measured on them.
        let scenes = StreetScenes::new(1, 20).unwrap();
        assert_eq!(&scenes.fingerprint().unwrap()[..16], "8781ff167b09238a");
    }
}
