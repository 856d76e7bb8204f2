//! The canvas on which scenes are drawn, rectangle by rectangle: a colour and a class for each pixel.

use chacha20::rand_core::Rng;

use super::{STREET_HEIGHT, STREET_WIDTH};
use crate::UNLABELLED;
use crate::uniform::below;

const WIDE: i32 = STREET_WIDTH as i32;
const HIGH: i32 = STREET_HEIGHT as i32;

/// A rectangle; it may reach beyond the canvas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rectangle {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) width: i32,
    pub(super) height: i32,
}

impl Rectangle {
    pub(super) fn new(x: i32, y: i32, width: i32, height: i32) -> Self {
        Self { x, y, width, height }
    }

    /// The part that lies on the canvas, if any.
    pub(super) fn visible(self) -> Option<Self> {
        let (left, top) = (self.x.max(0), self.y.max(0));
        let (right, bottom) = ((self.x + self.width).min(WIDE), (self.y + self.height).min(HIGH));
        (left < right && top < bottom).then(|| Self::new(left, top, right - left, bottom - top))
    }
}

/// A scene while it is being drawn.
pub(super) struct Canvas {
    // [height, width, 3]
    pub(super) pixels: Vec<u8>,
    // [height, width]
    pub(super) labels: Vec<u8>,
}

impl Canvas {
    pub(super) fn new() -> Self {
        let pixels = (WIDE * HIGH) as usize;
        Self { pixels: vec![0; 3 * pixels], labels: vec![UNLABELLED; pixels] }
    }

    /// Fills a rectangle with a colour and a class; whatever was there is hidden.
    pub(super) fn fill(&mut self, rectangle: Rectangle, colour: [u8; 3], class: u8) {
        let Some(Rectangle { x, y, width, height }) = rectangle.visible() else { return };
        for row in y..y + height {
            let pixels = (row * WIDE + x) as usize..(row * WIDE + x + width) as usize;
            self.labels[pixels.clone()].fill(class);
            for pixel in self.pixels[3 * pixels.start..3 * pixels.end].as_chunks_mut::<3>().0 {
                *pixel = colour;
            }
        }
    }

    /// Moves every value up or down by a random amount of at most `most`.
    pub(super) fn roughen(&mut self, random: &mut impl Rng, most: u8) {
        let mut noise = vec![0; self.pixels.len()];
        random.fill_bytes(&mut noise);
        for (value, noise) in self.pixels.iter_mut().zip(noise) {
            *value = value.saturating_add(noise % (2 * most + 1)).saturating_sub(most);
        }
    }
}

/// A uniform whole number from `low` to `high`, both included.
pub(super) fn between(random: &mut impl Rng, low: i32, high: i32) -> i32 {
    low + below(random, (high - low + 1) as u64) as i32
}

/// A random colour whose values lie at most `spread` above those given.
pub(super) fn shade(random: &mut impl Rng, base: [u8; 3], spread: u8) -> [u8; 3] {
    base.map(|value| value.saturating_add(below(random, u64::from(spread) + 1) as u8))
}
