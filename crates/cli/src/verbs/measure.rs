//! `dapple measure`: how far two folders of pictures lie apart.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use dapple_plan::ViewPlan;
use dapple_plan::spec::Pixels;
use dapple_train::{FeatureExtractor, frechet_distance, kernel_distance};
use serde::Serialize;

use crate::args::OutputFlags;
use crate::failure::Failure;
use crate::output;
use crate::shell_words::ShellWords;

/// What is said of every distance.
const NOT_PRIVATE: &str = "note: this figure is computed from the pictures as they are and is not private";

/// Measures how far two folders of pictures lie apart, by the features of a model
#[derive(Debug, Args)]
#[command(after_help = "The figures are not private: they tell of every picture, and no noise is added.

Example:
  dapple measure fid real synthetic --model resnet-18 --weights resnet18.safetensors
  dapple measure kid real synthetic --model resnet-18 --weights resnet18.safetensors --json")]
pub(crate) struct Arguments {
    /// The distance
    #[arg(value_name = "DISTANCE")]
    distance: DistanceKind,
    /// A folder of pictures, in any folders below it
    #[arg(value_name = "A")]
    one: PathBuf,
    /// Another folder of pictures
    #[arg(value_name = "B")]
    other: PathBuf,
    /// The model whose features are taken, from the layer before the last; `dapple models` lists them
    #[arg(long, value_name = "NAME", value_parser = ShellWords::models(), hide_possible_values = true)]
    model: String,
    /// The safetensors file of its weights
    #[arg(long, value_name = "FILE")]
    weights: PathBuf,
    /// The size to which pictures are brought [default: the model's usual one]
    #[arg(long, value_name = "WxH", value_parser = pixels)]
    size: Option<Pixels>,
    /// What is subtracted from red, green and blue, of values from 0 to 1 [default: 0.485,0.456,0.406]
    #[arg(long, value_name = "R,G,B", value_delimiter = ',', hide_default_value = true, default_values_t = [0.485, 0.456, 0.406])]
    mean: Vec<f64>,
    /// What red, green and blue are divided by [default: 0.229,0.224,0.225]
    #[arg(long, value_name = "R,G,B", value_delimiter = ',', hide_default_value = true, default_values_t = [0.229, 0.224, 0.225])]
    std: Vec<f64>,
    /// The pictures of each folder in a block of kid [default: a tenth of the smaller folder, at most 1000]
    #[arg(long, value_name = "N")]
    block: Option<usize>,
    /// The number of worker threads [default: one for each core]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,
    #[command(flatten)]
    output: OutputFlags,
}

/// A distance between two sets of pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum DistanceKind {
    /// The Fréchet distance of two Gaussians
    Fid,
    /// The kernel distance, with its standard error over blocks
    Kid,
}

#[derive(Serialize)]
struct Answer<'a> {
    distance: DistanceKind,
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    standard_error: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<usize>,
    pictures: [usize; 2],
    model: &'a str,
    features: usize,
    private: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { distance, model, output, .. } = arguments;
    if *distance == DistanceKind::Fid && arguments.block.is_some() {
        return Err(Failure::request("fid has no blocks", "leave --block out, or measure kid"));
    }
    let views = ViewPlan {
        size: arguments.size,
        mean: Some(arguments.mean.clone()),
        std: Some(arguments.std.clone()),
        ..ViewPlan::default()
    };
    let extractor = FeatureExtractor::open(model, &arguments.weights, &views, arguments.threads)?;
    let (one, other) = (extractor.features(&arguments.one)?, extractor.features(&arguments.other)?);
    let (pictures, features) = ([one.count(), other.count()], extractor.length());
    let mut answer = Answer {
        distance: *distance,
        value: 0.0,
        standard_error: None,
        blocks: None,
        block: None,
        pictures,
        model,
        features,
        private: false,
    };
    match distance {
        DistanceKind::Fid => answer.value = frechet_distance(&one, &other)?,
        DistanceKind::Kid => {
            let found = kernel_distance(&one, &other, arguments.block)?;
            answer.value = found.value;
            answer.standard_error = found.standard_error;
            (answer.blocks, answer.block) = (Some(found.blocks), Some(found.block));
        }
    }
    output::say(output.quiet, NOT_PRIVATE);
    if output.json {
        return output::print_json(&answer);
    }
    output::print(&text(&answer))
}

fn text(answer: &Answer<'_>) -> String {
    let mut lines = match (answer.distance, answer.standard_error) {
        (DistanceKind::Fid, _) => vec![("FID", format!("{:.6}", answer.value))],
        (DistanceKind::Kid, None) => vec![("KID", format!("{:.6e}", answer.value))],
        (DistanceKind::Kid, Some(error)) => vec![("KID", format!("{:.6e} ± {error:.1e}", answer.value))],
    };
    if let (Some(blocks), Some(block)) = (answer.blocks, answer.block) {
        lines.push(("blocks", format!("{blocks} of {block} pictures")));
    }
    let [one, other] = answer.pictures;
    lines.push(("pictures", format!("{one} and {other}")));
    lines.push(("features", format!("{} of {}", answer.features, answer.model)));
    lines.iter().map(|(name, value)| format!("{name:<8}  {value}\n")).collect()
}

fn pixels(text: &str) -> Result<Pixels, String> {
    text.parse().map_err(|()| "not a size such as 224x224".to_owned())
}
