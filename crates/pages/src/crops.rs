//! The picture of crops, on a photograph where there is one that may be shown.

use dapple_plan::PlanSpec;
use dapple_plan::spec::Pixels;
use dapple_report::crop::{CropPicture, crop_column};
use dapple_report::graphic::Graphic;

use crate::error::PageError;
use crate::label_pictures;
use crate::test_images::TestImages;

/// The sizes of a plan for a picture that explains crops, if the plan protects a rectangle.
#[must_use]
pub fn crop_of(spec: &PlanSpec) -> Option<CropPicture> {
    let size = |pixels: Option<Pixels>| pixels.map(|Pixels { x, y }| (x, y));
    let (image, crop, patch) =
        (size(spec.pipeline.image)?, size(spec.pipeline.crop)?, size(spec.region.patch)?);
    // Puts the patch off the centre, as a plate or a face would be.
    let origin = |image: u32, patch: u32| image.checked_sub(patch).map(|room| room / 8 * 5);
    let patch_origin = (origin(image.0, patch.0)?, origin(image.1, patch.1)?);
    (crop.0 <= image.0 && crop.1 <= image.1).then_some(CropPicture { image, crop, patch, patch_origin })
}

/// The picture, drawn on the first image of the test set that may be shown and has the plan's size.
pub(crate) fn picture(spec: &PlanSpec, test: &TestImages) -> Result<Option<(Graphic, bool)>, PageError> {
    let Some(sizes) = crop_of(spec) else { return Ok(None) };
    let photograph = match test {
        TestImages::Public(test) if test.frames().is_none() => {
            let image = test.read(0)?;
            let fits = (image.size().width(), image.size().height()) == sizes.image;
            fits.then(|| label_pictures::photograph(&image)).transpose()?
        }
        _ => None,
    };
    Ok(Some((crop_column(&sizes, photograph.as_ref())?, photograph.is_some())))
}
