//! Turns images and label maps into pictures.

use dapple_report::{LabelPicture, Picture, ReportError, Rgb, class_colour};
use dapple_train::ClassDescription;
use dapple_train::data::{Image, LabelMap, Values};

/// The colours of classes: their own where they have one, and otherwise one that follows from their number.
#[must_use]
pub fn palette(classes: &[ClassDescription]) -> Vec<Rgb> {
    let colour = |(number, class): (usize, &ClassDescription)| {
        class.colour.map_or_else(|| class_colour(number), |[red, green, blue]| Rgb(red, green, blue))
    };
    classes.iter().enumerate().map(colour).collect()
}

/// A label map in the colours of a palette. Pixels without a class are black.
///
/// # Errors
/// A palette without colours, or with more than a byte can count.
pub fn map(map: &LabelMap, palette: &[Rgb]) -> Result<LabelPicture, ReportError> {
    LabelPicture::new(map.size().width(), map.size().height(), map.labels().to_vec(), palette.to_vec())
}

/// An image as a person sees it. Images with one value per pixel are grey.
///
/// # Errors
/// An image without pixels.
pub fn photograph(image: &Image) -> Result<Picture, ReportError> {
    let bytes: Vec<u8> = match image.values() {
        Values::Bytes(bytes) => bytes.clone(),
        // Floats range from 0 to 1.
        Values::Floats(floats) => floats.iter().map(|value| (255.0 * value).round() as u8).collect(),
    };
    let colour = |pixel: &[u8]| match *pixel {
        [red, green, blue, ..] => Rgb(red, green, blue),
        [grey, ..] => Rgb(grey, grey, grey),
        [] => Rgb(0, 0, 0),
    };
    let pixels = bytes.chunks_exact(image.channels().max(1)).map(colour).collect();
    Picture::new(image.size().width(), image.size().height(), pixels)
}
