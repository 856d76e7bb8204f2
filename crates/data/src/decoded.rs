//! A decoded image.

use dapple_geometry::{Mask, Size};

use crate::DataError;

/// Values of an image, row by row, pixel by pixel, channel by channel: `[height, width, channels]`.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Bytes; 255 stands for 1.
    Bytes(Vec<u8>),
    /// Numbers as they are.
    Floats(Vec<f32>),
}

/// A decoded image.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    size: Size,
    channels: usize,
    values: Values,
    turned: bool,
}

impl Image {
    /// An image from its values; `None` unless there is one value for each channel of each pixel.
    #[must_use]
    pub fn new(size: Size, channels: usize, values: Values) -> Option<Self> {
        let length = match &values {
            Values::Bytes(bytes) => bytes.len(),
            Values::Floats(floats) => floats.len(),
        };
        let expected = usize::try_from(size.pixels()).ok()?.checked_mul(channels)?;
        (channels > 0 && length == expected).then_some(Self { size, channels, values, turned: false })
    }

    /// The same values of a file that notes whether they are to be turned or mirrored where the picture is shown.
    #[must_use]
    pub fn noted_turned(self, turned: bool) -> Self {
        Self { turned, ..self }
    }

    /// The image, if its file does not note that it is to be turned. A mask of one that is may lie over the picture as it is stored, or as it
    /// is shown, and nothing tells which.
    ///
    /// # Errors
    /// Such a note; `place` says whose it is.
    pub fn upright(self, place: impl FnOnce() -> String) -> Result<Self, DataError> {
        if self.turned { Err(DataError::Turned { place: place() }) } else { Ok(self) }
    }

    /// The image with a constant in the place of the pixels in the set; `constant` tells it for each channel, where 1 stands for a byte of
    /// 255. A set of another size is `None`.
    ///
    /// # Guarantee
    /// No bit of the result depends on the values of pixels in the set.
    #[must_use]
    pub fn blanked(mut self, set: &Mask, constant: impl Fn(usize) -> f32) -> Option<Self> {
        fn blank<T: Copy>(values: &mut [T], set: &Mask, constants: &[T]) {
            let pixels = values.chunks_exact_mut(constants.len()).zip(set.bytes());
            pixels
                .filter(|(_, hidden)| **hidden != 0)
                .for_each(|(pixel, _)| pixel.copy_from_slice(constants));
        }
        if set.size() != self.size {
            return None;
        }
        let constants: Vec<f32> = (0..self.channels).map(constant).collect();
        match &mut self.values {
            Values::Bytes(bytes) => {
                let rounded: Vec<u8> = constants.iter().map(|value| (value * 255.0).round() as u8).collect();
                blank(bytes, set, &rounded);
            }
            Values::Floats(floats) => blank(floats, set, &constants),
        }
        Some(self)
    }

    /// Width and height.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size
    }

    /// Values per pixel.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The values: `[height, width, channels]`.
    #[must_use]
    pub fn values(&self) -> &Values {
        &self.values
    }
}
