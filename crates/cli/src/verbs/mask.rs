//! `dapple mask`: masks of private pixels, made from boxes, dilated, counted and shown.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use clap::Args;
use dapple_plan::{DataLimits, Mask};
use dapple_report::Rgb;
use dapple_train::data::formats::ImageFolder;
use dapple_train::data::masks::{MaskedRecords, PatchedMask, decode_image_mask};
use dapple_train::data::{Dataset, Image};
use image::{GrayImage, ImageFormat, RgbImage};
use serde::Serialize;

use crate::args::OutputFlags;
use crate::failure::Failure;
use crate::output;
use dapple_pages::label_pictures::photograph;

/// Makes masks of private pixels from boxes or a detector, dilates them, counts them and shows them
#[derive(Debug, Args)]
#[command(
    after_help = "A mask is a PNG picture or a .npy array in which what is not zero is private, run lengths as of COCO in JSON, or boxes in JSON or CSV; \
it has the name of its picture but for the ending. A detector is any program that prints boxes in JSON or CSV for the picture whose path is its last argument, and [] if it sees none.

Example:
  dapple mask photos/train --from detections --dilate 4 --tokens 16 --round-out --out photos/masks"
)]
pub(crate) struct Arguments {
    /// The folder of the pictures
    #[arg(value_name = "DIR")]
    pictures: PathBuf,
    /// The folder of the masks, or of the files of boxes
    #[arg(long, value_name = "DIR", required_unless_present = "detector")]
    from: Option<PathBuf>,
    /// A program that prints the boxes of a picture, with its arguments
    #[arg(long, value_name = "PROGRAM", conflicts_with = "from")]
    detector: Option<String>,
    /// How many pixels farther private regions reach
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=65536))]
    dilate: u32,
    /// The side of a token in pixels, of which private and public ones are counted
    #[arg(long, value_name = "SIDE", value_parser = clap::value_parser!(u32).range(1..=65536))]
    tokens: Option<u32>,
    /// Takes all pixels of private tokens into the masks
    #[arg(long, requires = "tokens")]
    round_out: bool,
    /// The folder in which the masks are written as PNG
    #[arg(long, value_name = "DIR", help_heading = "Files")]
    out: Option<PathBuf>,
    /// The folder in which the pictures are written with their private pixels in red
    #[arg(long, value_name = "DIR", help_heading = "Files")]
    overlay: Option<PathBuf>,
    #[command(flatten)]
    output: OutputFlags,
}

/// The most bytes that a detector may say about one picture.
const MOST_SAID: u64 = 1 << 24;

/// What the masks of a folder are like. All of this is public, as masks are.
#[derive(Debug, Default, Serialize)]
struct MaskCounts {
    pictures: u64,
    /// Pictures without a private pixel, and without a public one.
    without_private: u64,
    without_public: u64,
    pixels: u64,
    private_pixels: u64,
    least_private_share: f64,
    most_private_share: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<TokenCounts>,
}

#[derive(Debug, Default, Serialize)]
struct TokenCounts {
    side: u32,
    tokens: u64,
    private_tokens: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.refuse_shared_folders()?;
    let limits = DataLimits::default();
    let class = ["picture".to_owned()];
    let pictures = Arc::new(ImageFolder::open_as(&arguments.pictures, &class, 0, &limits)?);
    let marked = arguments.from.as_ref().map(|from| MaskedRecords::open(pictures.clone(), from, &limits));
    let marked = marked.transpose()?;
    let names: Vec<PathBuf> = (0..pictures.len()).map(|record| written_name(&pictures, record)).collect();
    arguments.refuse_taken_names(&names)?;
    let mut counts = MaskCounts { least_private_share: 1.0, ..MaskCounts::default() };
    counts.tokens = arguments.tokens.map(|side| TokenCounts { side, ..TokenCounts::default() });
    for (record, name) in names.iter().enumerate() {
        let image = pictures.read(record)?.upright(|| pictures.place(record))?;
        let mask = match (&marked, &arguments.detector) {
            (Some(marked), _) => marked.mask(record, image.size())?,
            (None, Some(detector)) => Some(detected(detector, &pictures.place(record), &image, &limits)?),
            (None, None) => None,
        };
        let mask = mask.ok_or_else(|| Failure::request("no masks", "give --from or --detector"))?;
        let mask = counts.take(mask.dilated(arguments.dilate, arguments.dilate), arguments.round_out)?;
        if let Some(out) = &arguments.out {
            write(&out.join(name), &grey(&mask)?)?;
        }
        if let Some(overlay) = &arguments.overlay {
            write(&overlay.join(name), &tinted(&image, &mask)?)?;
        }
    }
    match arguments.output.json {
        true => output::print_json(&counts),
        false => output::print(&counts.text()),
    }
}

impl Arguments {
    /// Refuses to write where something else lies: what is written has the names of the pictures.
    fn refuse_shared_folders(&self) -> Result<(), Failure> {
        let place = |path: &PathBuf| fs::canonicalize(path).or_else(|_| std::path::absolute(path)).ok();
        let (pictures, from) = (("the pictures", Some(&self.pictures)), ("--from", self.from.as_ref()));
        let (out, overlay) = (("--out", self.out.as_ref()), ("--overlay", self.overlay.as_ref()));
        for (written, other) in
            [(out, pictures), (overlay, pictures), (out, from), (overlay, from), (overlay, out)]
        {
            let (Some(path), Some(taken)) = (written.1, other.1) else { continue };
            if place(path) == place(taken) {
                let (flag, what) = (written.0, other.0);
                return Err(Failure::request(
                    format!("{flag} is the folder of {what}: files of the same names would be overwritten"),
                    format!("give {flag} a folder of its own"),
                ));
            }
        }
        Ok(())
    }

    /// Refuses names at which something lies, which may be a picture, or a mask that somebody drew; and one name for two pictures.
    fn refuse_taken_names(&self, names: &[PathBuf]) -> Result<(), Failure> {
        for (flag, folder) in [("--out", &self.out), ("--overlay", &self.overlay)] {
            let Some(folder) = folder else { continue };
            let mut own = BTreeSet::new();
            for name in names {
                let path = folder.join(name);
                if !own.insert(name) {
                    let problem = format!("{flag}: two pictures would be written as {}", path.display());
                    return Err(Failure::request(
                        problem,
                        "give one of them another name: endings do not count",
                    ));
                }
                refuse_taken(&path)?;
            }
        }
        Ok(())
    }
}

/// What is written of a picture has its name, but for the ending.
fn written_name(pictures: &ImageFolder, record: usize) -> PathBuf {
    PathBuf::from(pictures.name(record).unwrap_or_default()).with_extension("png")
}

impl MaskCounts {
    /// Counts a mask, and returns it as it is to be written.
    fn take(&mut self, mask: Mask, round_out: bool) -> Result<Mask, Failure> {
        let mut mask = mask;
        if let Some(tokens) = &mut self.tokens {
            let patched = PatchedMask::new(&mask, tokens.side)?;
            tokens.tokens += patched.patches;
            tokens.private_tokens += patched.private;
            if round_out {
                mask = patched.rounded;
            }
        }
        let (private, pixels) = (mask.count(), mask.size().pixels());
        let share = private as f64 / pixels as f64;
        self.pictures += 1;
        self.pixels += pixels;
        self.private_pixels += private;
        self.without_private += u64::from(private == 0);
        self.without_public += u64::from(private == pixels);
        self.least_private_share = self.least_private_share.min(share);
        self.most_private_share = self.most_private_share.max(share);
        Ok(mask)
    }

    fn text(&self) -> String {
        let percent = |share: f64| format!("{:.2}%", 100.0 * share);
        let of = |part: u64, all: u64| percent(part as f64 / all.max(1) as f64);
        let (least, most) = (percent(self.least_private_share), percent(self.most_private_share));
        let mut lines = vec![
            ("pictures".to_owned(), self.pictures.to_string()),
            ("without private".to_owned(), self.without_private.to_string()),
            ("without public".to_owned(), self.without_public.to_string()),
            (
                "private pixels".to_owned(),
                format!("{} (of a picture, {least} to {most})", of(self.private_pixels, self.pixels)),
            ),
        ];
        if let Some(TokenCounts { side, tokens, private_tokens }) = &self.tokens {
            let share = of(*private_tokens, *tokens);
            lines.push((
                format!("private tokens of {side}x{side}"),
                format!("{share} ({private_tokens} of {tokens})"),
            ));
        }
        lines.into_iter().map(|(name, value)| format!("{name:<24}  {value}\n")).collect()
    }
}

/// The mask of a picture as a detector sees it: its standard output is a file of boxes, in JSON if it begins like that, else in CSV.
fn detected(detector: &str, picture: &str, image: &Image, limits: &DataLimits) -> Result<Mask, Failure> {
    let failed = |problem: String| {
        Failure::run(format!("{picture}: the detector `{detector}` {problem}"))
            .with_hint("a detector prints boxes in JSON or CSV for the picture that is its last argument, and [] for none")
    };
    let mut words = detector.split_whitespace();
    let program = words.next().ok_or_else(|| failed("is no program".to_owned()))?;
    let run =
        Command::new(program).args(words).arg(picture).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut run = run.map_err(|error| failed(format!("cannot be run: {error}")))?;
    let mut said = Vec::new();
    let heard = run.stdout.take().map(|answer| answer.take(MOST_SAID + 1).read_to_end(&mut said)).transpose();
    if said.len() as u64 > MOST_SAID {
        // A program without end would wait for somebody to hear the rest.
        let _ = run.kill();
    }
    let ended =
        heard.and_then(|_| run.wait()).map_err(|error| failed(format!("cannot be heard: {error}")))?;
    if said.len() as u64 > MOST_SAID {
        return Err(failed(format!("said more than {MOST_SAID} bytes")));
    }
    if !ended.success() {
        return Err(failed(format!("failed: {ended}")));
    }
    let json = matches!(said.trim_ascii_start().first(), Some(b'{' | b'['));
    let name = if json { "its answer.json" } else { "its answer.csv" };
    decode_image_mask(&said, Path::new(name), image.size(), limits)
        .map_err(|error| failed(format!("said something else: {error}")))
}

/// Refuses to write where something lies.
fn refuse_taken(path: &Path) -> Result<(), Failure> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    let problem = format!("{} is there already, and is not written over", path.display());
    Err(Failure::request(problem, "give --out and --overlay new folders of their own, or move it away"))
}

fn write(path: &Path, picture: &[u8]) -> Result<(), Failure> {
    // Two spellings may lead to one folder.
    refuse_taken(path)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)
        .map_err(|error| Failure::run(format!("cannot make {}: {error}", folder.display())))?;
    // Saying so for every picture of a folder would say nothing.
    output::write_file(path, picture, true)
}

/// A mask as a grey picture: private pixels are white.
fn grey(mask: &Mask) -> Result<Vec<u8>, Failure> {
    let pixels = mask.bytes().iter().map(|&private| 255 * private).collect();
    let picture = GrayImage::from_raw(mask.size().width(), mask.size().height(), pixels);
    encoded(picture.map(image::DynamicImage::from))
}

/// A picture in which the private pixels are half red.
fn tinted(image: &Image, mask: &Mask) -> Result<Vec<u8>, Failure> {
    let shown = photograph(image)?;
    let both = shown.pixels().iter().zip(mask.bytes());
    let tint = |(&Rgb(red, green, blue), &private): (&Rgb, &u8)| match private {
        0 => [red, green, blue],
        _ => [128 + red / 2, green / 2, blue / 2],
    };
    let picture =
        RgbImage::from_raw(mask.size().width(), mask.size().height(), both.flat_map(tint).collect());
    encoded(picture.map(image::DynamicImage::from))
}

fn encoded(picture: Option<image::DynamicImage>) -> Result<Vec<u8>, Failure> {
    let mut bytes = Cursor::new(Vec::new());
    let picture = picture.ok_or_else(|| Failure::run("a mask could not be drawn"))?;
    picture
        .write_to(&mut bytes, ImageFormat::Png)
        .map_err(|error| Failure::run(format!("a mask could not be encoded: {error}")))?;
    Ok(bytes.into_inner())
}
