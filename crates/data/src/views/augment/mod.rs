//! Random changes of views behind the crop.

mod colour;
mod draw;
mod filter;
#[cfg(test)]
mod golden_tests;
mod histogram;
mod noise;
mod rand_augment;
#[cfg(test)]
mod tests;
mod warp;

use chacha20::rand_core::Rng;
use dapple_geometry::{Augmentation, AugmentationKind, Size};
use dapple_plan::PixelNoise;

use super::Views;
use super::buffer::Buffer;
use crate::DataError;
use crate::uniform::unit;

pub(super) use warp::Warp;

/// A change of a view whose parameters are drawn. Values of views run from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ViewChange {
    Brightness(f32),
    Contrast(f32),
    Saturation(f32),
    Hue(f32),
    Greyscale,
    Invert,
    Posterize { bits: u32 },
    Solarize { threshold: f32 },
    AutoContrast,
    Equalize,
    Warp(Warp),
    Cutout { left: i64, top: i64, size: Size },
    Noise { deviation: f64 },
    Blur { radius: u32, deviation: f64 },
    Sharpness(f32),
    Sobel,
}

/// One view with its size: planes `[channels, height, width]` of values from 0 to 1, or `[channels, frames, height, width]` of a clip.
struct ViewPlanes<'a> {
    values: &'a mut [f32],
    size: Size,
    /// Frames of a clip; 1 for an image. A change is the same for all frames but for what it takes from the pixels of each.
    frames: usize,
}

impl Views {
    /// The same views, changed at random behind the crop.
    ///
    /// # Guarantee
    /// Every change is a function of one view alone and of random numbers that depend on no data.
    ///
    /// # Errors
    /// A change that views of this size or of this number of channels do not allow.
    pub(super) fn with_augmentations(mut self, augment: &[Augmentation]) -> Result<Self, DataError> {
        let refused = |augmentation: &Augmentation, problem: String| {
            DataError::setting("data.augment", format!("`{}` {problem}", augmentation.name()))
        };
        let channels = self.normalise.channels();
        for augmentation in augment {
            match augmentation.kind {
                AugmentationKind::ColourJitter(_)
                | AugmentationKind::Greyscale
                | AugmentationKind::RandAugment { .. }
                    if channels != 1 && channels != 3 =>
                {
                    let problem = format!("is for images of 1 or 3 channels, these have {channels}");
                    return Err(refused(augmentation, problem));
                }
                AugmentationKind::Blur { radius, .. }
                    if radius >= self.output.width().min(self.output.height()) =>
                {
                    let problem =
                        format!("mirrors {radius} pixels at the edge, but views are {}", self.output);
                    return Err(refused(augmentation, problem));
                }
                _ => {}
            }
        }
        self.augment = augment.to_vec();
        Ok(self)
    }

    /// Draws the changes of each view and carries them out, pixel noise first. `warped` is told of each warp with the number of its view.
    ///
    /// # Shapes
    /// `views` is `[views, channels, height, width]`, or with `frames` behind `channels`, normalised.
    pub(super) fn change(
        &self,
        random: &mut impl Rng,
        views: &mut [f32],
        mut warped: impl FnMut(usize, &Warp),
    ) {
        if self.augment.is_empty() && self.pixel_noise.is_none() {
            return;
        }
        for (number, view) in views.chunks_exact_mut(self.view_length()).enumerate() {
            self.normalise.undo(view);
            let frames = self.normalise.frames().unwrap_or(1);
            let mut planes = ViewPlanes { values: view, size: self.output, frames };
            if let Some(deviation) = self.pixel_noise {
                noise::add_counted(&mut planes, deviation, random);
            }
            for augmentation in &self.augment {
                // The coin is tossed even where it decides nothing, so that a stream is read alike for all probabilities.
                if unit(random) >= augmentation.probability {
                    continue;
                }
                for change in draw::changes(&augmentation.kind, self.output, random) {
                    if let ViewChange::Warp(warp) = &change {
                        warped(number, warp);
                    }
                    planes.apply(&change, |channel| self.normalise.mean(channel), random);
                }
            }
            self.normalise.apply(view);
        }
    }
}

impl ViewPlanes<'_> {
    fn pixels(&self) -> usize {
        self.size.pixels() as usize
    }

    fn width(&self) -> usize {
        self.size.width() as usize
    }

    fn planes(&mut self) -> impl Iterator<Item = &mut [f32]> {
        let pixels = self.pixels();
        self.values.chunks_exact_mut(pixels)
    }

    /// A copy to read from while the view is written.
    fn copy(&self) -> Buffer {
        Buffer::copy_of(self.values)
    }

    /// Carries out a change. `cover` is what a cutout shows of each channel.
    fn apply(&mut self, change: &ViewChange, cover: impl Fn(usize) -> f32, random: &mut impl Rng) {
        match *change {
            ViewChange::Brightness(factor) => colour::brightness(self, factor),
            ViewChange::Contrast(factor) => colour::contrast(self, factor),
            ViewChange::Saturation(factor) => colour::saturation(self, factor),
            ViewChange::Hue(turn) => colour::hue(self, turn),
            ViewChange::Greyscale => colour::saturation(self, 0.0),
            ViewChange::Invert => colour::invert(self),
            ViewChange::Posterize { bits } => colour::posterize(self, bits),
            ViewChange::Solarize { threshold } => colour::solarize(self, threshold),
            ViewChange::AutoContrast => histogram::autocontrast(self),
            ViewChange::Equalize => histogram::equalize(self),
            ViewChange::Warp(warp) => warp.apply(self),
            ViewChange::Cutout { left, top, size } => cut_out(self, (left, top), size, cover),
            ViewChange::Noise { deviation } => noise::add(self, deviation, random),
            ViewChange::Blur { radius, deviation } => filter::blur(self, radius as usize, deviation),
            ViewChange::Sharpness(factor) => filter::sharpness(self, factor),
            ViewChange::Sobel => filter::sobel(self),
        }
    }
}

/// The noise on pixels, if views show them as they were counted: each once, at the size of the crop, in no more channels.
pub(super) fn counted(
    noise: PixelNoise,
    channels: usize,
    (natural, output): (Option<Size>, Size),
) -> Result<f64, DataError> {
    let refused = |problem: String| Err(DataError::setting("pipeline.pixel_noise", problem));
    if natural != Some(output) {
        return refused(format!("views are resized to {output}, but noise is counted on pixels as they are"));
    }
    if channels > noise.channels() as usize {
        return refused(format!("noise is counted for {} channels, not for {channels}", noise.channels()));
    }
    Ok(noise.deviation())
}

/// Covers the part of a rectangle that lies within the view.
fn cut_out(view: &mut ViewPlanes<'_>, (left, top): (i64, i64), size: Size, cover: impl Fn(usize) -> f32) {
    let width = view.width();
    let within = |start: i64, length: u32, side: u32| {
        let inside = |place: i64| place.clamp(0, i64::from(side)) as usize;
        inside(start)..inside(start + i64::from(length))
    };
    let columns = within(left, size.width(), view.size.width());
    let rows = within(top, size.height(), view.size.height());
    let frames = view.frames;
    for (plane, channel) in view.planes().zip((0..).map(|plane| plane / frames)) {
        for row in plane.chunks_exact_mut(width).take(rows.end).skip(rows.start) {
            row[columns.clone()].fill(cover(channel));
        }
    }
}
