//! Label pictures whose pixels are numbers: grey PNG, or PNG with a palette, whose colours do not matter.

use std::io::Cursor;
use std::path::Path;

use dapple_geometry::Size;
use png::{BitDepth, ColorType, Decoder, Transformations};

use crate::formats::one_line;
use crate::{DataError, DataLimits};

/// Bytes that a decoder may take in addition to one for each pixel.
const BESIDE_PIXELS: usize = 1 << 20;
/// How every PNG file begins.
const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// The number of each pixel, `[height, width]`: the grey value or palette entry as it is stored, in 1, 2, 4 or 8 bits.
///
/// # Errors
/// Bytes that are not a PNG picture, or a damaged one; colours or 16 bits where numbers are expected; a picture that is too large.
pub(crate) fn decode(bytes: &[u8], path: &Path, limits: &DataLimits) -> Result<(Size, Vec<u8>), DataError> {
    // Other kinds of pictures lose or blend numbers when they are compressed.
    if !bytes.is_empty() && !SIGNATURE.starts_with(&bytes[..bytes.len().min(SIGNATURE.len())]) {
        return Err(DataError::LabelFormat { path: path.to_owned(), found: "a file that is no PNG picture" });
    }
    let failed = |problem: &str| DataError::Picture { path: path.to_owned(), problem: one_line(problem) };
    let most = usize::try_from(limits.pixels).unwrap_or(usize::MAX).saturating_add(BESIDE_PIXELS);
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: most });
    decoder.set_transformations(Transformations::IDENTITY);
    let mut reader = decoder.read_info().map_err(|error| failed(&error.to_string()))?;
    let (colour, depth) = reader.output_color_type();
    let found = match (colour, depth) {
        (_, BitDepth::Sixteen) => Some("16 bits a value"),
        (ColorType::Rgb | ColorType::Rgba, _) => Some("colours"),
        (ColorType::GrayscaleAlpha, _) => Some("transparency"),
        _ => None,
    };
    if let Some(found) = found {
        return Err(DataError::LabelFormat { path: path.to_owned(), found });
    }
    let info = reader.info();
    let size = crate::limits::size(limits, info.width, info.height, path)?;
    let length = reader.output_buffer_size().ok_or_else(|| failed("it is too large"))?;
    let mut packed = vec![0; length];
    let frame = reader.next_frame(&mut packed).map_err(|error| failed(&error.to_string()))?;
    let bits = depth as usize;
    if bits == 8 {
        return Ok((size, packed));
    }
    // A byte holds several pixels, the first in the highest bits, and every row begins with a new byte.
    let width = size.width() as usize;
    let each = 8 / bits;
    let unpack = |row: &[u8]| {
        (0..width)
            .map(|x| row[x / each] >> (8 - bits - x % each * bits) & ((1 << bits) - 1))
            .collect::<Vec<u8>>()
    };
    Ok((size, packed.chunks_exact(frame.line_size).flat_map(unpack).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(colour: ColorType, depth: BitDepth, width: u32, height: u32, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(colour);
        encoder.set_depth(depth);
        if colour == ColorType::Indexed {
            encoder.set_palette(
                (0..=255u8)
                    .flat_map(|entry| [entry, 7, 255 - entry])
                    .take(3 << depth as usize)
                    .collect::<Vec<u8>>(),
            );
        }
        encoder.write_header().unwrap().write_image_data(data).unwrap();
        bytes
    }

    #[test]
    fn numbers_are_those_stored() {
        let read = |bytes: &[u8]| decode(bytes, Path::new("a.png"), &DataLimits::default()).unwrap();
        for colour in [ColorType::Grayscale, ColorType::Indexed] {
            let (size, ids) = read(&png(colour, BitDepth::Eight, 3, 2, &[0, 7, 255, 1, 2, 3]));
            assert_eq!((size.to_string().as_str(), ids), ("3x2", vec![0, 7, 255, 1, 2, 3]));
            // Three pixels of four bits take two bytes a row.
            let (_, ids) = read(&png(colour, BitDepth::Four, 3, 2, &[0x1f, 0x20, 0x30, 0x90]));
            assert_eq!(ids, [1, 15, 2, 3, 0, 9]);
            let (_, ids) = read(&png(colour, BitDepth::Two, 5, 1, &[0b0001_1011, 0b1100_0000]));
            assert_eq!(ids, [0, 1, 2, 3, 3]);
            let (_, ids) = read(&png(colour, BitDepth::One, 9, 1, &[0b1010_0001, 0b1000_0000]));
            assert_eq!(ids, [1, 0, 1, 0, 0, 0, 0, 1, 1]);
        }
    }

    #[test]
    fn other_pictures_are_refused_by_name() {
        for (colour, depth, data, what) in [
            (ColorType::Grayscale, BitDepth::Sixteen, &[0u8, 1][..], "16 bits"),
            (ColorType::Rgb, BitDepth::Eight, &[1, 2, 3], "colours"),
            (ColorType::Rgba, BitDepth::Eight, &[1, 2, 3, 4], "colours"),
            (ColorType::GrayscaleAlpha, BitDepth::Eight, &[1, 2], "transparency"),
        ] {
            let error = decode(&png(colour, depth, 1, 1, data), Path::new("a.png"), &DataLimits::default())
                .unwrap_err();
            let text = error.to_string();
            assert!(text.contains("a.png") && text.contains(what), "{text}");
            assert!(error.hint().is_some_and(|hint| hint.contains("8-bit")));
        }
        let whole = png(ColorType::Grayscale, BitDepth::Eight, 9, 9, &[3; 81]);
        for (bytes, what) in [
            (&whole[..50], "a.png: cannot decode"),
            (&whole[..5], "a.png: cannot decode"),
            (b"", "a.png: cannot decode"),
            (b"\xff\xd8\xff\xe0 a photograph", "a.png: a file that is no PNG picture"),
        ] {
            let text = decode(bytes, Path::new("a.png"), &DataLimits::default()).unwrap_err().to_string();
            assert!(text.starts_with(what), "{text}");
        }
    }
}
