//! A decoded image.

use dapple_geometry::Size;

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
        (channels > 0 && length == expected).then_some(Self { size, channels, values })
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
