//! Which pixels the tokens of a view read.

use std::borrow::Cow;

use crate::axis::AxisStep;
use crate::footprint::Range;
use crate::propagate::propagate;
use crate::{GeometryError, Mask, Size};

/// The windows through which a model reads a view as tokens, row by row: patches that lie side by side, or windows that overlap or
/// reach into padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenGrid {
    window: u32,
    stride: u32,
    padding: u32,
}

impl TokenGrid {
    /// Square windows of this side, so many pixels apart, over a view that is padded with a constant on each side.
    ///
    /// # Errors
    /// A window or a stride of zero, or padding in which a whole window would fit.
    pub fn new(window: u32, stride: u32, padding: u32) -> Result<Self, GeometryError> {
        Size::named("the window of a token", window, stride)?;
        if padding >= window {
            let (what, value, limit) = ("padding before tokens", padding.into(), (window - 1).into());
            return Err(GeometryError::TooLarge { what, value, limit });
        }
        Ok(Self { window, stride, padding })
    }

    /// Patches of this side that lie side by side.
    ///
    /// # Errors
    /// A side of zero.
    pub fn patches(side: u32) -> Result<Self, GeometryError> {
        Self::new(side, side, 0)
    }

    /// The columns and rows of tokens in a view of this size. Pixels at the end that fill no window are read by no token.
    ///
    /// # Errors
    /// A view that is smaller than a window.
    pub fn size(&self, view: Size) -> Result<Size, GeometryError> {
        let along = |length: u32| {
            let room = (u64::from(length) + 2 * u64::from(self.padding)).checked_sub(self.window.into());
            room.map_or(0, |room| (room / u64::from(self.stride)) as u32 + 1)
        };
        Size::named("the grid of tokens", along(view.width()), along(view.height()))
    }

    /// The tokens that read a pixel of the set, one pixel of the result for each token.
    ///
    /// # Guarantee
    /// A token is outside the result only if every pixel of its window is outside the set. So if the set holds all pixels of a view that
    /// may depend on private content, the other tokens are public.
    ///
    /// # Errors
    /// A mask that is smaller than a window.
    pub fn touched(&self, mask: &Mask) -> Result<Mask, GeometryError> {
        let (view, tokens) = (mask.size(), self.size(mask.size())?);
        let along_x = self.ranges(view.width(), tokens.width());
        let along_y = self.ranges(view.height(), tokens.height());
        let step = |ranges| Some(AxisStep::Ranges(ranges));
        let touched = propagate(Cow::Borrowed(mask), step(along_x).as_ref(), step(along_y).as_ref())?;
        Ok(touched.into_owned())
    }

    /// The pixels that each token reads along one axis. No window lies in the padding alone.
    fn ranges(&self, length: u32, tokens: u32) -> Vec<Range> {
        let last = i64::from(length) - 1;
        let range = |token: u32| {
            let first = i64::from(token) * i64::from(self.stride) - i64::from(self.padding);
            let end = first + i64::from(self.window) - 1;
            (first.clamp(0, last) as u32, end.clamp(0, last) as u32)
        };
        (0..tokens).map(range).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A token is public if and only if all pixels that a convolution would read for it are.
        #[test]
        fn a_token_is_touched_if_and_only_if_a_pixel_of_its_window_is(
            (width, height) in (1..20u32, 1..20u32),
            (window, stride, padding) in (1..6u32, 1..7u32, 0..6u32),
            seed in any::<u64>(),
            sparse in 1..40u64,
        ) {
            prop_assume!(padding < window && width.min(height) + 2 * padding >= window);
            let view = Size::new(width, height).unwrap();
            let private = |x: u32, y: u32| {
                let hash = (seed ^ u64::from(x * 31 + y)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
                hash.is_multiple_of(sparse)
            };
            let mask = Mask::from_fn(view, private).unwrap();
            let grid = TokenGrid::new(window, stride, padding).unwrap();
            let tokens = grid.size(view).unwrap();
            let along = |length: u32| (length + 2 * padding - window) / stride + 1;
            prop_assert_eq!((tokens.width(), tokens.height()), (along(width), along(height)));
            let touched = grid.touched(&mask).unwrap();
            for row in 0..tokens.height() {
                for column in 0..tokens.width() {
                    let mut any = false;
                    for y in row * stride..row * stride + window {
                        for x in column * stride..column * stride + window {
                            let inside = x >= padding && y >= padding;
                            any |= inside && mask.get(x - padding, y - padding);
                        }
                    }
                    prop_assert_eq!(touched.get(column, row), any, "token {} {}", column, row);
                }
            }
        }

        /// A pixel is in the dilated set if and only if one within reach is in the set.
        #[test]
        fn dilation_reaches_as_far_as_it_says(
            (width, height) in (1..12u32, 1..12u32),
            (x, y) in (0..4u32, 0..4u32),
            at in (0..12u32, 0..12u32),
        ) {
            let size = Size::new(width, height).unwrap();
            let mask = Mask::from_fn(size, |column, row| (column, row) == at).unwrap();
            let dilated = mask.dilated(x, y);
            for row in 0..height {
                for column in 0..width {
                    let within = column.abs_diff(at.0) <= x && row.abs_diff(at.1) <= y && !mask.is_empty();
                    prop_assert_eq!(dilated.get(column, row), within);
                    prop_assert_eq!(dilated.complement().get(column, row), !within);
                }
            }
        }
    }

    #[test]
    fn windows_that_make_no_sense_are_refused() {
        for (window, stride, padding) in [(0, 1, 0), (1, 0, 0), (2, 1, 2)] {
            assert!(TokenGrid::new(window, stride, padding).is_err());
        }
        let grid = TokenGrid::patches(4).unwrap();
        assert!(grid.size(Size::new(3, 8).unwrap()).is_err());
        assert_eq!(grid.size(Size::new(9, 8).unwrap()), Size::new(2, 2));
    }

    #[test]
    fn a_crop_of_a_mask_stays_inside() {
        let mask = Mask::from_fn(Size::new(4, 3).unwrap(), |x, y| (x, y) == (2, 1)).unwrap();
        let two = Size::new(2, 2).unwrap();
        assert!(mask.crop(2, 1, two).unwrap().get(0, 0));
        assert!(mask.crop(3, 1, two).is_err() && mask.crop(2, u32::MAX, two).is_err());
    }
}
