//! `dapple prepare`: brings all pictures of a folder to one size.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use dapple_plan::DataLimits;
use dapple_plan::spec::Pixels;
use dapple_train::data::formats::ImageFolder;
use dapple_train::data::segmentation::read_ids;
use dapple_train::data::{DataError, Dataset, Image, Values};
use image::codecs::png::PngEncoder;
use image::imageops::{self, FilterType};
use image::metadata::Orientation;
use image::{DynamicImage, GrayImage, ImageDecoder, ImageEncoder, ImageReader, RgbImage};
use rayon::prelude::*;
use serde::Serialize;

use crate::args::OutputFlags;
use crate::failure::Failure;
use crate::output::{self, wrapped};
use crate::progress::bar;

/// Brings all pictures of a folder to one size, label maps by their nearest pixel
#[derive(Debug, Args)]
#[command(
    after_help = "Pictures are written as PNG under their own names; folders are kept. What lies in a folder named `labels` are label maps: no new values arise in them, and padding has the value 255.
A patch protects so many pixels of the pictures that are trained on: what is scaled down hides more of the original behind each.

Examples:
  dapple prepare photos --size 640x480 --out photos-640x480
  dapple prepare streets --size 512x512 --fit pad --out streets-512"
)]
pub(crate) struct Arguments {
    /// The folder of the pictures
    #[arg(value_name = "DIR")]
    pictures: PathBuf,
    /// The size of what is written
    #[arg(long, value_name = "WxH", value_parser = size)]
    size: Pixels,
    /// How pictures of another shape come to this size
    #[arg(long, value_enum, default_value_t = FitKind::Crop)]
    fit: FitKind,
    /// The new folder in which the pictures are written
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FitKind {
    /// Cuts off what is too much, evenly on both sides
    Crop,
    /// Adds black, evenly on both sides
    Pad,
    /// Stretches or squeezes
    Resize,
}

/// The most pixels of a side.
const MOST: u32 = 1 << 16;
/// What label maps show where there is no picture.
const NO_LABEL: u8 = 255;

fn size(text: &str) -> Result<Pixels, String> {
    match text.parse::<Pixels>() {
        Ok(size) if (1..=MOST).contains(&size.x) && (1..=MOST).contains(&size.y) => Ok(size),
        _ => Err("not a size such as 640x480".to_owned()),
    }
}

#[derive(Debug, Serialize)]
struct Answer {
    folder: String,
    pictures: usize,
    label_maps: usize,
    least_scale: f64,
    most_scale: f64,
}

/// What was written of one picture.
struct PreparedPicture {
    labels: bool,
    /// Pixels of the new picture for one of the old, along a side.
    scale: f64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { pictures, size, fit, out, output } = arguments;
    if fs::symlink_metadata(out).is_ok() {
        return Err(Failure::request(
            format!("--out: there is something at {} already, and it is not written over", out.display()),
            "give a new folder",
        ));
    }
    let folder = ImageFolder::open_as(pictures, &["picture".to_owned()], 0, &DataLimits::default())?;
    let names = names(&folder)?;
    // Until all is written, it stands under another name, so that nobody trains on half of it.
    let part = out.with_file_name(format!("{}.part", out.file_name().unwrap_or_default().display()));
    if fs::symlink_metadata(&part).is_ok() {
        return Err(Failure::request(
            format!("{} is in the way, from an attempt that was broken off", part.display()),
            "remove it",
        ));
    }
    let shown = bar(names.len(), output.quiet, "{bar:40} {pos}/{len} pictures, {eta} left");
    let written = names
        .par_iter()
        .enumerate()
        .map(|(record, name)| {
            let written = convert(&folder, record, (*size, *fit), &part.join(name));
            shown.inc(1);
            written
        })
        .collect::<Result<Vec<PreparedPicture>, Failure>>();
    shown.finish_and_clear();
    let written = written.inspect_err(|_| {
        // What was written is of no use by itself. If it cannot be removed, the next attempt says so.
        let _ = fs::remove_dir_all(&part);
    })?;
    fs::rename(&part, out).map_err(|error| {
        Failure::run(format!("cannot rename {} to {}: {error}", part.display(), out.display()))
    })?;
    let scales = || written.iter().map(|picture| picture.scale);
    let answer = Answer {
        folder: out.display().to_string(),
        pictures: written.iter().filter(|picture| !picture.labels).count(),
        label_maps: written.iter().filter(|picture| picture.labels).count(),
        least_scale: scales().fold(f64::INFINITY, f64::min),
        most_scale: scales().fold(0.0, f64::max),
    };
    match output.json {
        true => output::print_json(&answer),
        false => output::print(&text(&answer, *size, *fit)),
    }
}

/// The name under which each picture is written.
fn names(folder: &ImageFolder) -> Result<Vec<PathBuf>, Failure> {
    let name = |record| PathBuf::from(folder.name(record).unwrap_or_default()).with_extension("png");
    let names: Vec<PathBuf> = (0..folder.len()).map(name).collect();
    let mut sorted: Vec<&PathBuf> = names.iter().collect();
    sorted.sort();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(names),
        Some(pair) => Err(Failure::request(
            format!("two pictures would be written as {}", pair[0].display()),
            "give one of them another name: endings do not count",
        )),
    }
}

/// Whether a picture lies in a folder of label maps.
fn is_label_map(name: &Path) -> bool {
    name.parent().is_some_and(|folder| folder.iter().any(|part| part == "labels"))
}

fn convert(
    folder: &ImageFolder,
    record: usize,
    (size, fit): (Pixels, FitKind),
    to: &Path,
) -> Result<PreparedPicture, Failure> {
    let name = PathBuf::from(folder.name(record).unwrap_or_default());
    let labels = is_label_map(&name);
    let path = PathBuf::from(folder.place(record));
    let picture = match labels.then(|| read_ids(&path, &DataLimits::default())) {
        Some(Ok((size, ids))) => {
            GrayImage::from_raw(size.width(), size.height(), ids).map(DynamicImage::ImageLuma8)
        }
        // Label maps may be in colours, too.
        Some(Err(DataError::LabelFormat { found: "colours", .. })) | None => coloured(&folder.read(record)?),
        Some(Err(other)) => return Err(other.into()),
    };
    let picture = picture.ok_or_else(|| Failure::run(format!("{}: it has no pixels", path.display())))?;
    let (brought, scale) = bring(&picture, size, fit, labels);
    let failed = |error: String| Failure::run(format!("cannot write {}: {error}", to.display()));
    fs::create_dir_all(to.parent().unwrap_or(Path::new("."))).map_err(|error| failed(error.to_string()))?;
    let mut bytes = Vec::new();
    let mut encoder = PngEncoder::new(&mut bytes);
    if let Some(note) = note_of_camera(&path)? {
        encoder.set_exif_metadata(note).map_err(|error| failed(error.to_string()))?;
    }
    brought.write_with_encoder(encoder).map_err(|error| failed(error.to_string()))?;
    fs::write(to, bytes).map_err(|error| failed(error.to_string()))?;
    Ok(PreparedPicture { labels, scale })
}

/// A camera's note that the picture is to be turned or mirrored where it is shown, and nothing else that it noted. Without it nobody would know any
/// more that a mask of the picture may be either side up.
fn note_of_camera(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let failed = |error: String| Failure::run(format!("cannot read {}: {error}", path.display()));
    let reader = ImageReader::open(path).and_then(ImageReader::with_guessed_format);
    let reader = reader.map_err(|error| failed(error.to_string()))?;
    let mut decoder = reader.into_decoder().map_err(|error| failed(error.to_string()))?;
    let orientation = decoder.orientation().map_err(|error| failed(error.to_string()))?;
    if orientation == Orientation::NoTransforms {
        return Ok(None);
    }
    // A directory of one entry: the orientation (0x112), one short number.
    let entry = [0x12, 1, 3, 0, 1, 0, 0, 0, orientation.to_exif(), 0, 0, 0];
    Ok(Some([&b"II*\0\x08\0\0\0\x01\0"[..], &entry, &[0; 4]].concat()))
}

fn coloured(image: &Image) -> Option<DynamicImage> {
    let Values::Bytes(bytes) = image.values() else { return None };
    let size = image.size();
    RgbImage::from_raw(size.width(), size.height(), bytes.clone()).map(DynamicImage::ImageRgb8)
}

/// The picture at the new size, and how many of its pixels stand for one of the old along a side.
fn bring(picture: &DynamicImage, to: Pixels, fit: FitKind, labels: bool) -> (DynamicImage, f64) {
    let (width, height) = (picture.width(), picture.height());
    let filter = if labels { FilterType::Nearest } else { FilterType::Triangle };
    let along = (f64::from(to.x) / f64::from(width), f64::from(to.y) / f64::from(height));
    let scale = match fit {
        FitKind::Resize => return (picture.resize_exact(to.x, to.y, filter), along.0.min(along.1)),
        FitKind::Crop => along.0.max(along.1),
        FitKind::Pad => along.0.min(along.1),
    };
    let side = |length: u32| ((f64::from(length) * scale).round() as u32).max(1);
    let (wide, high) = match fit {
        FitKind::Crop => (side(width).max(to.x), side(height).max(to.y)),
        _ => (side(width).min(to.x), side(height).min(to.y)),
    };
    let scaled = picture.resize_exact(wide, high, filter);
    if fit == FitKind::Crop {
        return (scaled.crop_imm((wide - to.x) / 2, (high - to.y) / 2, to.x, to.y), scale);
    }
    let mut padded = match &scaled {
        DynamicImage::ImageLuma8(_) => {
            DynamicImage::ImageLuma8(GrayImage::from_pixel(to.x, to.y, image::Luma([NO_LABEL])))
        }
        _ => DynamicImage::ImageRgb8(RgbImage::new(to.x, to.y)),
    };
    imageops::replace(&mut padded, &scaled, i64::from((to.x - wide) / 2), i64::from((to.y - high) / 2));
    (padded, scale)
}

fn text(answer: &Answer, size: Pixels, fit: FitKind) -> String {
    let Answer { folder, pictures, label_maps, least_scale, most_scale } = answer;
    let mut text = wrapped("pictures", &format!("{pictures} of {size}, in {folder}"));
    if *label_maps > 0 {
        text.push_str(&wrapped("label maps", &label_maps.to_string()));
    }
    if *label_maps > 0 && fit == FitKind::Pad {
        text.push_str(&wrapped("", &format!("padding has the label {NO_LABEL}: data.ignore = [{NO_LABEL}]")));
    }
    let one = |scale: f64| format!("{:.2}", 1.0 / scale);
    text + &wrapped(
        "scale",
        &format!(
            "a pixel of these pictures stands for {} to {} pixels of an original along each side; a private patch is counted in pixels of these pictures",
            one(*most_scale),
            one(*least_scale)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_gives_the_size_and_labels_stay_labels() {
        let to = Pixels { x: 8, y: 6 };
        let labels = DynamicImage::ImageLuma8(GrayImage::from_fn(13, 31, |x, y| {
            image::Luma([((x + y) % 2 * 9) as u8])
        }));
        let picture = DynamicImage::ImageRgb8(RgbImage::from_pixel(31, 5, image::Rgb([200, 10, 30])));
        for fit in [FitKind::Crop, FitKind::Pad, FitKind::Resize] {
            let (brought, _) = bring(&labels, to, fit, true);
            assert_eq!((brought.width(), brought.height()), (8, 6));
            let known = |value: &u8| [0, 9].contains(value) || (fit == FitKind::Pad && *value == NO_LABEL);
            assert!(brought.as_bytes().iter().all(known), "{fit:?}");
            let (brought, scale) = bring(&picture, to, fit, false);
            assert_eq!((brought.width(), brought.height()), (8, 6));
            // A picture of one colour keeps it, beside black where it is padded.
            let black = brought.to_rgb8().pixels().filter(|pixel| pixel.0 == [0, 0, 0]).count();
            assert_eq!(black > 0, fit == FitKind::Pad);
            assert!(scale > 0.0);
        }
    }
}
