//! One clip, drawn in whole numbers only, so that every machine draws the same.

use chacha20::rand_core::Rng;

use super::{MOTIONS, MOVING_FRAMES, MOVING_PATCH, MOVING_SIDE};
use crate::uniform::below;

const SIDE: i32 = MOVING_SIDE as i32;
const LAST: i32 = MOVING_FRAMES as i32 - 1;
/// The side of the smallest shape, and of one before it has grown.
const SMALLEST: i32 = 6;
const LARGEST: i32 = MOVING_PATCH[0] as i32;
const SEED_SIDE: i32 = 3;
/// The least and the most pixels that a shape moves.
const WAY: [i32; 2] = [8, 12];
/// How many backgrounds out of four are those of the class; the others are any.
const TELLING: i32 = 3;
/// The most by which the pixels of a background differ from their colour.
const GRAIN: i32 = 12;

/// The outline of a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outline {
    Square,
    Disc,
    Diamond,
}

/// A clip that was planned: where its shape is in each frame, and what is behind it.
#[derive(Debug, Clone)]
pub(super) struct MovingClip {
    motion: i32,
    outline: Outline,
    /// The side of the shape at its largest, and its first corner at the beginning.
    side: i32,
    corner: [i32; 2],
    way: i32,
    colour: [u8; 3],
    /// `[height, width, 3]`
    background: Vec<u8>,
}

impl MovingClip {
    pub(super) fn draw(random: &mut impl Rng) -> Self {
        let motion = between(random, 0, MOTIONS.len() as i32 - 1);
        let outline = [Outline::Square, Outline::Disc, Outline::Diamond][between(random, 0, 2) as usize];
        let side = between(random, SMALLEST, LARGEST);
        let way = between(random, WAY[0], WAY[1]);
        let mut anywhere = |room: i32| between(random, 0, SIDE - side - room);
        let mut corner = [anywhere(0), anywhere(0)];
        match motion {
            0 => corner[0] = anywhere(way),
            1 => corner[0] = way + anywhere(way),
            2 => corner[1] = anywhere(way),
            3 => corner[1] = way + anywhere(way),
            _ => {}
        }
        let telling = between(random, 0, 3) < TELLING;
        let pattern = if telling { motion } else { between(random, 0, MOTIONS.len() as i32 - 1) };
        let background = background(pattern, random);
        let colour = [(); 3].map(|()| between(random, 160, 255) as u8);
        Self { motion, outline, side, corner, way, colour, background }
    }

    pub(super) fn class(&self) -> u32 {
        self.motion as u32
    }

    /// The first corner of the shape in a frame, and its side.
    fn place(&self, frame: usize) -> ([i32; 2], i32) {
        let frame = frame as i32;
        let moved = (2 * self.way * frame + LAST) / (2 * LAST);
        let [x, y] = self.corner;
        let grown = |frame: i32| SEED_SIDE + ((self.side - SEED_SIDE) * frame * 2 + LAST) / (2 * LAST);
        let about = |side: i32| ([x + (self.side - side) / 2, y + (self.side - side) / 2], side);
        match self.motion {
            0 => ([x + moved, y], self.side),
            1 => ([x - moved, y], self.side),
            2 => ([x, y + moved], self.side),
            3 => ([x, y - moved], self.side),
            4 => about(grown(frame)),
            _ => about(grown(LAST - frame)),
        }
    }

    /// Whether the shape covers a pixel in a frame.
    pub(super) fn covers(&self, frame: usize, x: i32, y: i32) -> bool {
        let ([left, top], side) = self.place(frame);
        let inside = |place: i32, first: i32| (first..first + side).contains(&place);
        if !inside(x, left) || !inside(y, top) {
            return false;
        }
        // Twice the distance to the centre, whose coordinates may be halves.
        let along = |place: i32, first: i32| (2 * (place - first) + 1 - side).abs();
        let (x, y) = (along(x, left), along(y, top));
        match self.outline {
            Outline::Square => true,
            Outline::Disc => x * x + y * y <= side * side,
            Outline::Diamond => x + y <= side,
        }
    }

    /// The values of a frame, `[height, width, 3]`.
    pub(super) fn frame(&self, frame: usize) -> Vec<u8> {
        let mut pixels = self.background.clone();
        for (place, pixel) in (0..).zip(pixels.as_chunks_mut::<3>().0) {
            if self.covers(frame, place % SIDE, place / SIDE) {
                *pixel = self.colour;
            }
        }
        pixels
    }
}

/// A pattern of two colours with some grain.
fn background(pattern: i32, random: &mut impl Rng) -> Vec<u8> {
    let [dark, light] = [(10, 70), (80, 140)].map(|(low, high)| [(); 3].map(|()| between(random, low, high)));
    let phase = between(random, 0, 7);
    let is_light = |x: i32, y: i32| match pattern {
        0 => (x + phase) / 4 % 2 == 0,
        1 => (y + phase) / 4 % 2 == 0,
        2 => ((x + phase) / 4 + y / 4) % 2 == 0,
        3 => (x + y + phase) / 4 % 2 == 0,
        4 => (x + phase) % 5 < 2 && (y + phase) % 5 < 2,
        _ => y > SIDE / 2 - 4 + phase,
    };
    let mut values = Vec::with_capacity((3 * SIDE * SIDE) as usize);
    for (y, x) in (0..SIDE).flat_map(|y| (0..SIDE).map(move |x| (y, x))) {
        let colour = if is_light(x, y) { light } else { dark };
        let grain = between(random, -GRAIN, GRAIN);
        values.extend(colour.map(|value| (value + grain).clamp(0, 255) as u8));
    }
    values
}

/// A uniform whole number from `low` to `high`, both included.
fn between(random: &mut impl Rng, low: i32, high: i32) -> i32 {
    low + below(random, (high - low + 1) as u64) as i32
}
