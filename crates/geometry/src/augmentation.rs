use crate::Size;

/// A random change of a view behind its crop, and how far it lets one pixel reach.
///
/// # Guarantee
/// No augmentation reads a pixel outside the crop, so a view depends on a region only if its crop does, whatever is listed here: the
/// inclusion probability of the crop is that of the augmented view. Parameters are drawn without a look at the pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Augmentation {
    /// What is done.
    pub kind: AugmentationKind,
    /// How likely it is done to a view.
    pub probability: f64,
}

/// What an augmentation does. Two numbers in brackets are the ends of a range from which a parameter is drawn uniformly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AugmentationKind {
    /// Changes of colour, in random order.
    ColourJitter(ColourJitter),
    /// The three channels of a pixel become its grey.
    Greyscale,
    /// Dark becomes light.
    Invert,
    /// Keeps the highest bits of each value.
    Posterize {
        /// How many.
        bits: u32,
    },
    /// Inverts values that are not below a threshold.
    Solarize {
        /// The threshold, from 0 to 1.
        threshold: f64,
    },
    /// Stretches each channel to the full range.
    AutoContrast,
    /// Flattens the histogram of each channel.
    Equalize,
    /// A rotation, shift, scaling and shear.
    Affine(AffineRanges),
    /// Covers a rectangle, whose centre may lie on any pixel, by a constant.
    Cutout(Size),
    /// Adds independent Gaussian noise to each value and cuts the sum to the range from 0 to 1.
    Noise {
        /// The standard deviation, for values from 0 to 1.
        deviation: (f64, f64),
    },
    /// Convolves with a Gaussian kernel of `2 radius + 1` pixels along each axis, mirrored at the edges.
    Blur {
        /// The reach of the kernel.
        radius: u32,
        /// The standard deviation in pixels.
        deviation: (f64, f64),
    },
    /// Blends with a smoothed view; factors above 1 sharpen.
    Sharpness {
        /// The weight of the view itself.
        factor: (f64, f64),
    },
    /// The strength of edges in place of the values (Sobel).
    Sobel,
    /// Some changes of RandAugment's list, one after the other (Cubuk et al. 2020).
    RandAugment {
        /// How many.
        changes: u32,
        /// How strong they are, from 0 to 30.
        magnitude: u32,
    },
}

/// The factors of a change of colour; 1 leaves brightness, contrast and saturation as they are, and 0 the hue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ColourJitter {
    /// The factor of every value.
    pub brightness: (f64, f64),
    /// The weight of the view against its mean grey.
    pub contrast: (f64, f64),
    /// The weight of the view against its grey.
    pub saturation: (f64, f64),
    /// The turn of the hue; 1 is the whole circle.
    pub hue: (f64, f64),
}

/// A warp about the centre of the view. Pixels that come from outside the view are black.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AffineRanges {
    /// The clockwise rotation.
    pub degrees: (f64, f64),
    /// The largest shift along x and y, as shares of the view's sides. Shifts are whole pixels.
    pub translate: (f64, f64),
    /// The factor of the size.
    pub scale: (f64, f64),
    /// The shear along x, in degrees.
    pub shear_x: (f64, f64),
    /// The shear along y, in degrees.
    pub shear_y: (f64, f64),
}

/// How far from its place one pixel of a view may change the augmented view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PixelReach {
    /// At most so many pixels along each axis; 0 is the pixel itself.
    Within {
        /// Along x.
        x: u32,
        /// Along y.
        y: u32,
    },
    /// Everywhere in the view: a statistic of all its pixels enters.
    View,
}

impl PixelReach {
    /// The pixel itself.
    pub const OWN: Self = Self::Within { x: 0, y: 0 };

    /// The reach of two changes, one after the other.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        match (self, next) {
            (Self::Within { x, y }, Self::Within { x: further, y: deeper }) => {
                Self::Within { x: x.saturating_add(further), y: y.saturating_add(deeper) }
            }
            _ => Self::View,
        }
    }

    /// Whether a pixel may change the one that lies `x` columns and `y` rows away.
    #[must_use]
    pub fn covers(self, x: u32, y: u32) -> bool {
        match self {
            Self::Within { x: furthest, y: deepest } => x <= furthest && y <= deepest,
            Self::View => true,
        }
    }
}

impl Augmentation {
    /// How far one pixel reaches in a view of this size.
    ///
    /// # Guarantee
    /// For all parameters that may be drawn, a pixel of the view changes the augmented view nowhere else.
    #[must_use]
    pub fn reach(&self, view: Size) -> PixelReach {
        match self.kind {
            AugmentationKind::ColourJitter(ColourJitter { contrast, .. }) if contrast != (1.0, 1.0) => {
                PixelReach::View
            }
            AugmentationKind::ColourJitter(_)
            | AugmentationKind::Greyscale
            | AugmentationKind::Invert
            | AugmentationKind::Posterize { .. }
            | AugmentationKind::Solarize { .. }
            | AugmentationKind::Cutout(_)
            | AugmentationKind::Noise { .. } => PixelReach::OWN,
            AugmentationKind::AutoContrast
            | AugmentationKind::Equalize
            | AugmentationKind::RandAugment { .. } => PixelReach::View,
            AugmentationKind::Affine(affine) => affine.reach(view),
            AugmentationKind::Blur { radius, .. } => PixelReach::Within { x: radius, y: radius },
            AugmentationKind::Sharpness { .. } | AugmentationKind::Sobel => PixelReach::Within { x: 1, y: 1 },
        }
    }

    /// Its name in plans.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.kind {
            AugmentationKind::ColourJitter(_) => "colour-jitter",
            AugmentationKind::Greyscale => "greyscale",
            AugmentationKind::Invert => "invert",
            AugmentationKind::Posterize { .. } => "posterize",
            AugmentationKind::Solarize { .. } => "solarize",
            AugmentationKind::AutoContrast => "autocontrast",
            AugmentationKind::Equalize => "equalize",
            AugmentationKind::Affine(_) => "affine",
            AugmentationKind::Cutout(_) => "cutout",
            AugmentationKind::Noise { .. } => "noise",
            AugmentationKind::Blur { .. } => "blur",
            AugmentationKind::Sharpness { .. } => "sharpness",
            AugmentationKind::Sobel => "sobel",
            AugmentationKind::RandAugment { .. } => "rand-augment",
        }
    }
}

impl AffineRanges {
    /// Bounds how far any warp of these ranges moves a pixel.
    ///
    /// A pixel `p`, counted from the centre, shows the place `A (p - t)` with
    /// `A = [d, -b; -c, a] / s`, `a = cos r + sin r tan v`, `b = -a tan u - sin r`, `c = sin r - cos r tan v`, `d = cos r - c tan u`
    /// for the rotation `r`, the scale `s`, the shears `u` and `v` and the shift `t`. Interpolation reads the pixels less than one pixel
    /// from that place, so a pixel is seen at most `|(A - 1) p| + |A t| + 1` pixels away from where it lies.
    fn reach(&self, view: Size) -> PixelReach {
        let widest = |(low, high): (f64, f64)| low.abs().max(high.abs()).to_radians();
        let rotation = widest(self.degrees);
        let sine = if rotation < std::f64::consts::FRAC_PI_2 { rotation.sin() } else { 1.0 };
        // 1 - cos r grows up to half a turn.
        let lost = 1.0 - rotation.min(std::f64::consts::PI).cos();
        let (tan_u, tan_v) = (widest(self.shear_x).tan(), widest(self.shear_y).tan());
        let (smallest, largest) = self.scale;
        let zoom = (1.0 / smallest - 1.0).abs().max((1.0 / largest - 1.0).abs());

        let a_off = lost + sine * tan_v;
        let b = (1.0 + a_off) * tan_u + sine;
        let c = sine + tan_v;
        let d_off = lost + c * tan_u;
        let (x_off, y_off) = (d_off / smallest + zoom, a_off / smallest + zoom);
        let (b, c) = (b / smallest, c / smallest);

        let (width, height) = (f64::from(view.width()), f64::from(view.height()));
        let (half_x, half_y) = ((width - 1.0) / 2.0, (height - 1.0) / 2.0);
        let (shift_x, shift_y) = ((self.translate.0 * width).round(), (self.translate.1 * height).round());
        let along_x = x_off * half_x + b * half_y + (1.0 + x_off) * shift_x + b * shift_y;
        let along_y = y_off * half_y + c * half_x + (1.0 + y_off) * shift_y + c * shift_x;
        // The last term is far more than these sums can be rounded by. Nothing reaches farther than the view.
        let pixels = |bound: f64, side: u32| ((bound + 1.0 + 1e-6).ceil() as u32).min(side);
        PixelReach::Within { x: pixels(along_x, view.width()), y: pixels(along_y, view.height()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn affine() -> AffineRanges {
        let none = (0.0, 0.0);
        AffineRanges { degrees: none, translate: none, scale: (1.0, 1.0), shear_x: none, shear_y: none }
    }

    #[test]
    fn a_warp_reaches_as_far_as_it_moves() {
        let view = Size::new(21, 11).unwrap();
        let reach = |affine: AffineRanges| affine.reach(view);
        // Places between pixels are read from both sides, even where nothing moves.
        assert_eq!(reach(affine()), PixelReach::Within { x: 2, y: 2 });
        // A shift by 4 of 21 columns and by 1 of 11 rows.
        assert_eq!(
            reach(AffineRanges { translate: (0.2, 0.1), ..affine() }),
            PixelReach::Within { x: 6, y: 3 }
        );
        // A quarter turn brings the corner (10, 5) to (-5, 10); the bound also knows of smaller turns.
        let PixelReach::Within { x, y } = reach(AffineRanges { degrees: (-90.0, 90.0), ..affine() }) else {
            panic!()
        };
        assert!(x >= 15 && y == 11);
        // At half the size, the edge is seen half-way to the centre.
        assert_eq!(reach(AffineRanges { scale: (0.5, 1.0), ..affine() }), PixelReach::Within { x: 12, y: 7 });
        // A shear by 45 degrees moves the first row by its distance from the centre.
        assert_eq!(
            reach(AffineRanges { shear_x: (-45.0, 45.0), ..affine() }),
            PixelReach::Within { x: 7, y: 2 }
        );
    }

    #[test]
    fn reaches_add_up() {
        let wide = PixelReach::Within { x: 3, y: 1 };
        assert_eq!(wide.then(wide), PixelReach::Within { x: 6, y: 2 });
        assert_eq!(wide.then(PixelReach::View), PixelReach::View);
        assert_eq!(PixelReach::View.then(PixelReach::OWN), PixelReach::View);
        assert!(wide.covers(3, 1) && !wide.covers(3, 2) && PixelReach::View.covers(u32::MAX, 0));
    }

    /// Only what blends with a statistic of the view reaches everywhere.
    #[test]
    fn contrast_is_what_makes_colour_jitter_reach_far() {
        let same = (1.0, 1.0);
        let jitter =
            ColourJitter { brightness: (0.5, 1.5), contrast: same, saturation: same, hue: (0.0, 0.1) };
        let reach = |jitter| {
            let kind = AugmentationKind::ColourJitter(jitter);
            Augmentation { kind, probability: 1.0 }.reach(Size::new(8, 8).unwrap())
        };
        assert_eq!(reach(jitter), PixelReach::OWN);
        assert_eq!(reach(ColourJitter { contrast: (0.9, 1.0), ..jitter }), PixelReach::View);
    }
}
