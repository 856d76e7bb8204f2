//! Where a crop lies.

use chacha20::rand_core::Rng;
use dapple_geometry::{CropDistribution, ResizedCrop, Size};

use crate::DataError;
use crate::uniform::{below, unit};

/// How often a random resized crop is tried before the centre crop is taken.
const TRIES: usize = 10;

/// A rectangle within an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CropPlace {
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) size: Size,
}

impl CropPlace {
    /// The whole image.
    pub(super) fn whole(size: Size) -> Self {
        Self { x: 0, y: 0, size }
    }

    /// The place in the centre: its distances to opposite edges differ by at most a pixel.
    fn centre(image: Size, size: Size) -> Self {
        Self { x: (image.width() - size.width()) / 2, y: (image.height() - size.height()) / 2, size }
    }
}

/// Draws a crop as the geometry prices it.
///
/// # Guarantee
/// Origins are exactly uniform (patch-level paper, Definition 5). Sizes of a random resized crop follow the law of [`ResizedCrop`],
/// except that the uniform draws are multiples of 2^-53 instead of real numbers.
pub(super) fn draw(
    crop: &CropDistribution,
    image: Size,
    random: &mut impl Rng,
) -> Result<CropPlace, dapple_geometry::GeometryError> {
    match crop {
        CropDistribution::Fixed(size) if image.contains(*size) => Ok(uniform(image, *size, random)),
        CropDistribution::Fixed(size) => {
            Err(dapple_geometry::GeometryError::CropTooLarge { crop: *size, image })
        }
        CropDistribution::Resized(resized) => {
            for _ in 0..TRIES {
                if let Some(size) = one_try(resized, image, random) {
                    return Ok(uniform(image, size, random));
                }
            }
            fallback(resized, image)
        }
    }
}

/// A uniform origin among all that keep the crop inside the image.
fn uniform(image: Size, size: Size, random: &mut impl Rng) -> CropPlace {
    let mut along = |whole: u32, part: u32| below(random, u64::from(whole - part) + 1) as u32;
    let y = along(image.height(), size.height());
    let x = along(image.width(), size.width());
    CropPlace { x, y, size }
}

/// The size of a crop whose area and aspect ratio are drawn once; `None` if it does not fit.
fn one_try(crop: &ResizedCrop, image: Size, random: &mut impl Rng) -> Option<Size> {
    let mut between = |(low, high): (f64, f64)| low + (high - low) * unit(random);
    let area = image.pixels() as f64 * between(crop.scale());
    let (narrow, wide) = crop.ratio();
    let ratio = between((narrow.ln(), wide.ln())).exp();
    let width = (area * ratio).sqrt().round_ties_even() as u32;
    let height = (area / ratio).sqrt().round_ties_even() as u32;
    Size::new(width, height).ok().filter(|size| image.contains(*size))
}

/// The centre crop that is taken when all tries fail: as much of the image as the limits on the ratio allow.
fn fallback(crop: &ResizedCrop, image: Size) -> Result<CropPlace, dapple_geometry::GeometryError> {
    let (width, height) = (f64::from(image.width()), f64::from(image.height()));
    let (narrow, wide) = crop.ratio();
    let side = |length: f64, most: u32| (length.round_ties_even() as u32).clamp(1, most);
    let size = if width / height < narrow {
        Size::new(image.width(), side(width / narrow, image.height()))?
    } else if width / height > wide {
        Size::new(side(height * wide, image.width()), image.height())?
    } else {
        image
    };
    Ok(CropPlace::centre(image, size))
}

/// Places for evaluation, where nothing is random: `grid * grid` crops from edge to edge, or the one in the centre for a grid of 1; the
/// whole image for random resized crops.
pub(super) fn grid(crop: &CropDistribution, image: Size, grid: u32) -> Result<Vec<CropPlace>, DataError> {
    let CropDistribution::Fixed(size) = *crop else { return Ok(vec![CropPlace::whole(image)]) };
    if !image.contains(size) {
        let source = dapple_geometry::GeometryError::CropTooLarge { crop: size, image };
        return Err(DataError::Geometry { place: "an image".to_owned(), source });
    }
    if grid <= 1 {
        return Ok(vec![CropPlace::centre(image, size)]);
    }
    let along = |whole: u32, part: u32| {
        let room = u64::from(whole - part);
        (0..u64::from(grid)).map(move |index| (index * room / u64::from(grid - 1)) as u32)
    };
    let columns: Vec<u32> = along(image.width(), size.width()).collect();
    Ok(along(image.height(), size.height())
        .flat_map(|y| columns.iter().map(move |&x| CropPlace { x, y, size }))
        .collect())
}
