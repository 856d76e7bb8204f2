//! A drawing of why a random crop protects a small private patch.
//!
//! A street image with a car whose licence plate is the private patch, three crops of it, and the share of all
//! crops that see the plate, everything to scale.

mod chance;
mod street;

use dapple_number::pretty;

use crate::{
    Picture, ReportError, Theme,
    graphic::{Anchor, Fill, Graphic, Rect, Stroke, Text},
    paint::{GRID, INK, MUTED, PALETTE, PAPER, Paint},
};

const CLEAN: Paint = PALETTE[2];
const SEES: Paint = PALETTE[1];
const MARGIN: f64 = 20.0;
const STREET_WIDTH: f64 = 560.0;
const STREET_HEIGHT: f64 = 460.0;
/// The width of an image whose words stand beneath it.
const COLUMN_WIDTH: f64 = 420.0;
const SIDE_GAP: f64 = 30.0;
const SIDE_WIDTH: f64 = 290.0;
const SIDE_HEIGHT: f64 = 310.0;

/// Sizes in pixels of what the drawing shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CropPicture {
    /// Width and height of the image.
    pub image: (u32, u32),
    /// Width and height of a crop.
    pub crop: (u32, u32),
    /// Width and height of the private patch.
    pub patch: (u32, u32),
    /// Left upper corner of the patch.
    pub patch_origin: (u32, u32),
}

impl Default for CropPicture {
    /// A wide street image in which about one crop in six sees the plate.
    fn default() -> Self {
        Self { image: (1024, 576), crop: (224, 224), patch: (72, 24), patch_origin: (640, 416) }
    }
}

impl CropPicture {
    fn check(&self) -> Result<(), ReportError> {
        let (outer_width, outer_height) = self.image;
        let fits = |inner: &'static str, (width, height): (u32, u32), (x, y): (u32, u32)| {
            let inside = |length: u32, start: u32, limit: u32| {
                length > 0 && u64::from(length) + u64::from(start) <= u64::from(limit)
            };
            if inside(width, x, outer_width) && inside(height, y, outer_height) {
                Ok(())
            } else {
                Err(ReportError::DoesNotFit {
                    inner,
                    inner_width: width,
                    inner_height: height,
                    outer_width,
                    outer_height,
                })
            }
        };
        fits("crop", self.crop, (0, 0))?;
        fits("patch", self.patch, self.patch_origin)
    }
}

/// The drawing as an SVG document.
///
/// # Errors
/// When the crop is larger than the image, or the patch does not lie inside it, or a size is zero.
pub fn crop_picture(sizes: &CropPicture) -> Result<String, ReportError> {
    Ok(crop_graphic(sizes)?.to_svg(Theme::Auto))
}

/// The drawing as a list of shapes.
///
/// # Errors
/// As [`crop_picture`].
pub fn crop_graphic(sizes: &CropPicture) -> Result<Graphic, ReportError> {
    drawn(sizes, None, CropLayout::Beside)
}

/// The drawing with its words beneath the image, for narrow windows; on a photograph, if one is given, in the place of the street. Where the
/// patch lies in a photograph is made up.
///
/// # Errors
/// As [`crop_picture`].
pub fn crop_column(sizes: &CropPicture, photograph: Option<&Picture>) -> Result<Graphic, ReportError> {
    drawn(sizes, photograph, CropLayout::Beneath)
}

/// Where the words stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CropLayout {
    Beside,
    Beneath,
}

fn drawn(
    sizes: &CropPicture,
    photograph: Option<&Picture>,
    layout: CropLayout,
) -> Result<Graphic, ReportError> {
    sizes.check()?;
    let thing = if photograph.is_some() { "patch" } else { "plate" };
    let (image_width, image_height) = (f64::from(sizes.image.0), f64::from(sizes.image.1));
    let widest = if layout == CropLayout::Beside { STREET_WIDTH } else { COLUMN_WIDTH };
    let scale = (widest / image_width).min(STREET_HEIGHT / image_height);
    let street = (image_width * scale, (image_height * scale).max(1.0));
    let (frame, side, height, width) = match layout {
        CropLayout::Beside => {
            let height = street.1.max(SIDE_HEIGHT) + 2.0 * MARGIN;
            let frame = Rect::new(MARGIN, (height - street.1) / 2.0, street.0, street.1);
            let side = (frame.right() + SIDE_GAP, (height - SIDE_HEIGHT) / 2.0);
            (frame, side, height, side.0 + SIDE_WIDTH + MARGIN)
        }
        CropLayout::Beneath => {
            let frame = Rect::new(MARGIN + (widest - street.0) / 2.0, MARGIN, street.0, street.1);
            let side = (MARGIN + (widest - SIDE_WIDTH) / 2.0, frame.bottom() + MARGIN);
            (frame, side, side.1 + SIDE_HEIGHT + MARGIN, widest + 2.0 * MARGIN)
        }
    };
    let to_graphic = |(x, y): (u32, u32), (width, height): (u32, u32)| {
        let [x, y, width, height] = [x, y, width, height].map(|length| f64::from(length) * scale);
        Rect::new(frame.x + x, frame.y + y, width, height)
    };

    let probability = chance::inclusion(sizes);
    let percent = pretty(100.0 * probability, 3);
    let beginning = match photograph {
        Some(_) => "An image. Crops that miss its private patch",
        None => "A street image with a car. Crops that miss its licence plate",
    };
    let description = format!(
        "{beginning} give gradients that do not depend on it; {percent} percent of all crop positions see the {thing}."
    );
    let mut graphic = Graphic::new(width, height, "Random crops and a private patch", &description);
    let plate = to_graphic(sizes.patch_origin, sizes.patch);
    match photograph {
        // Twice as many pixels as units are enough for fine screens.
        Some(photograph) => graphic.photograph(frame, photograph.shrunk(2 * STREET_WIDTH as u32)),
        None => street::draw(&mut graphic, &frame, &plate),
    }

    let windows = chance::windows(sizes);
    for (index, window) in windows.iter().enumerate() {
        let area = to_graphic(window.origin, sizes.crop);
        let paint = if window.sees { SEES } else { CLEAN };
        graphic.rect(area, 2.0, Some(Fill::tint(paint, 0.10)), Some(Stroke::solid(PAPER, 4.0)));
        graphic.rect(area, 2.0, None, Some(Stroke::solid(paint, 2.2)));
        let inset = |length: f64| 13.0_f64.min(length / 2.0);
        draw_number(
            &mut graphic,
            (area.x + inset(area.width), area.y + inset(area.height)),
            index + 1,
            paint,
        );
    }
    graphic.rect(plate.grown(1.5), 1.5, None, Some(Stroke::solid(SEES, 2.0)));
    name_patch(&mut graphic, &frame, &plate, &to_graphic(chance::seeing(&windows), sizes.crop));
    draw_side(&mut graphic, side, sizes, &windows, (probability, thing));
    Ok(graphic)
}

/// Writes what the plate stands for beside the crop that sees it, if the image has room there.
fn name_patch(graphic: &mut Graphic, frame: &Rect, plate: &Rect, crop: &Rect) {
    let name = Text::new((0.0, plate.y + plate.height / 2.0 + 4.0), "private patch", 12.0, INK)
        .semibold()
        .halo(PAPER);
    let needed = name.length() + 26.0;
    let level = plate.y + plate.height / 2.0;
    let (from, to, anchor) = if crop.right() + needed < frame.right() {
        (plate.right() + 1.5, crop.right() + 12.0, Anchor::Start)
    } else if crop.x - needed > frame.x {
        (plate.x - 1.5, crop.x - 12.0, Anchor::End)
    } else {
        return;
    };
    graphic.line(vec![(from, level), (to, level)], Stroke::solid(SEES, 1.4));
    let gap = if anchor == Anchor::Start { 6.0 } else { -6.0 };
    graphic.text(Text { at: (to + gap, name.at.1), ..name.anchored(anchor) });
}

fn draw_number(graphic: &mut Graphic, (x, y): (f64, f64), number: usize, paint: Paint) {
    graphic.circle((x, y), 8.5, Some(Fill::solid(paint)), None);
    graphic
        .text(Text::new((x, y + 4.0), &number.to_string(), 11.5, PAPER).anchored(Anchor::Middle).semibold());
}

/// The words and the bar beside the image.
fn draw_side(
    graphic: &mut Graphic,
    (x, y): (f64, f64),
    sizes: &CropPicture,
    windows: &[chance::CropPosition],
    (probability, thing): (f64, &str),
) {
    graphic.text(Text::new((x, y + 16.0), "Every step trains on a random crop", 15.0, INK).semibold());
    let mut top = y + 32.0;
    for (index, window) in windows.iter().enumerate() {
        let (paint, first, second) = if window.sees {
            (SEES, format!("crop sees the {thing}"), "only this gradient depends on it".to_owned())
        } else {
            (
                CLEAN,
                format!("crop misses the {thing}: gradient is clean"),
                format!("the same whatever the {thing} shows"),
            )
        };
        draw_number(graphic, (x + 9.0, top + 13.0), index + 1, paint);
        graphic.text(Text::new((x + 27.0, top + 13.0), &first, 13.0, INK));
        graphic.text(Text::new((x + 27.0, top + 29.0), &second, 11.5, MUTED));
        top += 45.0;
    }
    let bar = y + 32.0 + 3.0 * 45.0 + 12.0;
    graphic.text(Text::new((x, bar + 13.0), "inclusion probability", 13.0, INK));
    let value = format!("c = {}", pretty(probability, 3));
    graphic.text(Text::new((x + SIDE_WIDTH, bar + 13.0), &value, 13.0, INK).anchored(Anchor::End).semibold());
    let (top, height) = (bar + 22.0, 12.0);
    graphic.rect(Rect::new(x, top, SIDE_WIDTH, height), 6.0, Some(Fill::solid(GRID)), None);
    let filled = (SIDE_WIDTH * probability).max(3.0);
    graphic.rect(Rect::new(x, top, filled, height), 6.0, Some(Fill::solid(SEES)), None);
    let worst = chance::worst_inclusion(sizes);
    for (index, line) in [
        "share of all crop positions that see the private patch".to_owned(),
        format!("at most {} wherever the patch lies", pretty(worst, 3)),
        format!("image {} × {}, crop {} × {},", sizes.image.0, sizes.image.1, sizes.crop.0, sizes.crop.1),
        format!("patch {} × {}, drawn to scale", sizes.patch.0, sizes.patch.1),
    ]
    .iter()
    .enumerate()
    {
        let at = (x, top + height + 19.0 + 17.0 * index as f64);
        let line = crate::font::shorten(line, 11.5, crate::graphic::Weight::Regular, SIDE_WIDTH);
        graphic.text(Text::new(at, &line, 11.5, MUTED));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        let sizes = CropPicture { crop: (2000, 10), ..CropPicture::default() };
        let error = crop_picture(&sizes).expect_err("too wide");
        assert_eq!(error.to_string(), "crop of 2000 x 10 does not fit into the 1024 x 576 image");
        for sizes in [
            CropPicture { patch: (0, 10), ..CropPicture::default() },
            CropPicture { patch_origin: (1000, 0), ..CropPicture::default() },
            CropPicture { image: (0, 0), ..CropPicture::default() },
        ] {
            assert!(crop_picture(&sizes).is_err());
        }
    }

    #[test]
    fn words_of_both_cases_are_there() {
        let svg = crop_picture(&CropPicture::default()).expect("drawn");
        for words in
            ["crop misses the plate: gradient is clean", "crop sees the plate", "inclusion probability"]
        {
            assert!(svg.contains(words));
        }
    }
}
