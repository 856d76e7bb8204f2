//! `dapple export`: a model as a file that other programs run.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use dapple_plan::PlanSpec;
use dapple_plan::spec::{Performance, Pixels, keys};
use dapple_train::{Look, OnnxError, Predictor, ReleasedModel};
use serde::Serialize;

use crate::args::OutputFlags;
use crate::failure::Failure;
use crate::output;
use crate::shell_words::ShellWords;

/// Writes the model of a run, or a model by its name, as an ONNX file
#[derive(Debug, Args)]
#[command(
    after_help = "The file holds the weights, takes any number of inputs at once, and is for operators of version 18, which ONNX Runtime knows since 1.14. \
Its outputs are scores, of which the softmax gives probabilities. Of a run it also tells the classes, and mean and std of the pixels.

Examples:
  dapple export runs/first --onnx first.onnx
  dapple export runs/streets --size 2048x1024 --onnx streets.onnx
  dapple export resnet-18 --weights resnet18.safetensors --set model.norm=frozen --onnx resnet18.onnx"
)]
pub(crate) struct Arguments {
    /// The folder of a run, or the name of a model
    #[arg(value_name = "RUN|MODEL", value_parser = ShellWords::folders_or_models(), hide_possible_values = true)]
    source: PathBuf,
    /// The file that is written
    #[arg(long, value_name = "FILE")]
    onnx: PathBuf,
    /// Width and height of the inputs [default: those of the run's crops, or the usual ones of the model]
    #[arg(long, value_name = "WxH", value_parser = size)]
    size: Option<Pixels>,
    /// Of a model by its name: how many classes it tells apart [default: as many as usual]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    classes: Option<u16>,
    /// Of a model by its name: its weights [default: fresh ones]
    #[arg(long, value_name = "FILE.safetensors")]
    weights: Option<String>,
    /// Of a model by its name: sets a key of the plan's section `model`; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = ShellWords::model_settings(), hide_possible_values = true)]
    set: Vec<String>,
    /// Writes two inputs and what the model says about them, by which a program can be checked that runs the file
    #[arg(long, value_name = "FILE.safetensors")]
    sample: Option<PathBuf>,
    #[command(flatten)]
    output: OutputFlags,
}

fn size(text: &str) -> Result<Pixels, String> {
    match text.parse() {
        Ok(size @ Pixels { x: 1.., y: 1.. }) => Ok(size),
        _ => Err("give WxH, e.g. 640x480".to_owned()),
    }
}

#[derive(Serialize)]
struct Answer {
    onnx: String,
    input: Vec<usize>,
    output: Vec<usize>,
    stored_values: usize,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    output::check_target("onnx", &arguments.onnx)?;
    if let Some(sample) = &arguments.sample {
        output::check_target("sample", sample)?;
    }
    let model = match arguments.source.is_dir() {
        true => of_run(arguments)?,
        false => named(arguments)?,
    };
    let quiet = arguments.output.quiet;
    let mut refused = None;
    output::replace_file(&arguments.onnx, quiet, |file| {
        let mut out = BufWriter::new(file);
        match model.write_onnx(&mut out) {
            Ok(()) => out.flush(),
            Err(OnnxError::Io(error)) => Err(error),
            Err(other) => {
                refused = Some(other.to_string());
                Err(std::io::Error::other("it does not fit"))
            }
        }
    })
    .map_err(|failure| match refused {
        Some(message) => Failure::request(message, "choose a smaller model, or smaller inputs"),
        None => failure,
    })?;
    if let Some(path) = &arguments.sample {
        let bytes = model.sample()?;
        output::replace_file(path, quiet, |file: &mut File| file.write_all(&bytes))?;
    }
    let (input, output, stored_values) =
        (model.input_shape().to_vec(), model.output_shape().to_vec(), model.stored_values());
    if arguments.output.json {
        let onnx = arguments.onnx.display().to_string();
        return output::print_json(&Answer { onnx, input, output, stored_values });
    }
    let words = |shape: &[usize]| {
        std::iter::once("batch".to_owned())
            .chain(shape.iter().map(usize::to_string))
            .collect::<Vec<_>>()
            .join(" x ")
    };
    let lines =
        [("input", words(&input)), ("output", words(&output)), ("stored values", stored_values.to_string())];
    output::print(&lines.map(|(name, value)| output::wrapped(name, &value)).concat())
}

fn of_run(arguments: &Arguments) -> Result<ReleasedModel, Failure> {
    let given = [
        ("--classes", arguments.classes.is_some()),
        ("--weights", arguments.weights.is_some()),
        ("--set", !arguments.set.is_empty()),
    ];
    if let Some((flag, _)) = given.iter().find(|(_, given)| *given) {
        return Err(Failure::request(
            format!("{flag} is for a model by its name, and {} is a folder", arguments.source.display()),
            "leave it out: the folder of a run tells its model",
        ));
    }
    let predictor = Predictor::open(&arguments.source, Look::default(), &Performance::default())?;
    Ok(predictor.release(arguments.size)?)
}

fn named(arguments: &Arguments) -> Result<ReleasedModel, Failure> {
    let name = arguments.source.to_string_lossy();
    let known = keys::find("model.name").map_or(&[][..], |key| key.choices);
    if !known.contains(&name.as_ref()) && arguments.source.components().count() > 1 {
        return Err(Failure::request(
            format!("{name} is neither the folder of a run nor a model"),
            "give a folder that `dapple train` made, or a name that `dapple models` lists",
        ));
    }
    let mut spec = PlanSpec::default();
    spec.set("model.name", &name)?;
    for setting in &arguments.set {
        match setting.split_once('=') {
            Some((key, value)) if key.trim().starts_with("model.") => spec.set(key.trim(), value.trim())?,
            _ => {
                return Err(Failure::request(
                    format!("--set {setting} is no setting of a model"),
                    "write --set model.key=value, e.g. --set model.norm=frozen; `dapple keys model` lists them",
                ));
            }
        }
    }
    spec.model.weights = arguments.weights.clone().or(spec.model.weights);
    let classes = arguments.classes.map(usize::from);
    Ok(ReleasedModel::named(&spec.model, Path::new(""), arguments.size, classes)?)
}
