use std::fmt;
use std::str::FromStr;

use crate::GeometryError;

/// The most pixels a mask may have (1 GiB at one byte a pixel).
pub const MAX_PIXELS: u64 = 1 << 30;

/// Width and height in pixels, both at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Size {
    width: u32,
    height: u32,
}

impl Size {
    /// A size with both sides at least 1.
    pub fn new(width: u32, height: u32) -> Result<Self, GeometryError> {
        Self::named("size", width, height)
    }

    /// A size whose error names the thing that has it.
    pub fn named(what: &'static str, width: u32, height: u32) -> Result<Self, GeometryError> {
        if width == 0 || height == 0 {
            return Err(GeometryError::ZeroSize { what, width, height });
        }
        Ok(Self { width, height })
    }

    /// Pixels in a row.
    pub fn width(self) -> u32 {
        self.width
    }

    /// Rows.
    pub fn height(self) -> u32 {
        self.height
    }

    /// Width times height.
    pub fn pixels(self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    /// Width and height exchanged.
    pub fn transposed(self) -> Self {
        Self { width: self.height, height: self.width }
    }

    /// Whether `inner` fits into this size without turning it.
    pub fn contains(self, inner: Size) -> bool {
        inner.width <= self.width && inner.height <= self.height
    }

    /// Number of pixels as a buffer length, refused above [`MAX_PIXELS`].
    pub(crate) fn buffer_length(self) -> Result<usize, GeometryError> {
        let pixels = self.pixels();
        if pixels > MAX_PIXELS {
            return Err(GeometryError::TooLarge {
                what: "number of pixels of a mask",
                value: pixels.into(),
                limit: MAX_PIXELS.into(),
            });
        }
        Ok(pixels as usize)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}x{}", self.width, self.height)
    }
}

impl FromStr for Size {
    type Err = GeometryError;

    /// `WIDTHxHEIGHT`, or one number for a square.
    fn from_str(text: &str) -> Result<Self, GeometryError> {
        let unknown = || GeometryError::UnknownName {
            what: "size",
            found: text.to_owned(),
            known: "WIDTHxHEIGHT, e.g. 640x480",
        };
        let side = |part: &str| part.trim().parse::<u32>().map_err(|_| unknown());
        match text.split_once(['x', 'X']) {
            Some((width, height)) => Self::new(side(width)?, side(height)?),
            None => {
                let length = side(text)?;
                Self::new(length, length)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let size = Size::new(640, 480).unwrap();
        assert_eq!(size.to_string().parse::<Size>().unwrap(), size);
        assert_eq!("10".parse::<Size>().unwrap(), Size::new(10, 10).unwrap());
    }

    #[test]
    fn refuses_zero_and_nonsense() {
        assert!(matches!(Size::new(0, 4), Err(GeometryError::ZeroSize { .. })));
        for text in ["", "x", "3x", "ax4", "-1x4", "1x2x3", "99999999999x1"] {
            let error = text.parse::<Size>().unwrap_err();
            assert!(error.hint().is_some(), "{text}");
        }
    }
}
