//! Operations that only copy pixels, kept as one look-up table for each axis.

use dapple_geometry::{Operation, Padding, PaddingMode, Size};

use super::crop::CropPlace;

/// Which source pixel each pixel shows. Its column and its row are looked up separately. `None` is the constant of zero padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) x: Vec<Option<u32>>,
    pub(super) y: Vec<Option<u32>>,
    /// Whether `x` looks up rows and `y` columns, after a quarter turn.
    pub(super) swapped: bool,
}

impl Mapping {
    /// The mapping in which every pixel shows itself.
    pub(super) fn identity(size: Size) -> Self {
        let axis = |length: u32| (0..length).map(Some).collect();
        Self { x: axis(size.width()), y: axis(size.height()), swapped: false }
    }

    pub(super) fn width(&self) -> u32 {
        self.x.len() as u32
    }

    pub(super) fn height(&self) -> u32 {
        self.y.len() as u32
    }

    /// What a crop shows.
    pub(super) fn at(&self, CropPlace { x, y, size }: CropPlace) -> Self {
        let cut = |axis: &[Option<u32>], start: u32, length: u32| {
            axis[start as usize..][..length as usize].to_vec()
        };
        Self { x: cut(&self.x, x, size.width()), y: cut(&self.y, y, size.height()), swapped: self.swapped }
    }

    /// Adds one more operation, or returns `false` if it does more than copy. The geometry has checked that the padding fits.
    pub(super) fn then(&mut self, operation: &Operation) -> bool {
        match operation {
            Operation::Pad { padding: Padding { x, y }, mode } => {
                self.x = padded(&self.x, *x, *mode);
                self.y = padded(&self.y, *y, *mode);
            }
            Operation::FlipHorizontal => self.x.reverse(),
            Operation::FlipVertical => self.y.reverse(),
            Operation::Turn { clockwise } => {
                std::mem::swap(&mut self.x, &mut self.y);
                self.swapped = !self.swapped;
                // Clockwise, the first column shows the last row; otherwise the first row shows the last column.
                if *clockwise { self.x.reverse() } else { self.y.reverse() }
            }
            _ => return false,
        }
        true
    }
}

/// An axis extended by `pad` pixels on both ends.
fn padded(axis: &[Option<u32>], pad: u32, mode: PaddingMode) -> Vec<Option<u32>> {
    let (length, pad) = (axis.len() as i64, i64::from(pad));
    let show = |index| mode.source(index, length).and_then(|(pixel, _)| axis[pixel as usize]);
    (-pad..length + pad).map(show).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_padded_keeps_what_it_showed() {
        let mut mapping = Mapping::identity(Size::new(3, 2).unwrap());
        mapping.then(&Operation::FlipHorizontal);
        mapping.then(&Operation::Pad { padding: Padding { x: 2, y: 1 }, mode: PaddingMode::Reflect });
        // c b a, mirrored about its ends.
        assert_eq!(mapping.x, [0, 1, 2, 1, 0, 1, 2].map(Some));
        mapping.then(&Operation::Pad { padding: Padding { x: 1, y: 0 }, mode: PaddingMode::Zero });
        assert_eq!((mapping.x[0], mapping.x[1], mapping.x[8]), (None, Some(0), None));
        assert_eq!(mapping.y, [1, 0, 1, 0].map(Some));
    }

    #[test]
    fn four_quarter_turns_are_none() {
        let size = Size::new(3, 2).unwrap();
        for clockwise in [true, false] {
            let mut mapping = Mapping::identity(size);
            for _ in 0..4 {
                assert!(mapping.then(&Operation::Turn { clockwise }));
            }
            assert_eq!(mapping, Mapping::identity(size));
        }
        // Clockwise, the first row of the result is the first column read upwards.
        let mut mapping = Mapping::identity(size);
        mapping.then(&Operation::Turn { clockwise: true });
        assert_eq!((mapping.x, mapping.y), (vec![Some(1), Some(0)], vec![Some(0), Some(1), Some(2)]));
    }
}
