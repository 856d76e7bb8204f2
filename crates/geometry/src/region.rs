use crate::{GeometryError, Mask, Size};

/// The largest circle radius, in pixels.
const MAX_RADIUS: f64 = 65536.0;

/// The set of pixels that is protected.
#[derive(Debug, Clone, PartialEq)]
pub enum Region {
    /// All pixels of a rectangle (patch-level paper, section 4: the private patch).
    Rectangle(Size),
    /// The pixels whose centre lies within `radius` of the centre of the middle pixel: `dx^2 + dy^2 <= radius^2`.
    /// Its extent is `2 floor(radius) + 1` on both sides; radius 0 is one pixel.
    Circle {
        /// Radius in pixels.
        radius: f64,
    },
    /// Any set of pixels. Under [`Placement::Anywhere`](crate::Placement) its bounding box moves; under
    /// [`Placement::Annotated`](crate::Placement) it says where the region lies.
    Mask(Mask),
    /// Several regions at fixed offsets from each other, protected together.
    Union(Vec<RegionPart>),
}

/// A member of a union.
#[derive(Debug, Clone, PartialEq)]
pub struct RegionPart {
    /// Column of the member's first pixel.
    pub x: u32,
    /// Row of the member's first pixel.
    pub y: u32,
    /// The member.
    pub region: Region,
}

/// A region reduced to what counting needs: its extent, and its pixels where it is not simply a rectangle.
#[derive(Debug, Clone)]
pub(crate) enum RegionShape {
    Rectangle(Size),
    Pixels(Mask),
}

impl RegionShape {
    pub(crate) fn extent(&self) -> Size {
        match self {
            Self::Rectangle(size) => *size,
            Self::Pixels(mask) => mask.size(),
        }
    }

    pub(crate) fn to_mask(&self) -> Result<Mask, GeometryError> {
        match self {
            Self::Rectangle(size) => Mask::from_fn(*size, |_, _| true),
            Self::Pixels(mask) => Ok(mask.clone()),
        }
    }
}

impl Region {
    /// The kind of region, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Rectangle(_) => "rectangle",
            Self::Circle { .. } => "circle",
            Self::Mask(_) => "mask",
            Self::Union(_) => "union",
        }
    }

    /// The extent of the region: the size of its bounding box.
    pub fn extent(&self) -> Result<Size, GeometryError> {
        Ok(self.shape()?.extent())
    }

    /// The region's pixels within its bounding box.
    pub fn to_mask(&self) -> Result<Mask, GeometryError> {
        self.shape()?.to_mask()
    }

    /// The pixels that the region may cover while it moves by at most `x` columns and `y` rows: those at all its offsets from the first
    /// place to the farthest. A rectangle grows by as much.
    ///
    /// # Guarantee
    /// If the offsets of any two places of the region differ by at most `x` and `y`, this region has a place at which it covers the
    /// region at all of them, and one inside the image if all of them are and the image holds this region.
    ///
    /// # Errors
    /// A region that is empty, or too large to be drawn.
    pub fn swept(&self, x: u32, y: u32) -> Result<Self, GeometryError> {
        let grown = |size: Size| {
            let side = |length: u32, travel: u32| {
                length.checked_add(travel).ok_or(GeometryError::TooLarge {
                    what: "region that moves",
                    value: u128::from(length) + u128::from(travel),
                    limit: u32::MAX.into(),
                })
            };
            Size::new(side(size.width(), x)?, side(size.height(), y)?)
        };
        let shape = self.shape()?;
        let size = grown(shape.extent())?;
        match shape {
            RegionShape::Rectangle(_) => Ok(Self::Rectangle(size)),
            RegionShape::Pixels(mask) => {
                let mut whole = Mask::empty(size)?;
                whole.add(&mask, 0, 0);
                let (wide, high) = (size.width() as usize, size.height() as usize);
                let mut pixels = whole.bytes().to_vec();
                for row in pixels.chunks_exact_mut(wide) {
                    smear(row.iter_mut(), x);
                }
                (0..wide)
                    .for_each(|column| smear(pixels.iter_mut().skip(column).step_by(wide).take(high), y));
                Ok(Self::Mask(Mask::from_pixels(size, pixels)))
            }
        }
    }

    /// The region cut to its bounding box. A mask that fills its bounding box becomes a rectangle.
    pub(crate) fn shape(&self) -> Result<RegionShape, GeometryError> {
        let mask = match self {
            Self::Rectangle(size) => return Ok(RegionShape::Rectangle(*size)),
            Self::Circle { radius } => circle(*radius)?,
            Self::Mask(mask) => {
                let (x, y, size) = mask.bounding_box().ok_or(GeometryError::EmptyMask)?;
                mask.cut(x, y, size)
            }
            Self::Union(parts) => union(parts)?,
        };
        if mask.count() == mask.size().pixels() {
            return Ok(RegionShape::Rectangle(mask.size()));
        }
        Ok(RegionShape::Pixels(mask))
    }
}

/// Marks the `reach` pixels that follow each marked one.
fn smear<'a>(line: impl Iterator<Item = &'a mut u8>, reach: u32) {
    let mut left = 0;
    for pixel in line {
        left = if *pixel != 0 { reach.saturating_add(1) } else { left };
        *pixel = u8::from(left > 0);
        left = left.saturating_sub(1);
    }
}

fn circle(radius: f64) -> Result<Mask, GeometryError> {
    if !(0.0..=MAX_RADIUS).contains(&radius) {
        return Err(GeometryError::BadRadius { radius });
    }
    let reach = radius.floor() as u32;
    let side = 2 * reach + 1;
    let squared = radius * radius;
    Mask::from_fn(Size::new(side, side)?, |x, y| {
        let dx = f64::from(x) - f64::from(reach);
        let dy = f64::from(y) - f64::from(reach);
        dx * dx + dy * dy <= squared
    })
}

fn union(parts: &[RegionPart]) -> Result<Mask, GeometryError> {
    let shapes = parts.iter().map(|part| part.region.shape()).collect::<Result<Vec<_>, _>>()?;
    let left = parts.iter().map(|part| part.x).min().ok_or(GeometryError::EmptyMask)?;
    let top = parts.iter().map(|part| part.y).min().ok_or(GeometryError::EmptyMask)?;
    let end = |start: u32, length: u32| {
        start.checked_add(length).ok_or(GeometryError::TooLarge {
            what: "union of regions",
            value: u128::from(start) + u128::from(length),
            limit: u32::MAX.into(),
        })
    };
    let (mut width, mut height) = (0, 0);
    for (part, shape) in parts.iter().zip(&shapes) {
        width = width.max(end(part.x - left, shape.extent().width())?);
        height = height.max(end(part.y - top, shape.extent().height())?);
    }
    let mut mask = Mask::empty(Size::new(width, height)?)?;
    for (part, shape) in parts.iter().zip(&shapes) {
        mask.add(&shape.to_mask()?, part.x - left, part.y - top);
    }
    Ok(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_follow_pixel_centres() {
        let count = |radius| Region::Circle { radius }.to_mask().unwrap().count();
        assert_eq!(count(0.0), 1);
        assert_eq!(count(1.0), 5);
        assert_eq!(count(1.5), 9);
        // Gauss's circle problem: N(2) = 13, N(5) = 81, N(10) = 317.
        assert_eq!((count(2.0), count(5.0), count(10.0)), (13, 81, 317));
        for radius in [-1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert!(matches!(Region::Circle { radius }.to_mask(), Err(GeometryError::BadRadius { .. })));
        }
    }

    #[test]
    fn a_region_that_moves_covers_all_its_offsets() {
        let size = |width, height| Size::new(width, height).unwrap();
        assert_eq!(Region::Rectangle(size(3, 2)).swept(4, 0), Ok(Region::Rectangle(size(7, 2))));
        let ell = Mask::from_bytes(size(2, 2), vec![1, 0, 1, 1]).unwrap();
        let swept = Region::Mask(ell).swept(1, 1).unwrap().to_mask().unwrap();
        assert_eq!((swept.size(), swept.bytes()), (size(3, 3), &[1, 1, 0, 1, 1, 1, 1, 1, 1][..]));
        let disc = Region::Circle { radius: 2.0 };
        assert_eq!(disc.swept(0, 0).unwrap().to_mask(), disc.to_mask());
        assert!(matches!(
            Region::Rectangle(size(3, 2)).swept(u32::MAX, 0),
            Err(GeometryError::TooLarge { what: "region that moves", .. })
        ));
    }

    #[test]
    fn unions_keep_their_offsets() {
        let pixel = || Region::Rectangle(Size::new(1, 1).unwrap());
        let union = Region::Union(vec![
            RegionPart { x: 7, y: 5, region: pixel() },
            RegionPart { x: 5, y: 9, region: Region::Rectangle(Size::new(2, 1).unwrap()) },
        ]);
        let mask = union.to_mask().unwrap();
        assert_eq!(mask.size(), Size::new(3, 5).unwrap());
        assert!(mask.get(2, 0) && mask.get(0, 4) && mask.get(1, 4));
        assert_eq!(mask.count(), 3);
        assert_eq!(Region::Union(vec![]).extent(), Err(GeometryError::EmptyMask));
        let far = Region::Union(vec![
            RegionPart { x: 0, y: 0, region: pixel() },
            RegionPart { x: u32::MAX, y: u32::MAX, region: pixel() },
        ]);
        assert!(matches!(far.extent(), Err(GeometryError::TooLarge { .. })));
    }
}
