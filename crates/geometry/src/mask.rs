use std::borrow::Cow;

use crate::axis::AxisStep;
use crate::propagate::propagate;
use crate::{GeometryError, Size, footprint};

/// A set of pixels of an image, one byte a pixel: `1` = in the set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask {
    size: Size,
    // [height, width], each 0 or 1
    pixels: Vec<u8>,
}

impl Mask {
    /// A mask from one byte a pixel, row by row; every non-zero byte belongs to the set.
    ///
    /// Counting every non-zero byte is the safe reading of an antialiased drawing. A mask may be empty; pricing one is
    /// an error.
    pub fn from_bytes(size: Size, mut bytes: Vec<u8>) -> Result<Self, GeometryError> {
        let expected = size.buffer_length()?;
        if bytes.len() != expected {
            return Err(GeometryError::MaskLength {
                size,
                expected: expected as u64,
                found: bytes.len() as u64,
            });
        }
        for byte in &mut bytes {
            *byte = u8::from(*byte != 0);
        }
        Ok(Self { size, pixels: bytes })
    }

    /// A mask from a rule over (x, y).
    pub fn from_fn(size: Size, mut belongs: impl FnMut(u32, u32) -> bool) -> Result<Self, GeometryError> {
        let mut pixels = Vec::with_capacity(size.buffer_length()?);
        for y in 0..size.height() {
            pixels.extend((0..size.width()).map(|x| u8::from(belongs(x, y))));
        }
        Ok(Self { size, pixels })
    }

    /// A mask without a pixel in the set.
    pub fn empty(size: Size) -> Result<Self, GeometryError> {
        Ok(Self { size, pixels: vec![0; size.buffer_length()?] })
    }

    /// The pixels whose buffer is known to hold `size` bytes of 0 or 1.
    pub(crate) fn from_pixels(size: Size, pixels: Vec<u8>) -> Self {
        debug_assert_eq!(pixels.len() as u64, size.pixels());
        Self { size, pixels }
    }

    /// Width and height.
    pub fn size(&self) -> Size {
        self.size
    }

    /// One byte a pixel, 0 or 1, row by row: `[height, width]`.
    pub fn bytes(&self) -> &[u8] {
        &self.pixels
    }

    /// Whether the pixel belongs to the set; pixels outside do not.
    pub fn get(&self, x: u32, y: u32) -> bool {
        x < self.size.width() && y < self.size.height() && self.row(y)[x as usize] != 0
    }

    /// Number of pixels in the set.
    pub fn count(&self) -> u64 {
        self.rows().map(|row| row.iter().map(|&pixel| u64::from(pixel)).sum::<u64>()).sum()
    }

    /// Whether no pixel belongs to the set.
    pub fn is_empty(&self) -> bool {
        self.pixels.iter().all(|&pixel| pixel == 0)
    }

    /// The row `y`; the caller keeps `y` below the height.
    pub(crate) fn row(&self, y: u32) -> &[u8] {
        let width = self.size.width() as usize;
        &self.pixels[y as usize * width..][..width]
    }

    pub(crate) fn rows(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.pixels.chunks_exact(self.size.width() as usize)
    }

    /// The smallest rectangle around the set: (x, y, size); `None` when the set is empty.
    pub fn bounding_box(&self) -> Option<(u32, u32, Size)> {
        let hit = |row: &[u8]| row.contains(&1);
        let top = self.rows().position(hit)? as u32;
        let bottom = self.size.height() - 1 - self.rows().rev().position(hit)? as u32;
        let mut left = self.size.width();
        let mut right = 0;
        for row in self.rows().filter(|row| hit(row)) {
            if let (Some(first), Some(last)) =
                (row.iter().position(|&pixel| pixel != 0), row.iter().rposition(|&pixel| pixel != 0))
            {
                left = left.min(first as u32);
                right = right.max(last as u32);
            }
        }
        let size = Size::new(right - left + 1, bottom - top + 1).ok()?;
        Some((left, top, size))
    }

    /// The part of the set inside the rectangle, as a mask of the rectangle's size.
    pub(crate) fn cut(&self, x: u32, y: u32, size: Size) -> Self {
        let mut pixels = Vec::with_capacity(size.pixels() as usize);
        for row in y..y + size.height() {
            pixels.extend_from_slice(&self.row(row)[x as usize..(x + size.width()) as usize]);
        }
        Self { size, pixels }
    }

    /// The part of the set that lies within a crop, as a mask of the crop's size.
    ///
    /// # Errors
    /// A crop that leaves the mask.
    pub fn crop(&self, x: u32, y: u32, size: Size) -> Result<Self, GeometryError> {
        let fits = |start: u32, length: u32, side: u32| u64::from(start) + u64::from(length) <= side.into();
        match fits(x, size.width(), self.size.width()) && fits(y, size.height(), self.size.height()) {
            true => Ok(self.cut(x, y, size)),
            false => Err(GeometryError::CropTooLarge { crop: size, image: self.size }),
        }
    }

    /// The pixels within `x` columns and `y` rows of the set, as far as the image goes.
    #[must_use]
    pub fn dilated(&self, x: u32, y: u32) -> Self {
        let step = |length: u32, radius: u32| {
            (radius > 0).then(|| AxisStep::Ranges(footprint::blur(length, radius)))
        };
        let (along_x, along_y) = (step(self.size.width(), x), step(self.size.height(), y));
        propagate(Cow::Borrowed(self), along_x.as_ref(), along_y.as_ref())
            .expect("the result is as large as the mask")
            .into_owned()
    }

    /// The pixels that are in any of some sets.
    ///
    /// # Errors
    /// Sets of different sizes, and none at all.
    pub fn union(masks: &[Self]) -> Result<Self, GeometryError> {
        let Some((first, others)) = masks.split_first() else {
            return Err(GeometryError::ZeroSize { what: "a union of no masks", width: 0, height: 0 });
        };
        let mut all = first.clone();
        for other in others {
            if other.size != all.size {
                let (value, limit) = (other.size.pixels().into(), all.size.pixels().into());
                return Err(GeometryError::TooLarge { what: "a mask of another size", value, limit });
            }
            all.pixels.iter_mut().zip(&other.pixels).for_each(|(pixel, other)| *pixel |= other);
        }
        Ok(all)
    }

    /// The pixels of this size that are not in the set.
    #[must_use]
    pub fn complement(&self) -> Self {
        Self { size: self.size, pixels: self.pixels.iter().map(|&pixel| 1 - pixel).collect() }
    }

    /// Whether the rectangle holds a pixel of the set; the caller keeps it inside.
    pub(crate) fn meets(&self, x: u32, y: u32, size: Size) -> bool {
        (y..y + size.height()).any(|row| self.row(row)[x as usize..(x + size.width()) as usize].contains(&1))
    }

    /// Adds the pixels of `other`, moved so that its first pixel lies at (x, y); the caller keeps it inside.
    pub(crate) fn add(&mut self, other: &Mask, x: u32, y: u32) {
        let width = self.size.width() as usize;
        for (offset, source) in other.rows().enumerate() {
            let start = (y as usize + offset) * width + x as usize;
            for (target, &pixel) in self.pixels[start..start + source.len()].iter_mut().zip(source) {
                *target |= pixel;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_nonzero_byte_counts() {
        let mask = Mask::from_bytes(Size::new(3, 2).unwrap(), vec![0, 255, 0, 0, 7, 0]).unwrap();
        assert_eq!(mask.count(), 2);
        assert_eq!(mask.bounding_box(), Some((1, 0, Size::new(1, 2).unwrap())));
        assert!(mask.get(1, 1) && !mask.get(0, 0) && !mask.get(9, 9));
    }

    #[test]
    fn wrong_length_and_wrong_size_are_errors() {
        let size = Size::new(3, 2).unwrap();
        assert!(matches!(
            Mask::from_bytes(size, vec![1; 5]),
            Err(GeometryError::MaskLength { expected: 6, found: 5, .. })
        ));
        let huge = Size::new(u32::MAX, u32::MAX).unwrap();
        assert!(matches!(Mask::from_bytes(huge, vec![]), Err(GeometryError::TooLarge { .. })));
        assert!(matches!(Mask::empty(huge), Err(GeometryError::TooLarge { .. })));
    }
}
