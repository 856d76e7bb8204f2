//! Which pixels the tokens of a view read.

use std::borrow::Cow;

use crate::axis::AxisStep;
use crate::footprint::Range;
use crate::propagate::propagate;
use crate::{GeometryError, Mask, Size};

/// The windows through which a model reads a view as tokens, row by row and, in a clip, time after time: patches that lie side by side, windows
/// that overlap or reach into padding, or cells that divide the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenGrid {
    columns: TokenAxis,
    rows: TokenAxis,
    /// Along the frames of a clip; without it every token reads all frames.
    frames: Option<TokenAxis>,
}

/// The windows along one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenAxis {
    /// Windows of one length, so many apart, over an axis that is padded on both sides.
    Windows { window: u32, stride: u32, padding: u32 },
    /// So many cells that divide the axis. Where they cannot be equal, two neighbours share what lies between them.
    Cells(u32),
}

impl TokenGrid {
    /// Square windows of this side, so many pixels apart, over a view that is padded with a constant on each side.
    ///
    /// # Errors
    /// A window or a stride of zero, or padding in which a whole window would fit.
    pub fn new(window: u32, stride: u32, padding: u32) -> Result<Self, GeometryError> {
        let axis = TokenAxis::windows("the window of a token", window, stride, padding)?;
        Ok(Self { columns: axis, rows: axis, frames: None })
    }

    /// Patches of this side that lie side by side.
    ///
    /// # Errors
    /// A side of zero.
    pub fn patches(side: u32) -> Result<Self, GeometryError> {
        Self::new(side, side, 0)
    }

    /// So many rows and columns of cells that divide a view and, in a clip, so many times.
    ///
    /// # Errors
    /// A number of zero.
    pub fn cells(frames: Option<u32>, rows: u32, columns: u32) -> Result<Self, GeometryError> {
        Size::named("a grid of cells", columns.min(frames.unwrap_or(1)), rows)?;
        let (columns, rows) = (TokenAxis::Cells(columns), TokenAxis::Cells(rows));
        Ok(Self { columns, rows, frames: frames.map(TokenAxis::Cells) })
    }

    /// The same windows over so many frames of a clip at once.
    ///
    /// # Errors
    /// As [`TokenGrid::new`].
    pub fn over_frames(self, window: u32, stride: u32, padding: u32) -> Result<Self, GeometryError> {
        let frames = TokenAxis::windows("the frames of a token", window, stride, padding)?;
        Ok(Self { frames: Some(frames), ..self })
    }

    /// The columns and rows of tokens in a view of this size. Pixels at the end that fill no window are read by no token.
    ///
    /// # Errors
    /// A view that is smaller than a window.
    pub fn size(&self, view: Size) -> Result<Size, GeometryError> {
        let (columns, rows) = (self.columns.count(view.width()), self.rows.count(view.height()));
        Size::named("the grid of tokens", columns, rows)
    }

    /// The number of tokens in a view of this size, of so many frames if it is a clip.
    ///
    /// # Errors
    /// A view that is smaller than a window, or shorter.
    pub fn count(&self, view: Size, frames: Option<u32>) -> Result<u64, GeometryError> {
        Ok(self.size(view)?.pixels() * self.times(frames)?.len() as u64)
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
        let along_x = self.columns.ranges(view.width(), tokens.width());
        let along_y = self.rows.ranges(view.height(), tokens.height());
        let step = |ranges| Some(AxisStep::Ranges(ranges));
        let touched = propagate(Cow::Borrowed(mask), step(along_x).as_ref(), step(along_y).as_ref())?;
        Ok(touched.into_owned())
    }

    /// The tokens of a clip that read a pixel of the sets of its frames, one mask for each time. One set stands for every frame.
    ///
    /// # Guarantee
    /// That of [`TokenGrid::touched`], over all frames of a token's window.
    ///
    /// # Errors
    /// Masks that are smaller than a window, of different sizes, or fewer frames than a window has.
    pub fn touched_in_frames(&self, masks: &[Mask], frames: Option<u32>) -> Result<Vec<Mask>, GeometryError> {
        let (found, wanted) = (masks.len() as u64, u64::from(frames.unwrap_or(1)));
        if found != 1 && found != wanted {
            let (value, limit) = (found.into(), wanted.into());
            return Err(GeometryError::TooLarge { what: "masks of frames", value, limit });
        }
        let touched: Vec<Mask> = masks.iter().map(|mask| self.touched(mask)).collect::<Result<_, _>>()?;
        let of = |&(first, last): &(u32, u32)| match &touched[..] {
            [every] => Ok(every.clone()),
            touched => Mask::union(&touched[first as usize..=last as usize]),
        };
        self.times(frames)?.iter().map(of).collect()
    }

    /// The frames that the tokens of each time read. Tokens without windows of their own along the frames read all of them.
    fn times(&self, frames: Option<u32>) -> Result<Vec<Range>, GeometryError> {
        let length = frames.unwrap_or(1);
        let Some(axis) = self.frames else { return Ok(vec![(0, length.saturating_sub(1))]) };
        let count = axis.count(length);
        Size::named("the grid of tokens", count, length)?;
        Ok(axis.ranges(length, count))
    }
}

impl TokenAxis {
    fn windows(what: &'static str, window: u32, stride: u32, padding: u32) -> Result<Self, GeometryError> {
        Size::named(what, window, stride)?;
        if padding >= window {
            let (what, value, limit) = ("padding before tokens", padding.into(), (window - 1).into());
            return Err(GeometryError::TooLarge { what, value, limit });
        }
        Ok(Self::Windows { window, stride, padding })
    }

    /// The number of windows along an axis of this length; zero if none fits.
    fn count(self, length: u32) -> u32 {
        match self {
            Self::Windows { window, stride, padding } => {
                let room = (u64::from(length) + 2 * u64::from(padding)).checked_sub(window.into());
                room.map_or(0, |room| (room / u64::from(stride)) as u32 + 1)
            }
            Self::Cells(count) => count,
        }
    }

    /// What each of `count` windows reads of an axis. None lies in the padding alone.
    fn ranges(self, length: u32, count: u32) -> Vec<Range> {
        let last = i64::from(length) - 1;
        let range = |token: u32| match self {
            Self::Windows { window, stride, padding } => {
                let first = i64::from(token) * i64::from(stride) - i64::from(padding);
                let end = first + i64::from(window) - 1;
                (first.clamp(0, last) as u32, end.clamp(0, last) as u32)
            }
            Self::Cells(count) => {
                let at = |cell: u32| u64::from(cell) * u64::from(length);
                let (first, end) = (at(token) / u64::from(count), at(token + 1).div_ceil(count.into()));
                (first as u32, (end - 1) as u32)
            }
        };
        (0..count).map(range).collect()
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

        /// A token of a clip is touched if and only if one of its frames touches it, and a cell if and only if a pixel over it is in the set: none
        /// is left out, and none of an axis that divides evenly counts twice.
        #[test]
        fn tokens_of_clips_and_cells_read_what_lies_in_them(
            (width, height, frames) in (1..12u32, 1..12u32, 1..9u32),
            (window, stride, padding) in (1..4u32, 1..4u32, 0..3u32),
            (cells_x, cells_y, cells_t) in (1..7u32, 1..7u32, 1..4u32),
            seed in any::<u64>(),
        ) {
            prop_assume!(padding < window && frames + 2 * padding >= window);
            let view = Size::new(width, height).unwrap();
            let private = |t: u32, x: u32, y: u32| {
                let hash = (seed ^ u64::from(t * 997 + x * 31 + y)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
                hash.is_multiple_of(7)
            };
            let masks: Vec<Mask> =
                (0..frames).map(|t| Mask::from_fn(view, |x, y| private(t, x, y)).unwrap()).collect();
            let grid = TokenGrid::patches(1).unwrap().over_frames(window, stride, padding).unwrap();
            let touched = grid.touched_in_frames(&masks, Some(frames)).unwrap();
            prop_assert_eq!(touched.len() as u64 * view.pixels(), grid.count(view, Some(frames)).unwrap());
            for (time, touched) in (0..).zip(&touched) {
                let read = (time * stride..time * stride + window)
                    .filter(|frame| (padding..frames + padding).contains(frame));
                let read: Vec<u32> = read.map(|frame| frame - padding).collect();
                for (x, y) in (0..width).flat_map(|x| (0..height).map(move |y| (x, y))) {
                    prop_assert_eq!(touched.get(x, y), read.iter().any(|&frame| private(frame, x, y)));
                }
            }
            let grid = TokenGrid::cells(Some(cells_t), cells_y, cells_x).unwrap();
            let touched = grid.touched_in_frames(&masks, Some(frames)).unwrap();
            prop_assert_eq!(touched.len() as u32, cells_t);
            // A pixel lies over a cell if their intervals, as real numbers, have more than a point in common.
            let over = |pixel: u32, cell: u32, length: u32, count: u32| {
                pixel * count < (cell + 1) * length && cell * length < (pixel + 1) * count
            };
            for (time, touched) in (0..).zip(&touched) {
                for (column, row) in (0..cells_x).flat_map(|x| (0..cells_y).map(move |y| (x, y))) {
                    let mut any = false;
                    for t in (0..frames).filter(|&t| over(t, time, frames, cells_t)) {
                        for x in (0..width).filter(|&x| over(x, column, width, cells_x)) {
                            any |= (0..height).any(|y| over(y, row, height, cells_y) && private(t, x, y));
                        }
                    }
                    prop_assert_eq!(touched.get(column, row), any, "cell {} {} {}", time, column, row);
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
        let view = Size::new(8, 8).unwrap();
        let clip = grid.over_frames(2, 2, 0).unwrap();
        assert!(clip.count(view, Some(1)).is_err() && clip.count(view, Some(4)) == Ok(8));
        assert!(grid.over_frames(0, 1, 0).is_err() && grid.over_frames(1, 1, 1).is_err());
        assert!(TokenGrid::cells(Some(0), 1, 1).is_err() && TokenGrid::cells(None, 0, 1).is_err());
        let masks = vec![Mask::empty(view).unwrap(); 3];
        assert!(clip.touched_in_frames(&masks, Some(4)).is_err());
        assert_eq!(clip.touched_in_frames(&masks[..1], Some(4)).unwrap().len(), 2);
    }

    #[test]
    fn a_crop_of_a_mask_stays_inside() {
        let mask = Mask::from_fn(Size::new(4, 3).unwrap(), |x, y| (x, y) == (2, 1)).unwrap();
        let two = Size::new(2, 2).unwrap();
        assert!(mask.crop(2, 1, two).unwrap().get(0, 0));
        assert!(mask.crop(3, 1, two).is_err() && mask.crop(2, u32::MAX, two).is_err());
    }
}
