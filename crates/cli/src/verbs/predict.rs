//! `dapple predict`: what the model of a run says about images or clips.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use dapple_pages::label_pictures;
use dapple_report::{Cell, Column, Table, TextStyle};
use dapple_train::data::{DataError, Image, LabelMap, clips, formats};
use dapple_train::{Answers, ClassDescription, Prediction, Predictor};
use serde::Serialize;

use crate::args::OutputFlags;
use crate::failure::Failure;
use crate::look::LookFlags;
use crate::output;
use crate::progress::bar;

/// How many classes of a label map a line of text names.
const NAMED: usize = 3;

/// Asks the model of a run about images: the probability of each class, or label maps and colour overlays
#[derive(Debug, Args)]
#[command(after_help = "Example:
  dapple predict runs/first photo.png --out predictions")]
pub(crate) struct Arguments {
    /// The folder of the run
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Pictures, or clips for a model of clips
    #[arg(value_name = "IMG", required = true)]
    images: Vec<PathBuf>,
    /// Where label maps and overlays go, as NAME.labels.png and NAME.overlay.png
    #[arg(long, value_name = "DIR", default_value = "predictions")]
    out: PathBuf,
    #[command(flatten)]
    look: LookFlags,
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Serialize)]
struct Answer {
    answers: Answers,
    classes: Vec<ClassDescription>,
    images: Vec<Said>,
}

/// What was said about one image.
#[derive(Serialize)]
#[serde(untagged)]
enum Said {
    Class { image: String, class: String, probability: f64, probabilities: Vec<f64> },
    Map { image: String, width: u32, height: u32, labels: String, overlay: String, shares: Vec<f64> },
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let performance = arguments.look.machine.performance();
    let mut predictor = Predictor::open(&arguments.folder, (&arguments.look).into(), &performance)?;
    let description = predictor.description().clone();
    if description.answers == Answers::LabelMap {
        check_names(&arguments.images)?;
    }
    let limits = predictor.plan().data.limits;
    let mut images = Vec::with_capacity(arguments.images.len());
    let shown =
        bar(arguments.images.len(), arguments.output.quiet, "{bar:40} {pos}/{len} images, {eta} left");
    for path in &arguments.images {
        let read = match description.frames {
            Some(frames) => clips::read_clip(path, frames, &limits),
            None => formats::read_picture(path, &limits),
        };
        let image = read.map_err(|error| match error {
            // The hint of the error speaks of the plan's data, which these pictures are not part of.
            DataError::Io { .. } => Failure::request(error.to_string(), "give the names of pictures"),
            other => other.into(),
        })?;
        let place = path.display().to_string();
        images.push(match predictor.predict(&image, &place)? {
            Prediction::Class(probabilities) => said_class(place, &description.classes, probabilities),
            Prediction::Map(map) => {
                shown.suspend(|| said_map(arguments, path, &image, &map, &description.classes))?
            }
        });
        shown.inc(1);
    }
    shown.finish_and_clear();
    if arguments.output.json {
        let (answers, classes) = (description.answers, description.classes);
        return output::print_json(&Answer { answers, classes, images });
    }
    output::print(&table(&images, &description.classes)?.to_text(TextStyle::default()))
}

/// Refuses images that share a name, because label maps are named after their images.
fn check_names(images: &[PathBuf]) -> Result<(), Failure> {
    let mut names = BTreeMap::new();
    for path in images {
        if let Some(other) = names.insert(stem(path), path) {
            return Err(Failure::request(
                format!("{} and {} would have the same label map", other.display(), path.display()),
                "ask about them one after the other, each with its own --out",
            ));
        }
    }
    Ok(())
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn said_class(image: String, classes: &[ClassDescription], probabilities: Vec<f64>) -> Said {
    let best = (0..probabilities.len())
        .fold(0, |best, class| if probabilities[class] > probabilities[best] { class } else { best });
    Said::Class {
        image,
        class: classes.get(best).map_or_else(|| best.to_string(), |class| class.name.clone()),
        probability: probabilities.get(best).copied().unwrap_or_default(),
        probabilities,
    }
}

fn said_map(
    arguments: &Arguments,
    path: &Path,
    image: &Image,
    map: &LabelMap,
    classes: &[ClassDescription],
) -> Result<Said, Failure> {
    let folder = &arguments.out;
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::run(format!("cannot make the folder {}: {error}", folder.display())))?;
    let colours = label_pictures::palette(classes);
    let picture = label_pictures::map(map, &colours)?;
    let write = |ending: &str, bytes: &[u8]| -> Result<String, Failure> {
        let target = folder.join(format!("{}.{ending}.png", stem(path)));
        output::write_file(&target, bytes, arguments.output.quiet)?;
        Ok(target.display().to_string())
    };
    let labels = write("labels", &picture.to_png()?)?;
    let overlay = write("overlay", &picture.over(&label_pictures::photograph(image)?)?.to_png()?)?;
    let share = |class: usize| {
        let pixels = map.labels().iter().filter(|&&label| usize::from(label) == class).count();
        pixels as f64 / map.labels().len() as f64
    };
    let shares = (0..classes.len()).map(share).collect();
    let (width, height) = (map.size().width(), map.size().height());
    Ok(Said::Map { image: path.display().to_string(), width, height, labels, overlay, shares })
}

fn table(images: &[Said], classes: &[ClassDescription]) -> Result<Table, Failure> {
    let maps = images.iter().any(|said| matches!(said, Said::Map { .. }));
    let mut table = Table::new(if maps {
        vec![Column::text("image"), Column::text("size"), Column::text("mostly")]
    } else {
        vec![Column::text("image"), Column::text("class"), Column::number("probability")]
    });
    for said in images {
        table.push(match said {
            Said::Class { image, class, probability, .. } => {
                [image.as_str().into(), class.as_str().into(), Cell::Text(format!("{probability:.4}"))]
            }
            Said::Map { image, width, height, shares, .. } => {
                [image.as_str().into(), format!("{width}x{height}").into(), mostly(shares, classes).into()]
            }
        })?;
    }
    Ok(table)
}

/// The classes that cover most of an image, with their shares.
fn mostly(shares: &[f64], classes: &[ClassDescription]) -> String {
    let mut order: Vec<usize> = (0..shares.len()).filter(|&class| shares[class] > 0.0).collect();
    order.sort_by(|&a, &b| shares[b].total_cmp(&shares[a]));
    let words = order.iter().take(NAMED).map(|&class| {
        let name = classes.get(class).map_or("?", |class| class.name.as_str());
        format!("{name} {:.0} %", 100.0 * shares[class])
    });
    words.collect::<Vec<_>>().join(", ")
}
