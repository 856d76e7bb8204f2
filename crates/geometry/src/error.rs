use crate::{PaddingMode, Size};

/// What the geometry cannot price, and where.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// A width or height of zero.
    #[error("{what} has size {width}x{height}; both sides must be at least 1")]
    ZeroSize {
        /// Which thing has no extent.
        what: &'static str,
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
    },
    /// A size that overflows, or that would need more memory than this crate is willing to take.
    #[error("{what} is too large: {value} exceeds the limit of {limit}")]
    TooLarge {
        /// Which quantity.
        what: &'static str,
        /// Its value.
        value: u128,
        /// The limit it exceeds.
        limit: u128,
    },
    /// A window of no frames, or of more than there are.
    #[error("a window of {shown} frames does not fit into a clip of {frames}")]
    BadWindow {
        /// The frames of the window.
        shown: u32,
        /// Those of the clip.
        frames: u32,
    },
    /// The crop does not fit into the image it is drawn from.
    #[error("crop {crop} does not fit into the image of {image} that reaches it")]
    CropTooLarge {
        /// The crop.
        crop: Size,
        /// The image after every operation before the crop.
        image: Size,
    },
    /// The region does not fit into the image.
    #[error("private region {region} does not fit into the image {image}")]
    RegionTooLarge {
        /// Extent of the region.
        region: Size,
        /// The original image.
        image: Size,
    },
    /// A region placed so that a part of it lies outside the image.
    #[error("private region {region} placed at ({x}, {y}) leaves the image {image}")]
    RegionOutside {
        /// Extent of the region.
        region: Size,
        /// Column of its first pixel.
        x: u32,
        /// Row of its first pixel.
        y: u32,
        /// The original image.
        image: Size,
    },
    /// A mask or a union without a single private pixel.
    #[error("the region mask marks no private pixel")]
    EmptyMask,
    /// A byte buffer that does not hold one byte a pixel.
    #[error("a mask of {size} needs {expected} bytes, {found} were given")]
    MaskLength {
        /// The mask's size.
        size: Size,
        /// Bytes needed.
        expected: u64,
        /// Bytes given.
        found: u64,
    },
    /// An annotated mask that is not the size of its image.
    #[error("annotated mask is {mask}, but the image is {image}")]
    MaskSize {
        /// The mask.
        mask: Size,
        /// The image.
        image: Size,
    },
    /// `annotated` was asked for a region that does not say where it lies.
    #[error("placement `annotated` needs a mask that covers the image; a {shape} does not say where it lies")]
    NotAnnotated {
        /// The kind of region.
        shape: &'static str,
    },
    /// Padding that the mode cannot make from an image of this size.
    #[error(
        "{mode} padding of {pad} pixels needs an image of at least {needed} pixels along {axis}, found {length}"
    )]
    PaddingTooLarge {
        /// The mode.
        mode: PaddingMode,
        /// Pixels added on each side.
        pad: u32,
        /// Length of the image along the axis.
        length: u32,
        /// Smallest length that would do.
        needed: u64,
        /// `x` or `y`.
        axis: &'static str,
    },
    /// An operation that lets one pixel change the whole image.
    #[error("`{operation}` before the crop spreads one pixel over the whole image: {reason}")]
    SpreadsOverImage {
        /// Name of the operation.
        operation: &'static str,
        /// Why it does.
        reason: &'static str,
    },
    /// An interval `low:high` that is empty, not finite or out of range.
    #[error("{what} {low}:{high} is not a valid range")]
    BadRange {
        /// Which interval.
        what: &'static str,
        /// Its lower end.
        low: f64,
        /// Its upper end.
        high: f64,
    },
    /// A circle radius that is negative, not finite or larger than any image.
    #[error("circle radius {radius} is not a usable number of pixels")]
    BadRadius {
        /// The radius.
        radius: f64,
    },
    /// A probability outside [0, 1].
    #[error("inclusion probability {value} is not between 0 and 1")]
    BadProbability {
        /// The value.
        value: f64,
    },
    /// Zero views of a record.
    #[error("a record needs at least one view, 0 were asked for")]
    NoViews,
    /// An empty list of annotated masks.
    #[error("no annotated mask was given")]
    NoMasks,
    /// A name that means nothing here.
    #[error("unknown {what} `{found}`")]
    UnknownName {
        /// What was being named.
        what: &'static str,
        /// What was found.
        found: String,
        /// The names that would do.
        known: &'static str,
    },
}

impl GeometryError {
    /// The way out, where there is one.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::BadWindow { .. } => "a window has at least one frame, and no more than the clip".into(),
            Self::ZeroSize { .. } => "give sizes as WIDTHxHEIGHT with both at least 1".into(),
            Self::TooLarge { limit, .. } => {
                format!("stay at or below {limit}; work on a smaller image, or crop it first")
            }
            Self::CropTooLarge { image, .. } => {
                format!("use a crop of at most {image}, or pad the image before the crop")
            }
            Self::RegionTooLarge { image, .. } => {
                format!("a region of at most {image} fits; for whole images use the replace relation")
            }
            Self::RegionOutside { .. } => "move the region so that all of it lies inside the image".into(),
            Self::EmptyMask => "white (any non-zero byte) marks private pixels; mark at least one".into(),
            Self::MaskLength { .. } => "pass one byte a pixel, row by row".into(),
            Self::MaskSize { .. } => "draw the mask at the size of the original image, before padding".into(),
            Self::NotAnnotated { .. } => "use placement `anywhere`, or give a mask of the image's size".into(),
            Self::PaddingTooLarge { .. } => "use less padding, or the modes `zero` or `replicate`".into(),
            Self::SpreadsOverImage { .. } => {
                "move it behind the crop, where it only sees the crop, or replace it by one with fixed parameters"
                    .into()
            }
            Self::BadRange { what, .. } => {
                format!("write {what} as low:high with 0 < low <= high, both finite (scale at most 1)")
            }
            Self::BadRadius { .. } => "give a radius in pixels between 0 and 65536".into(),
            Self::BadProbability { .. } => return None,
            Self::NoViews => "use 1 for a single view".into(),
            Self::NoMasks => "give one mask for each annotated image".into(),
            Self::UnknownName { known, .. } => format!("one of {known}"),
        })
    }
}
