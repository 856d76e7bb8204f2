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
