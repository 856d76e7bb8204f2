//! The size of a picture by its header, without decoding it.

use std::io::{BufReader, Cursor, Read};
use std::path::Path;

use dapple_geometry::Size;
use image::ImageReader;

use super::folder::one_line;
use crate::{DataError, DataLimits, file};

/// How much of a file is read first. Headers lie within it, unless a camera put much before them.
const BEGINNING: u64 = 1 << 18;

/// Width and height of a picture as its header tells them, which are those that [`super::read_picture`] decodes.
///
/// # Errors
/// Anything but a file, bytes that are no picture of a known format, a picture without pixels or with more than allowed.
pub fn picture_size(path: &Path, limits: &DataLimits) -> Result<Size, DataError> {
    let (opened, length) = file::open(path)?;
    crate::limits::length(limits, length, path)?;
    let mut bytes = Vec::new();
    let mut reader = BufReader::new(opened.take(limits.bytes));
    reader.by_ref().take(BEGINNING).read_to_end(&mut bytes).map_err(DataError::io(path))?;
    let (width, height) = match dimensions(&bytes) {
        Ok(found) => found,
        Err(_) if length > bytes.len() as u64 => {
            reader.read_to_end(&mut bytes).map_err(DataError::io(path))?;
            dimensions(&bytes).map_err(|problem| wrong(path, &problem))?
        }
        Err(problem) => return Err(wrong(path, &problem)),
    };
    crate::limits::size(limits, width, height, path)
}

fn dimensions(bytes: &[u8]) -> Result<(u32, u32), String> {
    let reader =
        ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(|error| error.to_string())?;
    reader.into_dimensions().map_err(|error| error.to_string())
}

fn wrong(path: &Path, problem: &str) -> DataError {
    DataError::Picture { path: path.to_owned(), problem: one_line(problem) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::read_picture;
    use image::{ImageFormat, RgbImage};

    #[test]
    fn headers_tell_the_size_that_is_decoded() {
        let folder = tempfile::tempdir().unwrap();
        let limits = DataLimits::default();
        // More pixels than the beginning of the file holds bytes.
        let noise =
            |x: u32, y: u32| image::Rgb([((x * 7) ^ (y * 13)) as u8, (x * y) as u8, (x ^ (y * 5)) as u8]);
        for (name, format) in
            [("a.png", ImageFormat::Png), ("b.jpg", ImageFormat::Jpeg), ("c.ppm", ImageFormat::Pnm)]
        {
            for (width, height) in [(1, 1), (31, 7), (700, 500)] {
                let path = folder.path().join(name);
                RgbImage::from_fn(width, height, noise).save_with_format(&path, format).unwrap();
                let size = picture_size(&path, &limits).unwrap();
                assert_eq!((size.width(), size.height()), (width, height), "{name}");
                assert_eq!(size, read_picture(&path, &limits).unwrap().size(), "{name}");
            }
        }
        let path = folder.path().join("d.png");
        std::fs::write(&path, b"not a picture").unwrap();
        assert!(matches!(picture_size(&path, &limits), Err(DataError::Picture { .. })));
        assert!(picture_size(folder.path(), &limits).is_err());
        let small = DataLimits { pixels: 100, ..limits };
        assert!(matches!(
            picture_size(&folder.path().join("a.png"), &small),
            Err(DataError::Limit { key: "data.max_pixels", .. })
        ));
    }
}
