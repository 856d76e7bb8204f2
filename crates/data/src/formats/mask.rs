//! Pictures that mark private pixels.

use std::io::Cursor;
use std::path::Path;

use dapple_geometry::Mask;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader};

use super::folder::decoder_limits;
use crate::segmentation::id_picture;
use crate::{DataError, DataLimits, file};

/// The mask of a PNG picture.
///
/// # Guarantee
/// Whatever is not black is private: no pixel that the picture marks is left out, however faint its colour and whatever its transparency.
/// Where colours are numbered, a number other than 0 marks a pixel as well, whatever its colour is.
///
/// # Errors
/// A file that cannot be read, or that is not a PNG picture of a size that is allowed.
pub fn read_mask(path: &Path, limits: &DataLimits) -> Result<Mask, DataError> {
    decode_mask(&file::read(path, limits).map_err(|error| in_plan(error, path))?, path, limits)
}

/// The same from bytes in memory; the path stands for them in messages.
///
/// # Errors
/// As [`read_mask`].
pub fn decode_mask(bytes: &[u8], path: &Path, limits: &DataLimits) -> Result<Mask, DataError> {
    marked_pixels(bytes, path, limits).map_err(|error| in_plan(error, path))
}

/// Where a PNG file says which kind of colours it has, and what it says where they are numbered.
const COLOUR_KIND: usize = 25;
const NUMBERED: u8 = 3;

/// The pixels of a PNG picture that are not black, or not of the colour number 0.
pub(crate) fn marked_pixels(bytes: &[u8], path: &Path, limits: &DataLimits) -> Result<Mask, DataError> {
    let wrong = |problem: String| DataError::malformed(path, super::one_line(&problem));
    let mut reader = ImageReader::with_format(Cursor::new(bytes), ImageFormat::Png);
    reader.limits(decoder_limits(limits));
    let decoder = reader.into_decoder().map_err(|error| wrong(error.to_string()))?;
    let (width, height) = decoder.dimensions();
    let size = crate::limits::size(limits, width, height, path)?;
    let picture = DynamicImage::from_decoder(decoder).map_err(|error| wrong(error.to_string()))?;
    let mut marks = match picture {
        DynamicImage::ImageLuma8(grey) => grey.into_raw(),
        DynamicImage::ImageLumaA8(grey) => marked(grey.as_raw(), 2, 1),
        DynamicImage::ImageRgb8(colours) => marked(colours.as_raw(), 3, 3),
        DynamicImage::ImageRgba8(colours) => marked(colours.as_raw(), 4, 3),
        DynamicImage::ImageLuma16(grey) => marked(grey.as_raw(), 1, 1),
        DynamicImage::ImageLumaA16(grey) => marked(grey.as_raw(), 2, 1),
        DynamicImage::ImageRgb16(colours) => marked(colours.as_raw(), 3, 3),
        DynamicImage::ImageRgba16(colours) => marked(colours.as_raw(), 4, 3),
        _ => return Err(wrong("neither grey nor colours of 8 or 16 bits".to_owned())),
    };
    if bytes.get(COLOUR_KIND) == Some(&NUMBERED) {
        let (_, numbers) = id_picture::decode(bytes, path, limits)?;
        marks.iter_mut().zip(numbers).for_each(|(mark, number)| *mark |= number);
    }
    Mask::from_bytes(size, marks).map_err(|error| wrong(error.to_string()))
}

/// Marks the pixels of which one of the first `colours` values out of `channels` is not zero. Brightness would not do: it rounds faint
/// colours away.
fn marked<T: Copy + Default + PartialEq>(values: &[T], channels: usize, colours: usize) -> Vec<u8> {
    let private = |pixel: &[T]| pixel[..colours].iter().any(|value| *value != T::default());
    values.chunks_exact(channels).map(|pixel| u8::from(private(pixel))).collect()
}

/// The same problem as an error about the plan's key that names the mask.
fn in_plan(error: DataError, path: &Path) -> DataError {
    let text = error.to_string();
    let problem = text.strip_prefix(&format!("{}: ", path.display())).unwrap_or(&text).to_owned();
    DataError::Mask { path: path.to_owned(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::{ImageBuffer, Luma, LumaA, Pixel, PixelWithColorType, Rgb, Rgba};

    /// The mask read from a picture of 3x1 that is black but for its second pixel.
    fn read<P>(pixel: P) -> Vec<u8>
    where
        P: Pixel + PixelWithColorType,
        [P::Subpixel]: image::EncodableLayout,
    {
        let mut picture: ImageBuffer<P, Vec<P::Subpixel>> = ImageBuffer::new(3, 1);
        picture.put_pixel(1, 0, pixel);
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, ImageFormat::Png).unwrap();
        let mask = decode_mask(&bytes.into_inner(), Path::new("mask.png"), &DataLimits::default()).unwrap();
        mask.bytes().iter().map(|&byte| u8::from(byte != 0)).collect()
    }

    /// A file may give the numbers of its colours and a palette in which all of them are black.
    #[test]
    fn numbers_of_black_colours_are_private() {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, 4, 1);
        encoder.set_color(png::ColorType::Indexed);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_palette(vec![0; 3 * 3]);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&[0, 1, 0, 2]).unwrap();
        writer.finish().unwrap();
        let mask = decode_mask(&bytes, Path::new("mask.png"), &DataLimits::default()).unwrap();
        assert_eq!(
            mask.bytes().iter().map(|&byte| byte != 0).collect::<Vec<_>>(),
            [false, true, false, true]
        );
    }

    #[test]
    fn the_faintest_colour_is_private() {
        let marked = [0, 1, 0];
        assert_eq!(read(Luma([1u8])), marked);
        assert_eq!(read(Luma([1u16])), marked);
        for channel in 0..3 {
            let (mut eight, mut sixteen) = ([0u8; 3], [0u16; 3]);
            (eight[channel], sixteen[channel]) = (1, 1);
            assert_eq!(read(Rgb(eight)), marked, "{channel}");
            assert_eq!(read(Rgb(sixteen)), marked, "{channel}");
            // A transparent pixel has a colour all the same.
            assert_eq!(read(Rgba([eight[0], eight[1], eight[2], 0])), marked, "{channel}");
            assert_eq!(read(Rgba([sixteen[0], sixteen[1], sixteen[2], 0])), marked, "{channel}");
        }
        assert_eq!(read(LumaA([1u16, 0])), marked);
        assert_eq!(read(LumaA([1u8, 0])), marked);
        // Opaque black marks nothing.
        let black = ImageBuffer::from_pixel(2, 1, Rgba([0u16, 0, 0, u16::MAX]));
        let mut bytes = Cursor::new(Vec::new());
        black.write_to(&mut bytes, ImageFormat::Png).unwrap();
        assert!(
            decode_mask(&bytes.into_inner(), Path::new("a.png"), &DataLimits::default())
                .map_or(true, |mask| { mask.bytes().iter().all(|&byte| byte == 0) })
        );
    }
}
