//! Photographs and maps of classes, as they lie in files: pixel by pixel, without shapes.

mod labels;

pub use labels::{LabelPicture, class_colour};

use crate::{ReportError, paint::Rgb};

/// A picture in colour, row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    width: u32,
    height: u32,
    pixels: Vec<Rgb>,
}

impl Picture {
    /// A picture from its pixels.
    ///
    /// # Errors
    /// A number of pixels that is not width times height, or no pixels at all.
    pub fn new(width: u32, height: u32, pixels: Vec<Rgb>) -> Result<Self, ReportError> {
        check_pixels(width, height, pixels.len())?;
        Ok(Self { width, height, pixels })
    }

    /// Width and height.
    #[must_use]
    pub fn size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    /// The pixels, row by row.
    #[must_use]
    pub fn pixels(&self) -> &[Rgb] {
        &self.pixels
    }

    /// The picture at most `longest` pixels wide and high, each pixel the mean of those it takes the place of; one that is small
    /// enough stays as it is.
    #[must_use]
    pub fn shrunk(&self, longest: u32) -> Self {
        let side = self.width.max(self.height);
        if side <= longest || longest == 0 {
            return self.clone();
        }
        let scaled = |length: u32| (u64::from(length) * u64::from(longest) / u64::from(side)).max(1) as u32;
        let (width, height) = (scaled(self.width), scaled(self.height));
        // The pixels from..to of a row or column that one pixel of the smaller picture stands for; never none.
        let reach = |index: u32, from: u32, to: u32| {
            let edge = |index: u32| u64::from(index) * u64::from(from) / u64::from(to);
            edge(index) as usize..edge(index + 1) as usize
        };
        let mut pixels = Vec::with_capacity(width as usize * height as usize);
        for y in 0..height {
            for x in 0..width {
                let (columns, rows) = (reach(x, self.width, width), reach(y, self.height, height));
                let count = (columns.len() * rows.len()).max(1) as u64;
                let mut sums = [0u64; 3];
                for row in rows {
                    for &Rgb(red, green, blue) in &self.pixels[row * self.width as usize..][columns.clone()] {
                        sums.iter_mut()
                            .zip([red, green, blue])
                            .for_each(|(sum, value)| *sum += u64::from(value));
                    }
                }
                let [red, green, blue] = sums.map(|sum| ((sum + count / 2) / count) as u8);
                pixels.push(Rgb(red, green, blue));
            }
        }
        Self { width, height, pixels }
    }

    /// The picture with each pixel as a square, so that its longer side has at least this many; one that is large enough stays as it is.
    #[must_use]
    pub fn grown(&self, least: u32) -> Self {
        let times = least.div_ceil(self.width.max(self.height).max(1));
        if times <= 1 {
            return self.clone();
        }
        let (width, height) = (self.width * times, self.height * times);
        let pixel =
            |x: u32, y: u32| self.pixels[(y / times) as usize * self.width as usize + (x / times) as usize];
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).map(|(x, y)| pixel(x, y));
        Self { width, height, pixels: pixels.collect() }
    }

    /// The picture as a PNG file.
    ///
    /// # Errors
    /// What the encoder refuses.
    pub fn to_png(&self) -> Result<Vec<u8>, ReportError> {
        let bytes: Vec<u8> =
            self.pixels.iter().flat_map(|&Rgb(red, green, blue)| [red, green, blue]).collect();
        encode(self.width, self.height, &bytes, |encoder| encoder.set_color(png::ColorType::Rgb))
    }
}

fn check_pixels(width: u32, height: u32, found: usize) -> Result<(), ReportError> {
    let expected = u64::from(width) * u64::from(height);
    if expected == 0 || expected != found as u64 {
        return Err(ReportError::Pixels { width, height, found });
    }
    Ok(())
}

fn encode(
    width: u32,
    height: u32,
    bytes: &[u8],
    set: impl FnOnce(&mut png::Encoder<'_, &mut Vec<u8>>),
) -> Result<Vec<u8>, ReportError> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width, height);
    encoder.set_depth(png::BitDepth::Eight);
    set(&mut encoder);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(bytes));
    written.map_err(|error| ReportError::Encode(error.to_string()))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_picture_shows_means() {
        let pixels = [0u8, 10, 20, 31, 40, 50, 60, 70].map(|value| Rgb(value, 2 * value, 255 - value));
        let picture = Picture::new(4, 2, pixels.to_vec()).unwrap();
        let small = picture.shrunk(2);
        assert_eq!(small.size(), (2, 1));
        // Means of 0, 10, 40, 50 and of 20, 31, 60, 70, rounded.
        assert_eq!(small.pixels().iter().map(|pixel| pixel.0).collect::<Vec<_>>(), [25, 45]);
        assert_eq!(picture.shrunk(4), picture);
        // A very flat picture keeps a row.
        let flat = Picture::new(1000, 1, vec![Rgb(7, 7, 7); 1000]).unwrap();
        assert_eq!(flat.shrunk(10), Picture::new(10, 1, vec![Rgb(7, 7, 7); 10]).unwrap());
    }

    #[test]
    fn a_larger_picture_shows_squares() {
        let picture = Picture::new(2, 1, vec![Rgb(1, 1, 1), Rgb(2, 2, 2)]).unwrap();
        let large = picture.grown(3);
        assert_eq!(large.size(), (4, 2));
        assert_eq!(large.pixels().iter().map(|pixel| pixel.0).collect::<Vec<_>>(), [1, 1, 2, 2, 1, 1, 2, 2]);
        assert_eq!(picture.grown(2), picture);
    }

    #[test]
    fn a_file_holds_the_pixels() {
        let pixels: Vec<Rgb> = (0..12u8).map(|value| Rgb(value, 100, 200 + value)).collect();
        let bytes = Picture::new(4, 3, pixels.clone()).unwrap().to_png().unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
        let mut found = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut found).unwrap();
        let found: Vec<Rgb> = found.chunks_exact(3).map(|pixel| Rgb(pixel[0], pixel[1], pixel[2])).collect();
        assert_eq!(found, pixels);
        let error = Picture::new(4, 4, pixels).unwrap_err();
        assert!(error.to_string().contains("12 pixels") && error.hint().is_some(), "{error}");
        assert!(Picture::new(0, 4, Vec::new()).is_err());
    }
}
