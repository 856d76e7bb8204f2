use std::borrow::Cow;

use crate::axis::{AxisReads, AxisStep};
use crate::propagate::{propagate, turn};
use crate::{CropDistribution, GeometryError, Mask, Operation, PaddingMode, Size, footprint};

/// Longest axis for pipelines that have no closed form, whose tables take about 56 bytes a pixel of it.
const MAX_AXIS: u32 = 1 << 20;

/// What happens to an image on its way to the model: operations before the crop, the crop, and operations behind it.
///
/// What comes behind the crop sees only the crop and costs nothing; it is kept so that one value describes the whole
/// way. Random operations before the crop (a flip by a coin) are priced by pricing each outcome and taking the larger.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    before: Vec<Operation>,
    crop: CropDistribution,
    after: Vec<Operation>,
}

/// The two axes of an image after the operations before the crop.
#[derive(Debug, Clone)]
pub(crate) struct Axes {
    pub(crate) x: AxisReads,
    pub(crate) y: AxisReads,
    /// Whether the x axis that reaches the crop is the y axis of the original.
    pub(crate) swapped: bool,
}

impl Axes {
    /// Whether counting windows along the axes is exact rather than an upper bound.
    pub(crate) fn are_exact(&self) -> bool {
        self.x.is_exact() && self.y.is_exact()
    }
}

/// A pipeline of zero padding and turns only, which is the case of Lemma 1 of the patch-level paper.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlainPadding {
    /// Padding along the original axes.
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) swapped: bool,
}

impl Pipeline {
    /// A pipeline that only crops.
    pub fn crop(crop: CropDistribution) -> Self {
        Self { before: Vec::new(), crop, after: Vec::new() }
    }

    /// A pipeline with operations before the crop, in the order in which they are applied.
    ///
    /// # Guarantee
    /// Refuses every operation that lets one pixel change the whole image, with its name and the reason.
    pub fn new(before: Vec<Operation>, crop: CropDistribution) -> Result<Self, GeometryError> {
        for operation in &before {
            if let Operation::Global(global) = operation {
                return Err(global.refusal());
            }
        }
        Ok(Self { before, crop, after: Vec::new() })
    }

    /// Appends operations behind the crop. Any are allowed: they see only the crop.
    pub fn then(mut self, after: impl IntoIterator<Item = Operation>) -> Self {
        self.after.extend(after);
        self
    }

    /// Operations before the crop.
    pub fn before(&self) -> &[Operation] {
        &self.before
    }

    /// The crop.
    pub fn crop_distribution(&self) -> &CropDistribution {
        &self.crop
    }

    /// Operations behind the crop.
    pub fn after(&self) -> &[Operation] {
        &self.after
    }

    /// Size of the image from which crops are drawn.
    pub fn size_before_crop(&self, image: Size) -> Result<Size, GeometryError> {
        self.before.iter().try_fold(image, |size, operation| output_size(operation, size))
    }

    /// The influence mask: the pixels of the image that reaches the crop which may depend on the pixels in `mask`.
    ///
    /// # Guarantee
    /// Every pixel outside the result has the same value whatever the pixels in `mask` show. For operations without
    /// interpolation the result is exact; for a resize it is the filter's footprint, closed at its border.
    pub fn influence(&self, mask: &Mask) -> Result<Mask, GeometryError> {
        influence(&self.before, mask)
    }

    /// What each pixel that reaches the crop reads, axis by axis.
    pub(crate) fn axes(&self, image: Size) -> Result<Axes, GeometryError> {
        let mut size = image;
        check_axes(size)?;
        let mut axes = Axes {
            x: AxisReads::identity(image.width()),
            y: AxisReads::identity(image.height()),
            swapped: false,
        };
        for operation in &self.before {
            let next = output_size(operation, size)?;
            check_axes(next)?;
            if let Operation::Turn { clockwise } = operation {
                let Axes { x, y, swapped } = axes;
                let (x, y) =
                    if *clockwise { (y.then(&AxisStep::Flip), x) } else { (y, x.then(&AxisStep::Flip)) };
                axes = Axes { x, y, swapped: !swapped };
            } else {
                let (along_x, along_y) = axis_steps(operation, size);
                if let Some(step) = along_x {
                    axes.x = axes.x.then(&step);
                }
                if let Some(step) = along_y {
                    axes.y = axes.y.then(&step);
                }
            }
            size = next;
        }
        Ok(axes)
    }

    /// Total zero padding along the original axes, if nothing else before the crop matters.
    pub(crate) fn plain_padding(&self) -> Option<PlainPadding> {
        let mut total = PlainPadding { x: 0, y: 0, swapped: false };
        for operation in &self.before {
            match operation {
                Operation::Pad { padding, mode: PaddingMode::Zero } => {
                    let (x, y) = if total.swapped { (padding.y, padding.x) } else { (padding.x, padding.y) };
                    total.x = total.x.checked_add(x)?;
                    total.y = total.y.checked_add(y)?;
                }
                Operation::Turn { .. } => total.swapped = !total.swapped,
                // Mirroring exchanges crop origins one to one.
                Operation::FlipHorizontal | Operation::FlipVertical | Operation::Pointwise => {}
                _ => return None,
            }
        }
        Some(total)
    }
}

/// The pixels that may depend on those in `mask` after some operations, in the order in which they are applied.
///
/// # Guarantee
/// As [`Pipeline::influence`].
///
/// # Errors
/// An operation that lets one pixel change the whole image, or that an image of this size does not allow.
pub fn influence(operations: &[Operation], mask: &Mask) -> Result<Mask, GeometryError> {
    let mut current = Cow::Borrowed(mask);
    for operation in operations {
        let next = output_size(operation, current.size())?;
        next.buffer_length()?;
        check_axes(next)?;
        let (along_x, along_y) = axis_steps(operation, current.size());
        match operation {
            Operation::Turn { clockwise } => current = Cow::Owned(turn(&current, *clockwise)?),
            _ => current = propagate(current, along_x.as_ref(), along_y.as_ref())?,
        }
    }
    Ok(current.into_owned())
}

fn check_axes(size: Size) -> Result<(), GeometryError> {
    let longest = size.width().max(size.height());
    if longest > MAX_AXIS {
        return Err(GeometryError::TooLarge {
            what: "side of an image in this pipeline",
            value: longest.into(),
            limit: MAX_AXIS.into(),
        });
    }
    Ok(())
}

fn output_size(operation: &Operation, size: Size) -> Result<Size, GeometryError> {
    match operation {
        Operation::Pad { padding, mode } => {
            let along = |axis, length: u32, pad: u32| {
                let needed = mode.needed_length(pad);
                if u64::from(length) < needed {
                    return Err(GeometryError::PaddingTooLarge { mode: *mode, pad, length, needed, axis });
                }
                let padded = u64::from(length) + 2 * u64::from(pad);
                u32::try_from(padded).map_err(|_| GeometryError::TooLarge {
                    what: "side of the padded image",
                    value: padded.into(),
                    limit: u32::MAX.into(),
                })
            };
            Size::new(along("x", size.width(), padding.x)?, along("y", size.height(), padding.y)?)
        }
        Operation::Resize { to, .. } => Ok(*to),
        Operation::Turn { .. } => Ok(size.transposed()),
        Operation::Global(global) => Err(global.refusal()),
        _ => Ok(size),
    }
}

/// The steps of an operation along x and y; `None` leaves the axis as it is.
fn axis_steps(operation: &Operation, size: Size) -> (Option<AxisStep>, Option<AxisStep>) {
    let (width, height) = (size.width(), size.height());
    match operation {
        Operation::Pad { padding, mode } => {
            let step = |pad: u32| (pad > 0).then_some(AxisStep::Pad { pad, mode: *mode });
            (step(padding.x), step(padding.y))
        }
        Operation::Resize { to, filter, antialias } => {
            // Libraries skip an axis that keeps its length, and then the filter only has weight on its own pixel.
            let step = |from: u32, to: u32| {
                (from != to).then(|| AxisStep::Ranges(footprint::resize(from, to, *filter, *antialias)))
            };
            (step(width, to.width()), step(height, to.height()))
        }
        Operation::Blur { radius_x, radius_y } => {
            let step =
                |length, radius| (radius > 0).then(|| AxisStep::Ranges(footprint::blur(length, radius)));
            (step(width, *radius_x), step(height, *radius_y))
        }
        Operation::FlipHorizontal => (Some(AxisStep::Flip), None),
        Operation::FlipVertical => (None, Some(AxisStep::Flip)),
        Operation::Jpeg { chroma_subsampling } => {
            let step = |length| Some(AxisStep::Ranges(footprint::jpeg(length, *chroma_subsampling)));
            (step(width), step(height))
        }
        Operation::Turn { .. } | Operation::Pointwise | Operation::Global(_) => (None, None),
    }
}
