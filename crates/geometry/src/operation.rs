use std::str::FromStr;

use crate::{GeometryError, Padding, PaddingMode, Size};

/// A step of the spatial pipeline, seen through what it does to the set of pixels that private content can reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Operation {
    /// Adds pixels on each side.
    Pad {
        /// How many.
        padding: Padding,
        /// What they show.
        mode: PaddingMode,
    },
    /// Resamples to another size, pixel centres at half-integers as in Pillow and torchvision.
    Resize {
        /// The new size.
        to: Size,
        /// The interpolation filter.
        filter: Filter,
        /// Whether the filter is widened by the down-scale factor (Pillow always does).
        antialias: bool,
    },
    /// A convolution that reaches `radius` pixels on each side (kernel size `2 radius + 1`) and treats the border by
    /// zeros, reflection or replication. Sharpening by a kernel is the same.
    Blur {
        /// Reach along x.
        radius_x: u32,
        /// Reach along y.
        radius_y: u32,
    },
    /// Mirrors left and right.
    FlipHorizontal,
    /// Mirrors top and bottom.
    FlipVertical,
    /// Turns by 90 degrees.
    Turn {
        /// The direction.
        clockwise: bool,
    },
    /// Changes each pixel by itself with parameters that do not look at the image: colour jitter with a brightness or
    /// hue drawn beforehand, grey scale, normalisation by constants. The reach stays as it is.
    ///
    /// Note that the *contrast* step of common colour jitter blends with the mean of the image and is
    /// [`GlobalOperation::ContrastAdjust`].
    Pointwise,
    /// Compresses as JPEG and decompresses.
    Jpeg {
        /// Whether colour is stored at half resolution (4:2:0 or 4:2:2, the usual default).
        chroma_subsampling: bool,
    },
    /// An operation whose output at one pixel depends on the whole image; refused before the crop.
    Global(GlobalOperation),
}

/// The interpolation filter of a resize; the number of source pixels it reaches is its footprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Filter {
    /// The pixel at `floor(x * scale)` (`nearest` of torch and OpenCV).
    Nearest,
    /// The pixel at `floor((x + 1/2) * scale)` (`nearest` of Pillow, `nearest-exact` of torch).
    NearestExact,
    /// Mean over a box; reach 1/2.
    Box,
    /// Linear; reach 1.
    Bilinear,
    /// Cubic; reach 2.
    Bicubic,
    /// Windowed sinc; reach 3.
    Lanczos,
}

impl Filter {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Nearest, Self::NearestExact, Self::Box, Self::Bilinear, Self::Bicubic, Self::Lanczos];
}

impl FromStr for Filter {
    type Err = GeometryError;

    fn from_str(text: &str) -> Result<Self, GeometryError> {
        Ok(match text {
            "nearest" => Self::Nearest,
            "nearest-exact" => Self::NearestExact,
            "box" => Self::Box,
            "bilinear" => Self::Bilinear,
            "bicubic" => Self::Bicubic,
            "lanczos" => Self::Lanczos,
            _ => {
                return Err(GeometryError::UnknownName {
                    what: "filter",
                    found: text.to_owned(),
                    known: "nearest, nearest-exact, box, bilinear, bicubic, lanczos",
                });
            }
        })
    }
}

/// Operations that let one pixel change the whole image (or decide where the crop lies). No inclusion probability
/// below 1 is sound for them before the crop; behind the crop they are free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GlobalOperation {
    /// Subtracts the image's own mean or divides by its own deviation.
    PerImageNormalise,
    /// Stretches the histogram to the full range.
    AutoContrast,
    /// Flattens the histogram.
    Equalize,
    /// Blends with the mean grey of the image.
    ContrastAdjust,
    /// A crop whose place depends on the pixels (saliency, entropy, face detection).
    ContentCrop,
    /// A crop that is drawn again depending on the labels it sees (`cat_max_ratio`).
    LabelCrop,
    /// Rotation by an angle, affine or elastic warps: local, but their reach is not modelled here.
    Warp,
    /// Any other operation whose reach is not known.
    Unknown,
}

impl GlobalOperation {
    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Self::PerImageNormalise => "per-image-normalise",
            Self::AutoContrast => "autocontrast",
            Self::Equalize => "equalize",
            Self::ContrastAdjust => "contrast",
            Self::ContentCrop => "content-crop",
            Self::LabelCrop => "cat_max_ratio",
            Self::Warp => "warp",
            Self::Unknown => "unknown operation",
        }
    }

    /// Why one pixel reaches every other.
    pub fn reason(self) -> &'static str {
        match self {
            Self::PerImageNormalise => "every output pixel depends on the mean and deviation of all pixels",
            Self::AutoContrast => "the stretch depends on the darkest and the brightest pixel",
            Self::Equalize => "the look-up table depends on the histogram of all pixels",
            Self::ContrastAdjust => "every output pixel is blended with the mean of all pixels",
            Self::ContentCrop => {
                "where the crop lies depends on the pixels, so even a crop elsewhere tells of them"
            }
            Self::LabelCrop => {
                "the crop is drawn again depending on label pixels, so even a crop elsewhere tells of them"
            }
            Self::Warp => "the reach of a warp is not modelled, so it is taken to be the whole image",
            Self::Unknown => "its reach is not known, so it is taken to be the whole image",
        }
    }

    /// The typed refusal.
    pub(crate) fn refusal(self) -> GeometryError {
        GeometryError::SpreadsOverImage { operation: self.name(), reason: self.reason() }
    }
}

impl FromStr for GlobalOperation {
    type Err = GeometryError;

    fn from_str(text: &str) -> Result<Self, GeometryError> {
        Ok(match text {
            "per-image-normalise" | "per-image-normalize" | "per_image_standardization" => {
                Self::PerImageNormalise
            }
            "autocontrast" => Self::AutoContrast,
            "equalize" => Self::Equalize,
            "contrast" => Self::ContrastAdjust,
            "content-crop" => Self::ContentCrop,
            "cat_max_ratio" | "cat-max-ratio" | "label-crop" => Self::LabelCrop,
            "warp" | "rotate" | "affine" | "perspective" | "elastic" => Self::Warp,
            _ => {
                return Err(GeometryError::UnknownName {
                    what: "operation",
                    found: text.to_owned(),
                    known: "per-image-normalise, autocontrast, equalize, contrast, content-crop, cat_max_ratio, warp",
                });
            }
        })
    }
}
