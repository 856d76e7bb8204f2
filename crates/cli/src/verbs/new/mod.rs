//! `dapple new`: from a folder of photographs to a plan, with its price.

mod answers;
mod draft;
mod layout;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use dapple_plan::spec::Pixels;
use dapple_plan::spec::keys;
use dapple_plan::{BracketPrecision, PlanSpec, Relation, number};
use dapple_train::data::{Closeness, DataPlan, Inspection, inspect, open};
use dapple_train::{Completed, Estimate, Request};
use serde::Serialize;

use crate::args::OutputFlags;
use crate::failure::Failure;
use crate::output::{self, wrapped};
use crate::progress::bar;
use answers::{Interview, ProtectKind, Protection, Wishes};
use draft::PlanDraft;
use layout::PhotoLayout;

/// Makes a plan for a folder of photographs: asks what is to be protected, and tells what it costs
#[derive(Debug, Args)]
#[command(
    after_help = "Photographs lie in one folder for each class (photos/cat, photos/dog), or in photos/images beside label maps in photos/labels; photos/train and photos/test may each hold such folders.
What no flag says is asked; --yes takes the answers in brackets. A face has --pixels pixels at --metres metres and comes as near as --nearest metres: the patch must cover it there.

Examples:
  dapple new photos
  dapple new photos --protect face --pixels 24 --metres 10 --nearest 4 --epsilon 8
  dapple new streets --protect plate --pixels 60x30 --yes --out streets.toml"
)]
pub(crate) struct Arguments {
    /// The folder of the photographs
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// What is to be protected
    #[arg(long, value_enum)]
    protect: Option<ProtectKind>,
    /// How large the face, plate or patch is in pixels
    #[arg(long, value_name = "N|WxH", value_parser = pixels)]
    pixels: Option<Pixels>,
    /// The distance from the camera at which it has so many pixels
    #[arg(long, value_name = "M")]
    metres: Option<f64>,
    /// The least distance at which it comes before the camera [default: --metres]
    #[arg(long, value_name = "M")]
    nearest: Option<f64>,
    /// The folder of masks that mark private regions
    #[arg(long, value_name = "DIR")]
    masks: Option<PathBuf>,
    /// What it may cost [default: 8]
    #[arg(long, value_name = "E")]
    epsilon: Option<f64>,
    /// The probability that the promise may fail [default: by the number of photographs]
    #[arg(long, value_name = "D")]
    delta: Option<f64>,
    /// The model [default: small-cnn, or small-fcn for label maps]
    #[arg(long, value_name = "NAME", value_parser = models(), hide_possible_values = true)]
    model: Option<String>,
    /// A file of public weights, of which the last layer is trained
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Where it is trained: auto, cpu or cuda
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// The file of the plan, which must not exist
    #[arg(long, value_name = "FILE.toml", default_value = "plan.toml", help_heading = "Files")]
    out: PathBuf,
    /// Asks nothing
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    output: OutputFlags,
}

fn models() -> PossibleValuesParser {
    PossibleValuesParser::new(keys::find("model.name").map_or(&[][..], |key| key.choices))
}

fn pixels(text: &str) -> Result<Pixels, String> {
    text.parse().map_err(|()| "not a number of pixels, or WxH".to_owned())
}

#[derive(Serialize)]
struct Answer {
    plan: String,
    records: usize,
    epsilon: f64,
    delta: f64,
    noise_multiplier: f64,
    protects: String,
    record_level_epsilon: Option<f64>,
    steps: u64,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    megabytes: Option<u64>,
    next: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (json, quiet) = (arguments.output.json, arguments.output.quiet);
    let mut interview = Interview::new(!arguments.yes && !json);
    let folder = answers::folder(arguments.folder.as_deref(), &mut interview)?;
    let layout = PhotoLayout::of(&folder)?;
    refuse_taken(&arguments.out)?;
    let found = inspected(&layout, quiet)?;
    output::say(quiet, &seen(&layout, &found));
    let answers = Wishes::gather(arguments, &mut interview)?;
    let base = arguments.out.parent().unwrap_or(Path::new("")).to_owned();
    let (layout, answers) = (rooted(layout, &base), rooted_answers(answers, &base));
    let weights = arguments.weights.as_ref().map(|path| from(path, &base));
    let command = output::command_line();
    let draft = PlanDraft {
        layout: &layout,
        found: &found,
        sizes: bounds(&found),
        answers: &answers,
        model: arguments.model.as_deref(),
        weights: weights.as_deref(),
        delta: arguments.delta,
        command: &command,
    };
    let text = draft.text();
    // The plan is priced before it is written: what cannot be trained is no plan.
    let spec = PlanSpec::from_toml(&text)?;
    let request = Request { spec, base, masks: Vec::new() };
    let completed = dapple_train::complete(&request)?;
    let estimate = dapple_train::estimate(&request)?;
    output::write_file(&arguments.out, text.as_bytes(), true)?;
    let answer = answer(arguments, &found, &completed, &estimate);
    match json {
        true => output::print_json(&answer),
        false => output::print(&told(&answer, &answers, &completed, &estimate)),
    }
}

fn refuse_taken(out: &Path) -> Result<(), Failure> {
    match std::fs::symlink_metadata(out) {
        Err(_) => Ok(()),
        Ok(_) => Err(Failure::request(
            format!("--out: there is a file {} already, and it is not written over", out.display()),
            format!("check it with `dapple check {}`, or give another name: --out other.toml", out.display()),
        )),
    }
}

/// Looks at the headers of all photographs.
fn inspected(layout: &PhotoLayout, quiet: bool) -> Result<Inspection, Failure> {
    let spec = PlanSpec { data: layout.data(), ..PlanSpec::default() };
    let plan = DataPlan::check(&spec).map_err(dapple_plan::PlanError::from)?;
    let data = open(&plan, Path::new(""))?.train;
    let bar = bar(data.len(), quiet, "{bar:40} {pos}/{len} photographs, {eta} left");
    let found = inspect(&*data, Closeness::Headers, &|| bar.inc(1));
    bar.finish_and_clear();
    Ok(found)
}

fn bounds(found: &Inspection) -> Option<(Pixels, Pixels)> {
    let sides = || found.sizes.iter().map(|(size, _)| Pixels { x: size.width(), y: size.height() });
    let least = sides().reduce(|a, b| Pixels { x: a.x.min(b.x), y: a.y.min(b.y) })?;
    let most = sides().reduce(|a, b| Pixels { x: a.x.max(b.x), y: a.y.max(b.y) })?;
    Some((least, most))
}

/// What lies in the folder, in a sentence.
fn seen(layout: &PhotoLayout, found: &Inspection) -> String {
    let sizes = match bounds(found) {
        Some((least, most)) if least == most => format!(" of {least} pixels"),
        Some((least, most)) => format!(" of {least} to {most} pixels"),
        None => String::new(),
    };
    let test = if layout.test.is_some() { "a test set" } else { "no test set, so a fifth is held back" };
    let faults = match found.faults.len() {
        0 => String::new(),
        count => format!("; {count} cannot be read, which `dapple check` names"),
    };
    format!(
        "{}: {} photographs{sizes}, {} classes, {test}{faults}",
        layout.train.display(),
        found.records,
        found.classes.len()
    )
}

/// A path as the plan says it, whose paths start in its own folder.
fn from(path: &Path, base: &Path) -> PathBuf {
    match base.as_os_str().is_empty() {
        true => path.to_owned(),
        false => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
    }
}

fn rooted(layout: PhotoLayout, base: &Path) -> PhotoLayout {
    PhotoLayout {
        train: from(&layout.train, base),
        test: layout.test.as_ref().map(|test| from(test, base)),
        ..layout
    }
}

fn rooted_answers(answers: Wishes, base: &Path) -> Wishes {
    let protection = match answers.protection {
        Protection::Regions { masks } => Protection::Regions { masks: from(&masks, base) },
        other => other,
    };
    Wishes { protection, ..answers }
}

fn answer(arguments: &Arguments, found: &Inspection, completed: &Completed, estimate: &Estimate) -> Answer {
    let certificate = &completed.certificate;
    Answer {
        plan: arguments.out.display().to_string(),
        records: found.records,
        epsilon: certificate.epsilon.upper,
        delta: certificate.delta,
        noise_multiplier: completed.plan.noise_multiplier(),
        protects: certificate.protects.clone(),
        record_level_epsilon: record_level(completed),
        steps: estimate.steps,
        seconds: estimate.seconds_a_step * estimate.steps as f64,
        megabytes: most_memory(),
        next: format!("dapple check {}", arguments.out.display()),
    }
}

/// Epsilon of the same run if whole photographs are substituted; `None` if there is no such bound, or it is too large to report.
fn record_level(completed: &Completed) -> Option<f64> {
    let plan = match completed.plan.relation() {
        Relation::Patch => completed.plan.at_relation(Relation::Replace),
        Relation::AddRemove | Relation::Replace => return Some(completed.certificate.epsilon.upper),
        Relation::Masked | Relation::User => return None,
    };
    plan.price(BracketPrecision::default()).ok().map(|price| price.epsilon.upper)
}

/// The noise that a patch of a tenth of each side would need in crops of a quarter, where a plan protects whole photographs.
fn patch_level(completed: &Completed) -> Option<String> {
    let mut spec = completed.spec.clone();
    let image = completed.plan.spatial().image()?;
    let part = |parts: u32| Pixels { x: (image.width() / parts).max(1), y: (image.height() / parts).max(1) };
    spec.privacy.relation = Some(Relation::Patch);
    spec.privacy.noise_multiplier = None;
    (spec.region.patch, spec.pipeline.crop) = (Some(part(10)), Some(part(4)));
    let solved = spec.settle(&[], BracketPrecision::default()).ok()??;
    Some(format!(
        "a patch of {} alone, in crops of {}, takes noise {} in the place of {}: --protect patch",
        part(10),
        part(4),
        super::calibrate::words(&solved),
        number::up(completed.plan.noise_multiplier(), 3)
    ))
}

/// The most memory that this process has taken, in megabytes, where the system tells.
fn most_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes.div_ceil(1024))
}

fn told(answer: &Answer, answers: &Wishes, completed: &Completed, estimate: &Estimate) -> String {
    let mut text = wrapped("plan", &answer.plan);
    text.push_str(&wrapped("protects", &answer.protects));
    let epsilon = number::up(answer.epsilon, 4);
    text.push_str(&wrapped(
        "epsilon",
        &format!(
            "<= {epsilon} at delta {}, by noise {}",
            number::brief(answer.delta),
            number::up(answer.noise_multiplier, 3)
        ),
    ));
    let levels = match (&answers.protection, answer.record_level_epsilon) {
        (Protection::Patch { .. }, Some(epsilon)) if epsilon <= answer.epsilon => Some(
            "no less than for whole photographs: every crop sees so large a patch of so small photographs"
                .to_owned(),
        ),
        (Protection::Patch { .. }, Some(epsilon)) => {
            Some(format!("<= {} for whole photographs, by the same noise", number::up(epsilon, 4)))
        }
        (Protection::Patch { .. }, None) => Some("too large to tell for whole photographs".to_owned()),
        (Protection::Image, _) => patch_level(completed),
        (Protection::Regions { .. }, _) => {
            Some("none for whole photographs: the rest of each is public".to_owned())
        }
    };
    if let Some(levels) = levels {
        text.push_str(&wrapped("", &levels));
    }
    text.push_str(&wrapped(
        "time",
        &format!(
            "about {}: {} steps of {} on {}, by a dry step on blank images",
            span(answer.seconds),
            answer.steps,
            span(estimate.seconds_a_step),
            estimate.machine
        ),
    ));
    if let Some(megabytes) = answer.megabytes {
        text.push_str(&wrapped("memory", &format!("about {megabytes} MB")));
    }
    text + &format!(
        "\nRead the plan, change what you like, and check it against the photographs:\n  {}\n",
        answer.next
    )
}

/// A time as people say it.
fn span(seconds: f64) -> String {
    match Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX).as_secs() {
        0 if seconds < 0.1 => format!("{:.1} ms", 1e3 * seconds),
        0..=9 => format!("{seconds:.1} s"),
        whole @ 10..=119 => format!("{whole} s"),
        whole @ 120..=7199 => format!("{} minutes", whole / 60),
        whole => format!("{:.1} hours", whole as f64 / 3600.0),
    }
}
