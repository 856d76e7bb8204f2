use crate::{GeometryError, Size};

/// How the crop is drawn from the image that reaches it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CropDistribution {
    /// A fixed size, its origin uniform over all origins that keep it inside (patch-level paper, Definition 5).
    Fixed(Size),
    /// A random size and place, drawn as torchvision's `RandomResizedCrop` does.
    Resized(ResizedCrop),
}

/// A random resized crop: area and aspect ratio are drawn, and the crop is resized afterwards (which is free).
///
/// The drawing rule, on an image of `W x H`: up to ten times draw `T = W H * uniform(scale)` and
/// `ratio = exp(uniform(log ratio))`; set `w = round(sqrt(T * ratio))`, `h = round(sqrt(T / ratio))`; accept if
/// `0 < w <= W` and `0 < h <= H`, and draw the origin uniformly. If all ten are refused, take a fixed crop in
/// the centre: the whole image, or as much of it as the limits on the ratio allow.
///
/// Draws are treated as real numbers. Rounding of exact halves (to even) then has probability zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResizedCrop {
    scale: (f64, f64),
    ratio: (f64, f64),
}

/// Tries before the centre crop.
pub(crate) const TRIES: i32 = 10;

impl ResizedCrop {
    /// A crop whose share of the area lies in `scale` and whose width over height lies in `ratio`.
    pub fn new(scale: (f64, f64), ratio: (f64, f64)) -> Result<Self, GeometryError> {
        let check = |what, (low, high): (f64, f64), most: f64| {
            // Below 1e-9 of the area, or beyond a ratio of 1e6, every image gives crops of no area.
            if (1e-9..=most).contains(&low) && (low..=most).contains(&high) {
                Ok(())
            } else {
                Err(GeometryError::BadRange { what, low, high })
            }
        };
        check("crop scale", scale, 1.0)?;
        check("crop ratio", ratio, 1e6)?;
        Ok(Self { scale, ratio })
    }

    /// Limits on the share of the image's area.
    pub fn scale(&self) -> (f64, f64) {
        self.scale
    }

    /// Limits on width over height.
    pub fn ratio(&self) -> (f64, f64) {
        self.ratio
    }

    /// The centre crop taken when all tries fail: (x, y, size).
    pub(crate) fn fallback(&self, image: Size) -> Result<(u32, u32, Size), GeometryError> {
        let (width, height) = (f64::from(image.width()), f64::from(image.height()));
        let shape = width / height;
        let side = |length: f64, most: u32| (length.round_ties_even() as u32).clamp(1, most);
        let size = if shape < self.ratio.0 {
            Size::new(image.width(), side(width / self.ratio.0, image.height()))?
        } else if shape > self.ratio.1 {
            Size::new(side(height * self.ratio.1, image.width()), image.height())?
        } else {
            image
        };
        Ok(((image.width() - size.width()) / 2, (image.height() - size.height()) / 2, size))
    }
}

impl CropDistribution {
    /// A crop of fixed size.
    pub fn fixed(width: u32, height: u32) -> Result<Self, GeometryError> {
        Ok(Self::Fixed(Size::named("crop", width, height)?))
    }

    /// A random resized crop.
    pub fn resized(scale: (f64, f64), ratio: (f64, f64)) -> Result<Self, GeometryError> {
        Ok(Self::Resized(ResizedCrop::new(scale, ratio)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fallback_clamps_the_ratio() {
        let crop = ResizedCrop::new((0.08, 1.0), (0.75, 4.0 / 3.0)).unwrap();
        let place = |width, height| crop.fallback(Size::new(width, height).unwrap()).unwrap();
        assert_eq!(place(100, 100), (0, 0, Size::new(100, 100).unwrap()));
        // Too wide: all rows, 100 * 4/3 columns; too high: all columns, 60 / 0.75 rows.
        assert_eq!(place(400, 100), (133, 0, Size::new(133, 100).unwrap()));
        assert_eq!(place(60, 101), (0, 10, Size::new(60, 80).unwrap()));
    }

    #[test]
    fn bad_ranges_are_refused() {
        for (scale, ratio) in [
            ((0.0, 1.0), (1.0, 1.0)),
            ((0.5, 0.4), (1.0, 1.0)),
            ((0.5, 1.5), (1.0, 1.0)),
            ((0.5, f64::NAN), (1.0, 1.0)),
            ((0.5, 1.0), (0.0, 1.0)),
            ((0.5, 1.0), (2.0, 1.0)),
            ((0.5, 1.0), (1.0, f64::INFINITY)),
        ] {
            let error = ResizedCrop::new(scale, ratio).unwrap_err();
            assert!(matches!(error, GeometryError::BadRange { .. }) && error.hint().is_some());
        }
    }
}
