//! Sizes of images on their way to the model.

use dapple_geometry::{CropDistribution, GeometryError, Operation, Pipeline, Size};

use super::MAX_PIXELS;
use super::mapping::Mapping;
use crate::DataError;

/// The size at which views reach the model if no size is asked for, where it is always the same.
pub(super) fn natural_size(
    before: &[Operation],
    crop: Option<&CropDistribution>,
    after: &[Operation],
    image: Option<Size>,
) -> Result<Option<Size>, DataError> {
    let follow = |operations: &[Operation], from: Size| {
        follow(operations, from).map_err(DataError::geometry("`pipeline.operations`"))
    };
    let resize = |(index, operation): (usize, &Operation)| match operation {
        Operation::Resize { to, .. } => Some((&before[index + 1..], *to)),
        _ => None,
    };
    // Even images of unknown size have a known one after a resize.
    let known = image.map(|image| (before, image));
    let known = known.or_else(|| before.iter().enumerate().rev().find_map(resize));
    let reaching = known.map(|(operations, from)| follow(operations, from)).transpose()?;
    match (crop, reaching) {
        (None, reaching) => Ok(reaching),
        (Some(CropDistribution::Resized(_)), _) => Ok(None),
        (Some(CropDistribution::Fixed(size)), Some(reaching)) if !reaching.contains(*size) => {
            let source = GeometryError::CropTooLarge { crop: *size, image: reaching };
            Err(DataError::Geometry { place: "`pipeline.crop`".to_owned(), source })
        }
        (Some(CropDistribution::Fixed(size)), _) => follow(after, *size).map(Some),
    }
}

/// The size after some operations, each of which must give an image that memory can hold.
pub(super) fn follow(operations: &[Operation], from: Size) -> Result<Size, GeometryError> {
    operations.iter().try_fold(from, |size, operation| {
        let next = Pipeline::new(vec![*operation], CropDistribution::Fixed(size))?.size_before_crop(size)?;
        if next.pixels() > MAX_PIXELS {
            return Err(GeometryError::TooLarge {
                what: "number of pixels of an image",
                value: next.pixels().into(),
                limit: MAX_PIXELS.into(),
            });
        }
        Ok(next)
    })
}

pub(super) fn size_of(mapping: &Mapping) -> Result<Size, DataError> {
    Size::named("image", mapping.width(), mapping.height()).map_err(DataError::geometry("an image"))
}
