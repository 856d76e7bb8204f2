//! Maps of classes: the class of every pixel, with a colour for each class.

use super::{Picture, check_pixels, encode};
use crate::{ReportError, paint::Rgb};

/// How much of an overlay is the colour of the class; the rest is the photograph.
const VEIL: u32 = 55;

/// The class of every pixel of an image, with the classes' colours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelPicture {
    width: u32,
    height: u32,
    classes: Vec<u8>,
    palette: Vec<Rgb>,
}

impl LabelPicture {
    /// A map from the class of each pixel, row by row. A class beyond the palette is a pixel without one, and is drawn black.
    ///
    /// # Errors
    /// A number of pixels that is not width times height; no colours, or more than a byte can count.
    pub fn new(width: u32, height: u32, classes: Vec<u8>, palette: Vec<Rgb>) -> Result<Self, ReportError> {
        check_pixels(width, height, classes.len())?;
        if palette.is_empty() || palette.len() > 256 {
            return Err(ReportError::Palette { colours: palette.len() });
        }
        Ok(Self { width, height, classes, palette })
    }

    /// The map as a PNG file whose values are the classes themselves and whose palette shows their colours.
    ///
    /// # Errors
    /// What the encoder refuses.
    pub fn to_png(&self) -> Result<Vec<u8>, ReportError> {
        // A value without a palette entry would make the file invalid.
        let used = self.classes.iter().copied().max().map_or(0, usize::from) + 1;
        let entries = used.max(self.palette.len());
        let palette: Vec<u8> = (0..entries)
            .flat_map(|class| {
                let Rgb(red, green, blue) = self.colour(class);
                [red, green, blue]
            })
            .collect();
        encode(self.width, self.height, &self.classes, |encoder| {
            encoder.set_color(png::ColorType::Indexed);
            encoder.set_palette(palette);
        })
    }

    /// The map in its colours.
    #[must_use]
    pub fn colours(&self) -> Picture {
        let pixels = self.classes.iter().map(|&class| self.colour(usize::from(class))).collect();
        Picture { width: self.width, height: self.height, pixels }
    }

    /// The map laid over the photograph that it is of; pixels without a class show the photograph alone.
    ///
    /// # Errors
    /// A photograph of another size.
    pub fn over(&self, photograph: &Picture) -> Result<Picture, ReportError> {
        if photograph.size() != (self.width, self.height) {
            let (width, height) = (self.width, self.height);
            return Err(ReportError::Pixels { width, height, found: photograph.pixels.len() });
        }
        let mix = |veil: u8, below: u8| {
            ((u32::from(veil) * VEIL + u32::from(below) * (100 - VEIL) + 50) / 100) as u8
        };
        let pixels = photograph.pixels.iter().zip(&self.classes).map(|(&below, &class)| {
            self.palette
                .get(usize::from(class))
                .map_or(below, |veil| Rgb(mix(veil.0, below.0), mix(veil.1, below.1), mix(veil.2, below.2)))
        });
        Ok(Picture { width: self.width, height: self.height, pixels: pixels.collect() })
    }

    fn colour(&self, class: usize) -> Rgb {
        self.palette.get(class).copied().unwrap_or(Rgb(0, 0, 0))
    }
}

/// A colour for a class that has none of its own: the bits of its number, counted from 1 so that black stays free, dealt to red, green and blue in turn from
/// the highest bit down. Near numbers get colours that differ most, as in the label maps of Pascal VOC.
#[must_use]
pub fn class_colour(class: usize) -> Rgb {
    let number = class + 1;
    let channel = |first: usize| {
        (0..8).fold(0, |value, place| value | ((number >> (3 * place + first) & 1) << (7 - place))) as u8
    };
    Rgb(channel(0), channel(1), channel(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SKY: Rgb = Rgb(70, 130, 180);
    const ROAD: Rgb = Rgb(128, 64, 128);

    fn map() -> LabelPicture {
        LabelPicture::new(3, 1, vec![1, 0, 255], vec![SKY, ROAD]).unwrap()
    }

    #[test]
    fn a_file_holds_classes_and_colours() {
        let bytes = map().to_png().unwrap();
        let mut decoder = png::Decoder::new(std::io::Cursor::new(bytes));
        decoder.set_transformations(png::Transformations::IDENTITY);
        let mut reader = decoder.read_info().unwrap();
        let palette = reader.info().palette.clone().unwrap();
        assert_eq!(palette[..6], [70, 130, 180, 128, 64, 128]);
        assert_eq!(palette.len(), 256 * 3);
        let mut values = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut values).unwrap();
        assert_eq!(values, [1, 0, 255]);
    }

    #[test]
    fn an_overlay_lets_the_photograph_through() {
        let photograph = Picture::new(3, 1, vec![Rgb(100, 100, 100); 3]).unwrap();
        let over = map().over(&photograph).unwrap();
        // 0.55 * 128 + 0.45 * 100 = 115.4; the pixel without a class is the photograph's.
        assert_eq!(over.pixels()[0], Rgb(115, 80, 115));
        assert_eq!(over.pixels()[2], Rgb(100, 100, 100));
        assert_eq!(map().colours().pixels(), [ROAD, SKY, Rgb(0, 0, 0)]);
        assert!(map().over(&Picture::new(1, 3, vec![SKY; 3]).unwrap()).is_err());
    }

    #[test]
    fn classes_without_colours_get_the_usual_ones() {
        // The palette of Pascal VOC 2012 after its background: aeroplane, bicycle, bird; and the last, tv monitor.
        let known = [(0, Rgb(128, 0, 0)), (1, Rgb(0, 128, 0)), (2, Rgb(128, 128, 0)), (19, Rgb(0, 64, 128))];
        for (class, colour) in known {
            assert_eq!(class_colour(class), colour);
        }
        let all: std::collections::BTreeSet<_> = (0..255).map(|class| class_colour(class).hex()).collect();
        assert_eq!(all.len(), 255);
    }

    #[test]
    fn wrong_maps_are_refused() {
        for error in [
            LabelPicture::new(2, 2, vec![0; 3], vec![SKY]).unwrap_err(),
            LabelPicture::new(2, 2, vec![0; 4], Vec::new()).unwrap_err(),
            LabelPicture::new(2, 2, vec![0; 4], vec![SKY; 257]).unwrap_err(),
        ] {
            assert!(error.hint().is_some() && !error.to_string().contains('\n'), "{error}");
        }
    }
}
