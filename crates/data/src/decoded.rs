//! A decoded image or clip.

use dapple_geometry::{Mask, Size};

use crate::DataError;

/// Values of an image, row by row, pixel by pixel, channel by channel: `[height, width, channels]`. Of a clip, each channel of a pixel has
/// its values in all frames, one after the other: `[height, width, channels, frames]`.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Bytes; 255 stands for 1.
    Bytes(Vec<u8>),
    /// Numbers as they are.
    Floats(Vec<f32>),
}

/// A decoded image, or a clip: an image with more values per pixel, so that whatever is done with its pixels is done with those of all
/// frames alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    size: Size,
    channels: usize,
    frames: Option<usize>,
    values: Values,
    turned: bool,
}

impl Image {
    /// An image from its values; `None` unless there is one value for each channel of each pixel.
    #[must_use]
    pub fn new(size: Size, channels: usize, values: Values) -> Option<Self> {
        Self::checked(size, channels, None, values)
    }

    /// A clip from the values of its frames, `[frames, height, width, channels]`; `None` unless there is one value for each channel of each
    /// pixel of each frame.
    #[must_use]
    pub fn clip(size: Size, channels: usize, frames: usize, values: &[u8]) -> Option<Self> {
        let mut woven = vec![0; values.len()];
        let each = usize::try_from(size.pixels()).ok()?.checked_mul(channels).filter(|each| *each > 0)?;
        for (number, frame) in values.chunks_exact(each).enumerate() {
            let targets = woven.iter_mut().skip(number).step_by(frames.max(1));
            targets.zip(frame).for_each(|(target, value)| *target = *value);
        }
        Self::checked(size, channels, Some(frames), Values::Bytes(woven))
    }

    fn checked(size: Size, channels: usize, frames: Option<usize>, values: Values) -> Option<Self> {
        let length = match &values {
            Values::Bytes(bytes) => bytes.len(),
            Values::Floats(floats) => floats.len(),
        };
        let per_pixel = channels.checked_mul(frames.unwrap_or(1))?;
        let expected = usize::try_from(size.pixels()).ok()?.checked_mul(per_pixel)?;
        (per_pixel > 0 && length == expected).then_some(Self {
            size,
            channels,
            frames,
            values,
            turned: false,
        })
    }

    /// The same values of a file that notes whether they are to be turned or mirrored where the picture is shown.
    #[must_use]
    pub fn noted_turned(self, turned: bool) -> Self {
        Self { turned, ..self }
    }

    /// Whether the file, or one of the frames' files, notes so.
    pub(crate) fn is_turned(&self) -> bool {
        self.turned
    }

    /// The image, if its file does not note that it is to be turned. A mask of one that is may lie over the picture as it is stored, or as it
    /// is shown, and nothing tells which.
    ///
    /// # Errors
    /// Such a note; `place` says whose it is.
    pub fn upright(self, place: impl FnOnce() -> String) -> Result<Self, DataError> {
        if self.turned { Err(DataError::Turned { place: place() }) } else { Ok(self) }
    }

    /// The image with a constant in the place of hidden pixels: those of one mask for all frames, or of one for each. `constant` tells it
    /// for each channel, where 1 stands for a byte of 255. Masks of another size or number are `None`.
    ///
    /// # Guarantee
    /// No bit of the result depends on the values of hidden pixels.
    #[must_use]
    pub fn blanked(mut self, hidden: &[Mask], constant: impl Fn(usize) -> f32) -> Option<Self> {
        let (frames, per_pixel) = (self.frames.unwrap_or(1), self.values_per_pixel());
        if hidden.iter().any(|mask| mask.size() != self.size) || ![1, frames].contains(&hidden.len()) {
            return None;
        }
        let constants: Vec<f32> = (0..per_pixel).map(|place| constant(place / frames)).collect();
        match &mut self.values {
            Values::Bytes(bytes) => {
                let rounded: Vec<u8> = constants.iter().map(|value| (value * 255.0).round() as u8).collect();
                blank(bytes, hidden, &rounded);
            }
            Values::Floats(floats) => blank(floats, hidden, &constants),
        }
        Some(self)
    }

    /// Width and height.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size
    }

    /// Values per pixel of a frame: 3 for red, green and blue.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The number of frames of a clip; `None` for an image.
    #[must_use]
    pub fn frames(&self) -> Option<usize> {
        self.frames
    }

    /// Values per pixel, of all frames together.
    pub(crate) fn values_per_pixel(&self) -> usize {
        self.channels * self.frames.unwrap_or(1)
    }

    /// The values: `[height, width, channels]`, or `[height, width, channels, frames]`.
    #[must_use]
    pub fn values(&self) -> &Values {
        &self.values
    }
}

/// Writes the constants of a pixel over those of its values that are hidden. Value `v` of a pixel belongs to the mask `v % masks`, because
/// the values of all frames of a channel follow each other.
fn blank<T: Copy>(values: &mut [T], hidden: &[Mask], constants: &[T]) {
    for (number, mask) in hidden.iter().enumerate() {
        let pixels = values.chunks_exact_mut(constants.len()).zip(mask.bytes());
        for (pixel, _) in pixels.filter(|(_, hidden)| **hidden != 0) {
            let own = pixel.iter_mut().zip(constants).skip(number).step_by(hidden.len());
            own.for_each(|(value, constant)| *value = *constant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clip_keeps_the_frames_of_a_channel_together_and_hides_each_by_its_mask() {
        let size = Size::new(2, 1).unwrap();
        // Two frames of two pixels of three channels.
        let frames: Vec<u8> = (0..12).collect();
        let clip = Image::clip(size, 3, 2, &frames).unwrap();
        let Values::Bytes(values) = clip.values() else { panic!("bytes") };
        assert_eq!(values, &[0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11]);
        assert_eq!((clip.frames(), clip.channels(), clip.values_per_pixel()), (Some(2), 3, 6));
        let mask = |pixels: [u8; 2]| Mask::from_bytes(size, pixels.to_vec()).unwrap();
        let shown = |masks: &[Mask]| {
            let clip = clip.clone().blanked(masks, |channel| 0.2 + 0.2 * channel as f32).unwrap();
            let Values::Bytes(values) = clip.values() else { panic!("bytes") };
            values.clone()
        };
        let (first, second) = (mask([1, 0]), mask([0, 1]));
        assert_eq!(shown(&[first.clone(), second]), [51, 6, 102, 7, 153, 8, 3, 51, 4, 102, 5, 153]);
        assert_eq!(shown(std::slice::from_ref(&first)), [51, 51, 102, 102, 153, 153, 3, 9, 4, 10, 5, 11]);
        assert!(clip.blanked(&vec![first; 3], |_| 0.0).is_none());
        assert!(Image::clip(size, 3, 0, &[]).is_none() && Image::clip(size, 3, 2, &frames[1..]).is_none());
    }
}
